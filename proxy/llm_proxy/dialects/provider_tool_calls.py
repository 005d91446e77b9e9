"""Distinguishes calls of the provider's own tools from those of the client's."""

from __future__ import annotations

from typing import Final, TypeGuard

from llm_proxy.dialects import lenient_json
from llm_proxy.turns import Part, ToolCall

TEXT_ARGUMENT_CALL_TYPES: Final = ("custom", "custom_tool_call")
"""The types of calls whose arguments are plain text, not an object."""
_CLIENT_RUN_CALL_TYPES: Final = (
    *TEXT_ARGUMENT_CALL_TYPES,
    "function",
    "function_call",
    "tool_use",
    "toolUse",
)
"""The types of calls that the client runs; most such calls have no type in their metadata."""


def is_provider_tool_call(part: Part) -> TypeGuard[ToolCall]:
    """Whether the part is a call that the provider runs itself, by the type in its metadata."""
    if not isinstance(part, ToolCall):
        return False
    call_type = lenient_json.value_as_text(dict(part.metadata).get("type"))
    return bool(call_type) and call_type not in _CLIENT_RUN_CALL_TYPES
