"""What a mode is."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from llm_proxy.actions import Burst
from llm_proxy.cassette import Cassette
from llm_proxy.pacing import Pace, play
from llm_proxy.ports import Take
from llm_proxy.routing import Call


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one call."""

    source: AsyncGenerator[Burst, None]
    """Consume it under `aclosing`: that is how an upstream is let go."""
    origin: str
    """`live`, or the file of the cassette that is played."""


class Mode(Protocol):
    """One way to answer."""

    @property
    def name(self) -> str:
        """As it is called on the command line."""

    async def answer(self, call: Call) -> Answer:
        """The answer to this call.

        Raises `Miss`, `CassetteError` or `UpstreamFailed`; the last one also from the source.
        """

    def reset(self, session: str) -> None:
        """Begin this session again: its next request of any key is the first."""


async def played(take: Take, pace: Pace) -> Answer:
    """The answer that plays a take.  Raises `CassetteError` when it cannot be trusted."""
    return Answer(_playing(await take.cassette(), pace), take.file)


async def _playing(cassette: Cassette, pace: Pace) -> AsyncGenerator[Burst, None]:
    yield play(cassette, pace)
