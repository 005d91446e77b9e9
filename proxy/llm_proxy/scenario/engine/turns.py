"""Converts scenario responses into turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from llm_proxy import dialects
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
    ToolCallSpec,
    ToolCallsResponse,
    UsageSpec,
)
from llm_proxy.scenario.engine.matcher import MatchContext
from llm_proxy.scenario.generation import generated_values
from llm_proxy.turns import (
    FinishReason,
    Json,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Turn,
    Usage,
)

_FINAL_REPORT_CALL_ID: Final = "agent-final-report"
_FINAL_REPORT_TOOL: Final = "agent__final_report"
_DEFAULT_INPUT_TOKENS: Final = 64
_DEFAULT_OUTPUT_TOKENS: Final = 32
"""The default token counts of a response without scripted `usage`."""
_MAX_EXACT_INT: Final = 2**53

_SIGNATURE_FIELDS: Final = ("signature", "thoughtSignature", "thought_signature")
_REDACTED_FIELDS: Final = (
    *("redactedData", "redacted_data", "data"),
    *("encrypted_content", "encryptedContent", "reasoningEncryptedContent"),
)

_FINISH_BY_REASON: Final[Mapping[str, FinishReason]] = {
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
    return Turn(
        parts,
        finish_reason,
        raw_reason,
        scripted_usage(response.usage),
        model=context.model,
        metadata=_provider_metadata(response.provider_metadata, context),
    )


def parse_finish_reason(reason: str, parts: tuple[Part, ...]) -> tuple[FinishReason, str]:
    """The finish reason, and the raw text if it is an unknown one.

    Without a `reason`, `TOOL_CALLS` if a part is a tool call, else `STOP`.
    """
    if not reason:
        has_tool_call = any(isinstance(part, ToolCall) for part in parts)
        return (FinishReason.TOOL_CALLS if has_tool_call else FinishReason.STOP), ""
    finish = _FINISH_BY_REASON.get(reason.lower().replace("-", "_"))
    return (FinishReason.OTHER, reason) if finish is None else (finish, "")


def scripted_usage(
    usage: UsageSpec,
    default_input: int = _DEFAULT_INPUT_TOKENS,
    default_output: int = _DEFAULT_OUTPUT_TOKENS,
) -> Usage:
    """Token counts; the default for what is not scripted, and the sum as the total."""
    input_tokens = default_input if usage.input is None else usage.input
    output_tokens = default_output if usage.output is None else usage.output
    total_tokens = input_tokens + output_tokens if usage.total is None else usage.total
    return Usage(
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
    for item in (*response.reasoning, *content_items):
        yield _reasoning_part(ReasoningSpec(text=item) if isinstance(item, str) else item, context)


def _reasoning_part(reasoning: ReasoningSpec, context: MatchContext) -> Reasoning:
    """The reasoning part, with the signature and redacted content for this dialect."""
    fields = dict(_provider_metadata(reasoning.provider_metadata, context))
    texts = {name: value for name, value in fields.items() if isinstance(value, str) and value}
    signature = next((texts[name] for name in _SIGNATURE_FIELDS if name in texts), None)
    redacted = next((texts[name] for name in _REDACTED_FIELDS if name in texts), None)
    known_names = {*_SIGNATURE_FIELDS, *_REDACTED_FIELDS}
    other_fields = tuple((name, fields[name]) for name in fields if name not in known_names)
    return Reasoning(reasoning.text, signature, redacted, other_fields)


def _provider_metadata(
    metadata_by_provider: Mapping[str, Mapping[str, Any]], context: MatchContext
) -> Metadata:
    """The (name, value) pairs under the keys of this dialect, then of the provider."""
    dialect = dialects.dialect_named(context.dialect)
    keys = dict.fromkeys((*dialect.metadata_names.read_keys, context.provider))
    return tuple(item for key in keys for item in metadata_by_provider.get(key, {}).items())


def _response_parts(response: Response, context: MatchContext) -> Iterator[Part]:
    match response:
        case TextResponse(assistant_text=text):
            yield Text(text)
        case ToolCallsResponse(assistant_text=leading_text, tool_calls=calls):
            if leading_text:
                yield Text(leading_text)
            for index, call in enumerate(calls):
                if call.assistant_text:
                    yield Text(call.assistant_text)
                yield _tool_call(call, index, context)
        case FinalReportResponse():
            if response.assistant_text:
                yield Text(response.assistant_text)
            arguments = {
                "status": response.status,
                "report_format": response.report_format or UNSET,
                "report_content": response.report_content,
                "content_json": response.report_content_json,
            }
            yield ToolCall(
                _FINAL_REPORT_CALL_ID,
                _FINAL_REPORT_TOOL,
                json_stringify(
                    {name: value for name, value in arguments.items() if value is not UNSET}
                ),
            )
        case StructuredResponse(values=values):
            generated: Json = dict(values)
            if (schema := context.conversation.response_schema) is not None:
                generated = generated_values.make_value(schema, context.seed, values)
            yield Text(json_stringify(generated))
        case ReActResponse():
            yield Text(react_text(response))
        case PartsResponse(parts=parts):
            for index, part in enumerate(parts):
                match part:
                    case TextPartSpec(text=text):
                        yield Text(text)
                    case ReasoningPartSpec():
                        yield _reasoning_part(part, context)
                    case RefusalPartSpec(text=text):
                        yield Refusal(text)
                    case ToolCallPartSpec():
                        yield _tool_call(part, index, context)


def react_text(react_response: ReActResponse) -> str:
    """The ReAct text that clients parse (document 002): one line per field, without empty fields.

    Line ends within thought and action are removed: the client's parser reads only the first line.
    An action always has an input, followed by a line end.
    """
    thought, action = (
        " ".join(line.strip() for line in text.splitlines()).strip()
        for text in (react_response.thought, react_response.action)
    )
    final_answer = react_response.final_answer.strip()
    lines = [f"Thought: {thought}"] if thought else []
    if action:
        arguments = lenient_json.compact_json(dict(react_response.action_input))
        lines += [f"Action: {action}", f"Action Input: {arguments}"]
    if final_answer:
        lines.append(f"Final Answer: {final_answer}")
    elif action or thought:
        lines.append("")
    return "\n".join(lines)


def _tool_call(
    call: ToolCallSpec | ToolCallPartSpec, index: int, context: MatchContext
) -> ToolCall:
    """A call; its arguments "made" are generated for the schema of the request's tool."""
    arguments: Json = {}
    if not isinstance(call.arguments, str):
        arguments = dict(call.arguments)
    else:
        tools = (tool for tool in context.conversation.tools if tool.name == call.tool_name)
        if (tool := next(tools, None)) is not None and tool.parameters_schema is not None:
            arguments = generated_values.make_value(tool.parameters_schema, context.seed)
    return ToolCall(call.call_id or f"call-{index + 1}", call.tool_name, json_stringify(arguments))


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
