"""Tool calls that a client cannot execute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import ToolDefinition
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.provider_calls import is_provider_tool_call
from llm_proxy.faults.kind import FaultNotApplicable
from llm_proxy.turns import Json, Part, ToolCall, ToolResult

How = Callable[[ToolCall, Sequence[ToolDefinition]], ToolCall]
"""What becomes of a call, by the tools that are offered.  Raises `FaultNotApplicable`."""


def first_client_call(parts: Sequence[Part]) -> tuple[int, ToolCall] | None:
    """The first of the parts that is a call which the client runs, and its number.

    None where there is none.  Calls that the provider runs are its own, and plain text is no
    object to spoil.
    """
    answered = {part.call_id for part in parts if isinstance(part, ToolResult)}
    return next(
        (
            (number, it)
            for number, it in enumerate(parts)
            if isinstance(it, ToolCall)
            and not is_provider_tool_call(it)
            and it.id not in answered
            and _arguments_object(it) is not None
        ),
        None,
    )


def fake_call(tools: Sequence[ToolDefinition]) -> ToolCall:
    """A call of the first tool that has a schema, else of the first.

    Raises `FaultNotApplicable` where there are none.
    """
    if not tools:
        raise FaultNotApplicable("the request offers no tool")
    tool = next(
        (
            tool_definition
            for tool_definition in tools
            if tool_definition.response_schema is not None
        ),
        tools[0],
    )
    return ToolCall("", tool.name, "{}")


def _arguments_object(call: ToolCall) -> dict[str, Json] | None:
    try:
        value = lenient_json.parse_json((call.arguments or "{}").encode("utf-8", "replace"))
    except ValueError:
        return None
    return dict(value) if isinstance(value, dict) else None


def _with_truncated_arguments(call: ToolCall, _tools: Sequence[ToolDefinition]) -> ToolCall:
    """Half of the arguments: no beginning of an object is JSON."""
    arguments = call.arguments.strip()
    return replace(call, arguments=arguments[: max(len(arguments) // 2, 1)] or "{")


def _with_unknown_name(call: ToolCall, tools: Sequence[ToolDefinition]) -> ToolCall:
    offered = {tool.name for tool in tools}
    version = 2
    while (name := f"{call.name}_v{version}") in offered:
        version += 1
    return replace(call, name=name)


def _without_required_argument(call: ToolCall, tools: Sequence[ToolDefinition]) -> ToolCall:
    """Without the first argument that its schema requires; without one, where nobody knows it."""
    fields = _arguments_object(call) or {}
    schema = next((tool.response_schema for tool in tools if tool.name == call.name), None)
    names = (
        lenient_json.array_items(lenient_json.object_fields(schema).get("required"))
        if schema
        else list(fields)
    )
    required = [content for content in names if isinstance(content, str)]
    if not required:
        raise FaultNotApplicable(f"the tool {call.name} has no argument that must be there")
    left_out = next((text for text in required if text in fields), required[0])
    kept: Json = {name: value for name, value in fields.items() if name != left_out}
    return replace(call, arguments=lenient_json.compact_json(kept))


HOWS: Final[Mapping[str, How]] = {
    "json": _with_truncated_arguments,
    "name": _with_unknown_name,
    "missing": _without_required_argument,
}
"""The ways in which a call is bad, by name."""
