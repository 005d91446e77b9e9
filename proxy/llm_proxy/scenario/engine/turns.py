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
    ToolArguments,
    ToolCallPartSpec,
    ToolCallsResponse,
    UsageSpec,
)
from llm_proxy.scenario.engine import error_reports, metadata
from llm_proxy.scenario.engine.match_context import MatchContext
from llm_proxy.scenario.generation import generated_values, react
from llm_proxy.turns import FinishReason, Json, Part, Refusal, Text, ToolCall, Turn
from llm_proxy.turns import Usage as Counted

_DEFAULT_INPUT_TOKENS: Final = 64
_DEFAULT_OUTPUT_TOKENS: Final = 32
"""The default token counts of a response without scripted `usage`."""
_MAX_EXACT_INT: Final = 2**53

FINISH_BY_REASON: Final[Mapping[str, FinishReason]] = {
    **dict.fromkeys(("stop", "end_turn", "eos", "complete", "completed"), FinishReason.STOP),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens"), FinishReason.LENGTH),
    **dict.fromkeys(
        ("tool_calls", "tool_call", "tool_use", "function_call"), FinishReason.TOOL_CALLS
    ),
    **dict.fromkeys(("content_filter", "safety"), FinishReason.CONTENT_FILTER),
    "stop_sequence": FinishReason.STOP_SEQUENCE,
    "refusal": FinishReason.REFUSAL,
    "model_context_window_exceeded": FinishReason.CONTEXT_FULL,
    "pause_turn": FinishReason.PAUSED,
    "error": FinishReason.ERROR,
}
"""Finish reasons of all providers, in lower case with underscores."""


def turn_from_scripted_response(response: Response, context: MatchContext) -> Turn:
    """The turn of a scripted response, for the dialect and model of the request.

    Raises `NotRepresentable` if a value must be generated for a schema that nothing satisfies.
    """
    parts = (*_reasoning_parts(response, context), *_response_parts(response, context))
    finish_reason, raw_reason = parse_finish_reason(response.finish_reason, parts)
    turn_metadata = metadata.provider_metadata(
        response.provider_metadata, context.dialect, context.provider
    )
    return Turn(
        parts,
        finish_reason,
        raw_reason,
        scripted_usage(response.usage),
        model=context.model,
        metadata=turn_metadata,
    )


def parse_finish_reason(reason: str, parts: tuple[Part, ...]) -> tuple[FinishReason, str]:
    """The finish reason, and the raw text if it is an unknown one.

    Without a `reason`, `TOOL_CALLS` if a part is a tool call, else `STOP`.
    """
    if not reason:
        has_tool_call = any(isinstance(part, ToolCall) for part in parts)
        return (FinishReason.TOOL_CALLS if has_tool_call else FinishReason.STOP), ""
    finish = FINISH_BY_REASON.get(reason.lower().replace("-", "_"))
    return (FinishReason.OTHER, reason) if finish is None else (finish, "")


def scripted_usage(
    usage: UsageSpec,
    default_input: int = _DEFAULT_INPUT_TOKENS,
    default_output: int = _DEFAULT_OUTPUT_TOKENS,
) -> Counted:
    """Token counts; the default for what is not scripted, and the sum as the total."""
    input_tokens = default_input if usage.input is None else usage.input
    output_tokens = default_output if usage.output is None else usage.output
    total_tokens = input_tokens + output_tokens if usage.total is None else usage.total
    return Counted(
        input_tokens,
        output_tokens,
        total_tokens,
        usage.cache_read,
        usage.cache_write,
        usage.reasoning,
    )


def _reasoning_parts(response: ResponseSpec, context: MatchContext) -> Iterator[Part]:
    """All reasoning parts; those of `reasoning` before those of `reasoning_content`."""
    content = response.reasoning_content
    content_items = content if isinstance(content, tuple) else () if content is None else (content,)
    for reasoning_spec in (*response.reasoning, *content_items):
        spec = (
            ReasoningSpec(text=reasoning_spec)
            if isinstance(reasoning_spec, str)
            else reasoning_spec
        )
        yield metadata.reasoning_part(spec, context.dialect, context.provider)


def _response_parts(response: Response, context: MatchContext) -> tuple[Part, ...]:
    match response:
        case TextResponse(assistant_text=text):
            return (Text(text),)
        case ToolCallsResponse():
            return tuple(_tool_call_parts(response, context))
        case FinalReportResponse():
            return tuple(_final_report_parts(response))
        case StructuredResponse(values=values):
            generated: Json = dict(values)
            if context.conversation.response_schema is not None:
                generated = generated_values.make_value(
                    context.conversation.response_schema, context.seed, values
                )
            return (Text(json_stringify(generated)),)
        case ReActResponse():
            return (Text(react.react_text(response)),)
        case PartsResponse(parts=parts):
            return tuple(_part_from_spec(part, index, context) for index, part in enumerate(parts))


def _tool_call_parts(response: ToolCallsResponse, context: MatchContext) -> Iterator[Part]:
    if response.assistant_text:
        yield Text(response.assistant_text)
    for number, call in enumerate(response.tool_calls, 1):
        if call.assistant_text:
            yield Text(call.assistant_text)
        arguments = _arguments_json(call.tool_name, call.arguments, context)
        yield ToolCall(call.call_id or f"call-{number}", call.tool_name, arguments)


def _final_report_parts(response: FinalReportResponse) -> Iterator[Part]:
    if response.assistant_text:
        yield Text(response.assistant_text)
    fields = {
        "status": response.status,
        "report_format": response.report_format or UNSET,
        "report_content": response.report_content,
        "content_json": response.report_content_json,
    }
    arguments = {name: value for name, value in fields.items() if value is not UNSET}
    yield ToolCall(
        error_reports.FINAL_REPORT_CALL_ID,
        error_reports.FINAL_REPORT_TOOL,
        json_stringify(arguments),
    )


def _part_from_spec(
    part: TextPartSpec | ReasoningPartSpec | RefusalPartSpec | ToolCallPartSpec,
    index: int,
    context: MatchContext,
) -> Part:
    match part:
        case TextPartSpec(text=text):
            return Text(text)
        case ReasoningPartSpec():
            return metadata.reasoning_part(part, context.dialect, context.provider)
        case RefusalPartSpec(text=text):
            return Refusal(text)
        case ToolCallPartSpec(tool_name=name, arguments=arguments, call_id=call_id):
            return ToolCall(
                call_id or f"call-{index + 1}", name, _arguments_json(name, arguments, context)
            )


def _arguments_json(name: str, arguments: ToolArguments, context: MatchContext) -> str:
    """The arguments as JSON; with "made", generated for the schema of the request's tool."""
    if arguments != "made":
        return json_stringify(arguments)
    schemas = (tool.parameters_schema for tool in context.conversation.tools if tool.name == name)
    schema = next(schemas, None)
    return json_stringify(
        {} if schema is None else generated_values.make_value(schema, context.seed)
    )


def json_stringify(value: Any) -> str:
    """JSON as `JSON.stringify` writes it: compact, in the order given, 1.0 as 1."""
    return lenient_json.compact_json(_convert_integral_floats(value))


def _convert_integral_floats(value: Any) -> Json:
    match value:
        case float() if value.is_integer() and abs(value) < _MAX_EXACT_INT:
            return int(value)
        case dict():
            return {name: _convert_integral_floats(member) for name, member in value.items()}
        case list() | tuple():
            return [_convert_integral_floats(item) for item in value]
        case _:
            unchanged: Json = value
            return unchanged
