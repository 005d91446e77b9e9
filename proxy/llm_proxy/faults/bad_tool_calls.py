"""Calls of tools that cannot be carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import Tool
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.provider_calls import is_provided
from llm_proxy.faults.kind import CannotInject
from llm_proxy.turns import Json, Part, ToolCall, ToolResult

How = Callable[[ToolCall, Sequence[Tool]], ToolCall]
"""What becomes of a call, by the tools that are offered.  Raises `CannotInject`."""


def called(parts: Sequence[Part]) -> tuple[int, ToolCall] | None:
    """The first of the parts that is a call which the client runs, and its number.

    None where there is none.  Calls that the provider runs are its own, and plain text is no
    object to spoil.
    """
    answered = {it.call_id for it in parts if isinstance(it, ToolResult)}
    return next(
        (
            (number, it)
            for number, it in enumerate(parts)
            if isinstance(it, ToolCall)
            and not is_provided(it)
            and it.id not in answered
            and _object(it) is not None
        ),
        None,
    )


def made_up(tools: Sequence[Tool]) -> ToolCall:
    """A call of the first tool that has a schema, else of the first.

    Raises `CannotInject` where there are none.
    """
    if not tools:
        raise CannotInject("the request offers no tool")
    tool = next((it for it in tools if it.schema is not None), tools[0])
    return ToolCall("", tool.name, "{}")


def _object(call: ToolCall) -> dict[str, Json] | None:
    try:
        value = lenient_json.parse((call.arguments or "{}").encode("utf-8", "replace"))
    except ValueError:
        return None
    return dict(value) if isinstance(value, dict) else None


def _broken(call: ToolCall, _tools: Sequence[Tool]) -> ToolCall:
    """Half of the arguments: no beginning of an object is JSON."""
    arguments = call.arguments.strip()
    return replace(call, arguments=arguments[: max(len(arguments) // 2, 1)] or "{")


def _unknown(call: ToolCall, tools: Sequence[Tool]) -> ToolCall:
    """A name that is like one that is offered, and is not."""
    offered = {it.name for it in tools}
    version = 2
    while (name := f"{call.name}_v{version}") in offered:
        version += 1
    return replace(call, name=name)


def _incomplete(call: ToolCall, tools: Sequence[Tool]) -> ToolCall:
    """Without the first argument that its schema requires; without one, where nobody knows it."""
    given = _object(call) or {}
    schema = next((it.schema for it in tools if it.name == call.name), None)
    names = (
        lenient_json.array(lenient_json.fields(schema).get("required")) if schema else list(given)
    )
    required = [it for it in names if isinstance(it, str)]
    if not required:
        raise CannotInject(f"the tool {call.name} has no argument that must be there")
    left_out = next((it for it in required if it in given), required[0])
    kept: Json = {name: value for name, value in given.items() if name != left_out}
    return replace(call, arguments=lenient_json.compact(kept))


HOWS: Final[Mapping[str, How]] = {"json": _broken, "name": _unknown, "missing": _incomplete}
"""The ways in which a call is bad, by name."""
