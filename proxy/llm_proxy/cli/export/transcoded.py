"""A recorded answer, told again in another dialect."""

from __future__ import annotations

from typing import Final

from llm_proxy import http_heads
from llm_proxy.dialects import Response
from llm_proxy.dialects.openai.family import SPOKEN
from llm_proxy.errors import UsageError
from llm_proxy.transcoding import Manner, Retelling

_SHOWN: Final = 8
"""Things left out that are named."""


def check(how: Manner) -> None:
    """Raise `UsageError` for what could not be told as it is asked for."""
    if how.provider and how.dialect not in SPOKEN:
        spoken = ", ".join(SPOKEN)
        raise UsageError(f"--provider chooses among those who speak {spoken}: not {how.dialect}")
    if not how.model.isprintable():
        raise UsageError("--model must be printable")


def told_bytes(response: Response, *, with_head: bool) -> bytes:
    """The answer as it would be sent, but for HTTP's own framing."""
    body = b"".join(response.messages)
    lines = "\r\n".join((*http_heads.lines(response.head), "", "")).encode("latin-1")
    return lines + body if with_head else body


def left_out(told: Retelling) -> str:
    """What the dialect has no words for."""
    if not told.lost:
        return ""
    more = f", and {len(told.lost) - _SHOWN} more" if len(told.lost) > _SHOWN else ""
    return f"; left out: {', '.join(told.lost[:_SHOWN])}{more}"
