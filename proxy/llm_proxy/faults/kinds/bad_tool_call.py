r"""`bad-tool-call`: the response contains a tool call that cannot be executed.

    how=json      {"name":"get_weather","arguments":"{\"city\""}
    how=name      {"name":"get_weather_v2","arguments":"{\"city\":\"Rome\"}"}
    how=missing   {"name":"get_weather","arguments":"{}"}

Only the response's first tool call is changed. If the response has no tool call, its text is
replaced with a call to the request's first tool. Requests without tools are not supported.
`how=json` does not apply to Gemini, Ollama, or non-streaming responses of Anthropic and Bedrock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import ToolDefinition
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.turn_parts import is_provider_tool_call
from llm_proxy.faults import reencoding
from llm_proxy.faults.kind import (
    ALL_MESSAGES,
    FaultArgument,
    FaultEffect,
    FaultKind,
    FaultNotApplicable,
    InjectedActions,
    Mechanism,
    OneShot,
    StreamPosition,
)
from llm_proxy.turns import FinishReason, Json, Reasoning, ToolCall, ToolResult, Turn

_CORRUPTIONS: Final = ("json", "name", "missing")
_VALID_CALL_TURN: Final = Turn((ToolCall("", "f", "{}"),), finish=FinishReason.TOOL_CALLS)


def _bad_tool_call(how: str) -> Mechanism:
    def check_applicable(position: StreamPosition) -> None:
        turn = reencoding.to_representable_turn(position, _VALID_CALL_TURN)
        if not _offered_tools(position):
            raise FaultNotApplicable("the request offers no tools")
        if how == "json":
            try:
                invalid_call = ToolCall("", "f", "{")
                reencoding.to_representable_turn(position, replace(turn, parts=(invalid_call,)))
            except FaultNotApplicable:
                raise FaultNotApplicable(
                    "how=json does not apply to this response: "
                    f"{position.context.decoded_request.dialect.name} sends tool arguments as an "
                    "object, not as a JSON string"
                ) from None

    def replace_call(position: StreamPosition) -> InjectedActions:
        turns = list(reencoding.decode_whole_response(position))
        tools = _offered_tools(position)
        for turn_index, turn in enumerate(turns):
            for part_index, part in enumerate(turn.parts):
                if isinstance(part, ToolCall) and _is_executed_by_client(part, turn):
                    parts = list(turn.parts)
                    parts[part_index] = _corrupt_call(how, part, tools)
                    turns[turn_index] = replace(turn, parts=tuple(parts))
                    return reencoding.inject_replacement(position, turns)
        # The first tool that has a schema, else the first.
        tool = next((tool for tool in tools if tool.parameters_schema is not None), tools[0])
        call = _corrupt_call(how, ToolCall("", tool.name, "{}"), tools)
        reasoning = [part for part in turns[0].parts if isinstance(part, Reasoning)]
        turns[0] = replace(
            turns[0],
            parts=(*reasoning, call),
            metadata=(),
            finish=FinishReason.TOOL_CALLS,
            finish_raw="",
        )
        return reencoding.inject_replacement(position, turns)

    return OneShot(
        replace_call,
        taken_message_count=ALL_MESSAGES,
        changes_length=True,
        check_applicable=check_applicable,
    )


def _offered_tools(position: StreamPosition) -> Sequence[ToolDefinition]:
    decoded_request = position.context.decoded_request
    conversation = decoded_request.dialect.decode_request(decoded_request.request)
    return conversation.tools if conversation is not None else ()


def _is_executed_by_client(call: ToolCall, turn: Turn) -> bool:
    """Whether the client executes this call, and its arguments are a JSON object."""
    has_result = any(
        isinstance(part, ToolResult) and part.call_id == call.id for part in turn.parts
    )
    is_provider_call = has_result or is_provider_tool_call(call)
    return not is_provider_call and _parse_arguments(call) is not None


def _parse_arguments(call: ToolCall) -> dict[str, Json] | None:
    try:
        value = lenient_json.parse_json((call.arguments or "{}").encode("utf-8", "replace"))
    except ValueError:
        return None
    return dict(value) if isinstance(value, dict) else None


def _corrupt_call(how: str, call: ToolCall, tools: Sequence[ToolDefinition]) -> ToolCall:
    """Corrupts a call, given the tools that the request offers.

    Raises `FaultNotApplicable` where this corruption is not possible.
    """
    if how == "json":  # half of the arguments: no proper prefix of a JSON object is valid
        text = call.arguments.strip()
        return replace(call, arguments=text[: max(len(text) // 2, 1)] or "{")
    if how == "name":
        offered_names = {tool.name for tool in tools}
        suffix_number = 2
        while (name := f"{call.name}_v{suffix_number}") in offered_names:
            suffix_number += 1
        return replace(call, name=name)
    # The first argument that the schema requires, or the first one of a tool without a schema.
    arguments = _parse_arguments(call) or {}
    schema = next((tool.parameters_schema for tool in tools if tool.name == call.name), None)
    candidate_names = (
        lenient_json.array_items(lenient_json.object_fields(schema).get("required"))
        if schema
        else list(arguments)
    )
    required_names = [name for name in candidate_names if isinstance(name, str)]
    if not required_names:
        raise FaultNotApplicable(f"the tool {call.name} has no required argument")
    removed_name = next((name for name in required_names if name in arguments), required_names[0])
    arguments.pop(removed_name, None)
    return replace(call, arguments=lenient_json.compact_json(arguments))


def _parse_how(text: str) -> str:
    how = text.strip().lower()
    if how not in _CORRUPTIONS:
        raise ValueError(f"one of {', '.join(_CORRUPTIONS)}")
    return how


KIND = FaultKind(
    "bad-tool-call",
    FaultEffect.ALTERED,
    "a tool call that cannot be executed",
    _bad_tool_call,
    {
        "how": FaultArgument(
            _parse_how,
            "`json` (invalid arguments), `name` (unknown tool) or `missing` (missing argument)",
            "json",
        )
    },
    example="bad-tool-call,how=name",
)
