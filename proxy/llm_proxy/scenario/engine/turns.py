"""Answers of scenario documents as turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from llm_proxy.dialects import lenient_json
from llm_proxy.scenario.documents.document import (
    Answer,
    FinalReport,
    Parts,
    ReAct,
    Response,
    SaidCall,
    SaidReasoning,
    SaidRefusal,
    SaidText,
    Structured,
    TextAnswer,
    Thought,
    ToolCalls,
    Usage,
)
from llm_proxy.scenario.documents.fields import Arguments
from llm_proxy.scenario.engine import error_reports, metadata
from llm_proxy.scenario.engine.match_context import Cue
from llm_proxy.scenario.generation import generated_values, react
from llm_proxy.turns import Finish, Json, Part, Refusal, Text, ToolCall, Turn
from llm_proxy.turns import Usage as Counted

_INPUT: Final = 64
_OUTPUT: Final = 32
"""The tokens of an answer that names none."""
_EXACT: Final = 2**53

FINISHES: Final[Mapping[str, Finish]] = {
    **dict.fromkeys(("stop", "end_turn", "eos", "complete", "completed"), Finish.STOP),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens"), Finish.LENGTH),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), Finish.TOOL_CALLS),
    **dict.fromkeys(("content_filter", "safety"), Finish.CONTENT_FILTER),
    "stop_sequence": Finish.STOP_SEQUENCE,
    "refusal": Finish.REFUSAL,
    "model_context_window_exceeded": Finish.CONTEXT_FULL,
    "pause_turn": Finish.PAUSED,
    "error": Finish.ERROR,
}
"""What the words of providers mean, in small letters and with underscores."""


def turn(response: Response, cue: Cue) -> Turn:
    """What the answer says, for the dialect and the model that are asked.

    Raises `CannotSay` where it is to be made of a schema that nothing fits.
    """
    parts = (*_thoughts(response, cue), *_parts(response, cue))
    finish, raw = finish_of(response.finish_reason, parts)
    told = metadata.told(response.provider_metadata, cue.dialect, cue.provider)
    return Turn(parts, finish, raw, usage_of(response.usage), model=cue.model, metadata=told)


def finish_of(reason: str, parts: tuple[Part, ...]) -> tuple[Finish, str]:
    """Why an answer finished, and the word for it where no other will do."""
    if not reason:
        calls = any(isinstance(part, ToolCall) for part in parts)
        return (Finish.TOOL_CALLS if calls else Finish.STOP), ""
    finish = FINISHES.get(reason.lower().replace("-", "_"))
    return (Finish.OTHER, reason) if finish is None else (finish, "")


def usage_of(usage: Usage, given_input: int = _INPUT, given_output: int = _OUTPUT) -> Counted:
    """The tokens; what is not scripted has its default, and a total is the sum."""
    heard = given_input if usage.input is None else usage.input
    said = given_output if usage.output is None else usage.output
    total = heard + said if usage.total is None else usage.total
    return Counted(heard, said, total, usage.cache_read, usage.cache_write, usage.reasoning)


def _thoughts(response: Answer, cue: Cue) -> Iterator[Part]:
    """Reasoning in any of its forms; `reasoning` before `reasoning_content`."""
    content = response.reasoning_content
    more = content if isinstance(content, tuple) else () if content is None else (content,)
    for each in (*response.reasoning, *more):
        thought = Thought(text=each) if isinstance(each, str) else each
        yield metadata.reasoning(thought, cue.dialect, cue.provider)


def _parts(response: Response, cue: Cue) -> tuple[Part, ...]:
    match response:
        case TextAnswer(assistant_text=text):
            return (Text(text),)
        case ToolCalls():
            return tuple(_calls(response, cue))
        case FinalReport():
            return tuple(_report(response))
        case Structured(values=values):
            value: Json = dict(values)
            if cue.conversation.schema is not None:
                value = generated_values.value(cue.conversation.schema, cue.seed, values)
            return (Text(stringified(value)),)
        case ReAct():
            return (Text(react.text(response)),)
        case Parts(parts=parts):
            return tuple(_part(part, at, cue) for at, part in enumerate(parts))


def _calls(response: ToolCalls, cue: Cue) -> Iterator[Part]:
    if response.assistant_text:
        yield Text(response.assistant_text)
    for number, call in enumerate(response.tool_calls, 1):
        if call.assistant_text:
            yield Text(call.assistant_text)
        arguments = _arguments(call.tool_name, call.arguments, cue)
        yield ToolCall(call.call_id or f"call-{number}", call.tool_name, arguments)


def _report(response: FinalReport) -> Iterator[Part]:
    if response.assistant_text:
        yield Text(response.assistant_text)
    said = {
        "status": response.status,
        "report_format": response.report_format or UNSET,
        "report_content": response.report_content,
        "content_json": response.report_content_json,
    }
    arguments = {name: it for name, it in said.items() if it is not UNSET}
    yield ToolCall(error_reports.CALL_ID, error_reports.TOOL, stringified(arguments))


def _part(part: SaidText | SaidReasoning | SaidRefusal | SaidCall, at: int, cue: Cue) -> Part:
    match part:
        case SaidText(text=text):
            return Text(text)
        case SaidReasoning():
            return metadata.reasoning(part, cue.dialect, cue.provider)
        case SaidRefusal(text=text):
            return Refusal(text)
        case SaidCall(tool_name=name, arguments=arguments, call_id=call_id):
            return ToolCall(call_id or f"call-{at + 1}", name, _arguments(name, arguments, cue))


def _arguments(name: str, arguments: Arguments, cue: Cue) -> str:
    """The arguments as JSON; those to be made fit the schema of the tool that is offered."""
    if arguments != "made":
        return stringified(arguments)
    offered = (tool.schema for tool in cue.conversation.tools if tool.name == name)
    schema = next(offered, None)
    return stringified({} if schema is None else generated_values.value(schema, cue.seed))


def stringified(value: Any) -> str:
    """JSON as `JSON.stringify` writes it: compact, in the order given, 1.0 as 1."""
    return lenient_json.compact(_numbered(value))


def _numbered(value: Any) -> Json:
    match value:
        case float() if value.is_integer() and abs(value) < _EXACT:
            return int(value)
        case dict():
            return {name: _numbered(it) for name, it in value.items()}
        case list() | tuple():
            return [_numbered(it) for it in value]
        case _:
            found: Json = value
            return found
