"""What a dialect is: one provider wire format, judged and read.

A dialect takes values and gives values.  It knows no socket and no file, and no other dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from llm_proxy.exchange import Head, Request
from llm_proxy.turns import Turn


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether the response says of itself that it is whole."""

    whole: bool
    reason: str
    """What proves it, or what is missing, in a few words."""
    proven: bool = True
    """False where nothing in the response could prove it."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response as a dialect sees it: the head, and the body cut into messages."""

    head: Head
    codec: str
    """The name of the codec that cut the body."""
    messages: Sequence[bytes]


class Dialect(Protocol):
    """One provider wire format."""

    @property
    def name(self) -> str:
        """As it stands in cassettes and paths: `openai-chat`."""

    def claims(self, request: Request) -> bool:
        """Whether this request speaks this dialect."""

    def model(self, request: Request) -> str:
        """The model asked for, empty where the request names none."""

    def streams(self, request: Request) -> bool:
        """Whether the request asks for a stream."""

    def codec(self, request: Request, head: Head) -> str:
        """The codec for the body of this response: a name of `llm_proxy.framing.CODECS`."""

    def judge(self, response: Response) -> Judgement:
        """Whether it is whole: its terminator, every choice finished, or its own error."""

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """What was said: one turn a choice.  Never raises; what it cannot read it leaves out."""

    def error(self, status: int, kind: str, message: str) -> bytes:
        """The JSON body of an error in this dialect's own shape."""
