"""How a dialect tells the several messages of an instruction."""

from __future__ import annotations

from typing import Final, Literal

from llm_proxy.dialects.base import Dialect
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.exchange import Request
from llm_proxy.turns import Text, Turn

Telling = Literal["choices", "parts", "text"]
"""As choices of one answer; as parts of one turn; or as parts that become one text there."""

_IN_CHOICES: Final = ("openai-chat", "openai-completions")
_TWO: Final = Turn((Text("a"), Text("b")))


def telling(dialect: Dialect, request: Request, delivery: Delivery) -> Telling:
    """How this dialect tells several messages in answer to this request."""
    if dialect.name in _IN_CHOICES:
        return "choices"
    [told] = dialect.fit(request, (_TWO,), delivery).turns
    return "parts" if len(told.parts) > 1 else "text"
