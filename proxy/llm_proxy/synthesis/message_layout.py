"""How a dialect represents several messages of one instruction."""

from __future__ import annotations

from typing import Final, Literal

from llm_proxy.dialects.base import Dialect
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.exchange import Request
from llm_proxy.turns import Text, Turn

Telling = Literal["choices", "parts", "text"]
"""As choices of one answer; as parts of one turn; or as parts that become one text there."""

_IN_CHOICES: Final = ("openai-chat", "openai-completions")
_TWO: Final = Turn((Text("a"), Text("b")))


def message_layout_of(dialect: Dialect, request: Request, delivery: EncodeContext) -> Telling:
    """How this dialect tells several messages in answer to this request."""
    if dialect.name in _IN_CHOICES:
        return "choices"
    [turn] = dialect.convert(request, (_TWO,), delivery).turns
    return "parts" if len(turn.parts) > 1 else "text"
