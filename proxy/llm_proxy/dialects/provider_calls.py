"""Tells the provider's own tool calls from the client's."""

from __future__ import annotations

from typing import Final, TypeGuard

from llm_proxy.dialects import lenient_json
from llm_proxy.turns import Part, ToolCall

WORDED: Final = ("custom", "custom_tool_call")
"""The types of calls whose tools take plain text, no object."""
_RUN_BY_CLIENTS: Final = (*WORDED, "function", "function_call", "tool_use", "toolUse")
"""The types of calls that the client runs; most have no type beside them."""


def is_provider_tool_call(part: Part) -> TypeGuard[ToolCall]:
    """Whether it is a call that the provider runs itself, as its type tells: nobody else could."""
    if not isinstance(part, ToolCall):
        return False
    kind = lenient_json.printable_text(dict(part.metadata).get("type"))
    return bool(kind) and kind not in _RUN_BY_CLIENTS
