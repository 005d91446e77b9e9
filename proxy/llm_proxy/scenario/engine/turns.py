"""Converts scenario responses into turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from llm_proxy.dialects import lenient_json
from llm_proxy.scenario.documents.document import (
    FinalReportResponse,
    PartsResponse,
    ReActResponse,
    ReasoningPartSpec,
    ReasoningSpec,
    RefusalPartSpec,
    Response,
    ResponseSpec,
    StructuredResponse,
    TextPartSpec,
    TextResponse,
    ToolCallPartSpec,
    ToolCallsResponse,
    UsageSpec,
)
from llm_proxy.scenario.documents.fields import Arguments
from llm_proxy.scenario.engine import error_reports, metadata
from llm_proxy.scenario.engine.match_context import MatchContext
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


def scripted_turn(response: Response, cue: MatchContext) -> Turn:
    """What the answer says, for the dialect and the model that are asked.

    Raises `NotRepresentable` where it is to be made of a schema that nothing fits.
    """
    parts = (*_reasoning_parts(response, cue), *_response_parts(response, cue))
    finish, raw = finish_and_raw(response.finish_reason, parts)
    told = metadata.provider_metadata(response.provider_metadata, cue.dialect, cue.provider)
    return Turn(parts, finish, raw, scripted_usage(response.usage), model=cue.model, metadata=told)


def finish_and_raw(reason: str, parts: tuple[Part, ...]) -> tuple[Finish, str]:
    """Why an answer finished, and the word for it where no other will do."""
    if not reason:
        calls = any(isinstance(part, ToolCall) for part in parts)
        return (Finish.TOOL_CALLS if calls else Finish.STOP), ""
    finish = FINISHES.get(reason.lower().replace("-", "_"))
    return (Finish.OTHER, reason) if finish is None else (finish, "")


def scripted_usage(
    usage: UsageSpec, given_input: int = _INPUT, given_output: int = _OUTPUT
) -> Counted:
    """The tokens; what is not scripted has its default, and a total is the sum."""
    number = given_input if usage.input is None else usage.input
    count = given_output if usage.output is None else usage.output
    total = number + count if usage.total is None else usage.total
    return Counted(number, count, total, usage.cache_read, usage.cache_write, usage.reasoning)


def _reasoning_parts(response: ResponseSpec, cue: MatchContext) -> Iterator[Part]:
    """Reasoning in any of its forms; `reasoning` before `reasoning_content`."""
    content = response.reasoning_content
    more = content if isinstance(content, tuple) else () if content is None else (content,)
    for reasoning_spec in (*response.reasoning, *more):
        thought = (
            ReasoningSpec(text=reasoning_spec)
            if isinstance(reasoning_spec, str)
            else reasoning_spec
        )
        yield metadata.reasoning_part(thought, cue.dialect, cue.provider)


def _response_parts(response: Response, cue: MatchContext) -> tuple[Part, ...]:
    match response:
        case TextResponse(assistant_text=text):
            return (Text(text),)
        case ToolCallsResponse():
            return tuple(_tool_calls(response, cue))
        case FinalReportResponse():
            return tuple(_final_report_call(response))
        case StructuredResponse(values=values):
            value: Json = dict(values)
            if cue.conversation.response_schema is not None:
                value = generated_values.make_value(
                    cue.conversation.response_schema, cue.seed, values
                )
            return (Text(json_stringify(value)),)
        case ReActResponse():
            return (Text(react.react_text(response)),)
        case PartsResponse(parts=parts):
            return tuple(_part_of_spec(part, at, cue) for at, part in enumerate(parts))


def _tool_calls(response: ToolCallsResponse, cue: MatchContext) -> Iterator[Part]:
    if response.assistant_text:
        yield Text(response.assistant_text)
    for number, call in enumerate(response.tool_calls, 1):
        if call.assistant_text:
            yield Text(call.assistant_text)
        arguments = _arguments_text(call.tool_name, call.arguments, cue)
        yield ToolCall(call.call_id or f"call-{number}", call.tool_name, arguments)


def _final_report_call(response: FinalReportResponse) -> Iterator[Part]:
    if response.assistant_text:
        yield Text(response.assistant_text)
    fields = {
        "status": response.status,
        "report_format": response.report_format or UNSET,
        "report_content": response.report_content,
        "content_json": response.report_content_json,
    }
    arguments = {name: value for name, value in fields.items() if value is not UNSET}
    yield ToolCall(error_reports.CALL_ID, error_reports.TOOL, json_stringify(arguments))


def _part_of_spec(
    part: TextPartSpec | ReasoningPartSpec | RefusalPartSpec | ToolCallPartSpec,
    at: int,
    cue: MatchContext,
) -> Part:
    match part:
        case TextPartSpec(text=text):
            return Text(text)
        case ReasoningPartSpec():
            return metadata.reasoning_part(part, cue.dialect, cue.provider)
        case RefusalPartSpec(text=text):
            return Refusal(text)
        case ToolCallPartSpec(tool_name=name, arguments=arguments, call_id=call_id):
            return ToolCall(
                call_id or f"call-{at + 1}", name, _arguments_text(name, arguments, cue)
            )


def _arguments_text(name: str, arguments: Arguments, cue: MatchContext) -> str:
    """The arguments as JSON; those to be made fit the schema of the tool that is offered."""
    if arguments != "made":
        return json_stringify(arguments)
    offered = (tool.response_schema for tool in cue.conversation.tools if tool.name == name)
    schema = next(offered, None)
    return json_stringify({} if schema is None else generated_values.make_value(schema, cue.seed))


def json_stringify(value: Any) -> str:
    """JSON as `JSON.stringify` writes it: compact, in the order given, 1.0 as 1."""
    return lenient_json.compact_json(_parse_number(value))


def _parse_number(value: Any) -> Json:
    match value:
        case float() if value.is_integer() and abs(value) < _EXACT:
            return int(value)
        case dict():
            return {name: _parse_number(argument) for name, argument in value.items()}
        case list() | tuple():
            return [_parse_number(content) for content in value]
        case _:
            found: Json = value
            return found
