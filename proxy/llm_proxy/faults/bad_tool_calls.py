"""Tool calls that a client cannot execute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import ToolDefinition
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.provider_tool_calls import is_provider_tool_call
from llm_proxy.faults.kind import FaultNotApplicable
from llm_proxy.turns import Json, Part, ToolCall, ToolResult

ToolCallCorruption = Callable[[ToolCall, Sequence[ToolDefinition]], ToolCall]
"""Corrupts a tool call, given the tools that the request offers.

Raises `FaultNotApplicable` where this corruption is not possible.
"""


def find_client_executed_call(parts: Sequence[Part]) -> tuple[int, ToolCall] | None:
    """The index of the first tool call that the client executes, and the call; None without one.

    Calls that the provider executes are skipped, and so are calls whose arguments are no JSON
    object.
    """
    call_ids_with_result = {part.call_id for part in parts if isinstance(part, ToolResult)}
    return next(
        (
            (index, part)
            for index, part in enumerate(parts)
            if isinstance(part, ToolCall)
            and not is_provider_tool_call(part)
            and part.id not in call_ids_with_result
            and _parse_arguments(part) is not None
        ),
        None,
    )


def fake_tool_call(tools: Sequence[ToolDefinition]) -> ToolCall:
    """A call, without arguments, of the first tool that has a schema, else of the first tool.

    Raises `FaultNotApplicable` where the request offers no tool.
    """
    if not tools:
        raise FaultNotApplicable("the request offers no tool")
    tool = next(
        (
            tool_definition
            for tool_definition in tools
            if tool_definition.parameters_schema is not None
        ),
        tools[0],
    )
    return ToolCall("", tool.name, "{}")


def _parse_arguments(call: ToolCall) -> dict[str, Json] | None:
    try:
        value = lenient_json.parse_json((call.arguments or "{}").encode("utf-8", "replace"))
    except ValueError:
        return None
    return dict(value) if isinstance(value, dict) else None


def _with_truncated_arguments(call: ToolCall, _tools: Sequence[ToolDefinition]) -> ToolCall:
    """The call with half of its arguments: no proper prefix of a JSON object is valid."""
    arguments = call.arguments.strip()
    return replace(call, arguments=arguments[: max(len(arguments) // 2, 1)] or "{")


def _with_unknown_name(call: ToolCall, tools: Sequence[ToolDefinition]) -> ToolCall:
    offered_names = {tool.name for tool in tools}
    suffix_number = 2
    while (name := f"{call.name}_v{suffix_number}") in offered_names:
        suffix_number += 1
    return replace(call, name=name)


def _without_required_argument(call: ToolCall, tools: Sequence[ToolDefinition]) -> ToolCall:
    """The call without the first argument that its schema requires.

    A tool without a schema loses its first argument.
    """
    fields = _parse_arguments(call) or {}
    schema = next((tool.parameters_schema for tool in tools if tool.name == call.name), None)
    candidate_names = (
        lenient_json.array_items(lenient_json.object_fields(schema).get("required"))
        if schema
        else list(fields)
    )
    required_names = [content for content in candidate_names if isinstance(content, str)]
    if not required_names:
        raise FaultNotApplicable(f"the tool {call.name} has no argument that must be there")
    removed_name = next((text for text in required_names if text in fields), required_names[0])
    remaining_arguments: Json = {
        name: value for name, value in fields.items() if name != removed_name
    }
    return replace(call, arguments=lenient_json.compact_json(remaining_arguments))


TOOL_CALL_CORRUPTIONS: Final[Mapping[str, ToolCallCorruption]] = {
    "json": _with_truncated_arguments,
    "name": _with_unknown_name,
    "missing": _without_required_argument,
}
"""The corruptions of a tool call, by the value of the fault argument `how`."""
