"""How a dialect represents several messages of one instruction."""

from __future__ import annotations

from typing import Final, Literal

from llm_proxy.dialects.base import Dialect
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.exchange import Request
from llm_proxy.turns import Text, Turn

MessageLayout = Literal["choices", "parts", "text"]
"""Choices of one response; parts of one turn; or parts of one turn joined to one text."""

_CHOICES_DIALECTS: Final = ("openai-chat", "openai-completions")
_TWO_PART_TURN: Final = Turn((Text("a"), Text("b")))


def message_layout_of(
    dialect: Dialect, request: Request, encode_context: EncodeContext
) -> MessageLayout:
    """How this dialect represents several messages in a response to this request."""
    if dialect.name in _CHOICES_DIALECTS:
        return "choices"
    [turn] = dialect.representable_turns(request, (_TWO_PART_TURN,), encode_context).turns
    return "parts" if len(turn.parts) > 1 else "text"
