"""What a mode is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from llm_proxy.actions import Source
from llm_proxy.pacing import Pace
from llm_proxy.pacing.choosing import asked_pace
from llm_proxy.pacing.playing import is_slow, play
from llm_proxy.pacing.timing import chance
from llm_proxy.ports import Aside, Paces, Take
from llm_proxy.routing import Call
from llm_proxy.scenario.directions import Direction

LIVE: Final = "live"
UNRECORDED: Final = "live, not recorded"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one call."""

    source: Source
    origin: str
    """`LIVE`, `UNRECORDED`, the file of the cassette that is played, or what directed it."""
    direction: Direction | None = None
    """What a simulated answer follows."""
    simulated: bool = False
    pace: str = ""
    """How it goes out, as the grammar of paces spells it; empty where no pace holds."""

    @property
    def live(self) -> bool:
        """Whether the provider gives it."""
        return self.origin in {LIVE, UNRECORDED}


class Mode(Protocol):
    """One way to answer."""

    @property
    def name(self) -> str:
        """As it is called on the command line."""

    async def answer(self, call: Call) -> Answer:
        """The answer to this call.

        Raises `Miss`, `CassetteError`, `UpstreamFailed` or `RequestRefused`; the last two also
        from the source.
        """

    def reset(self, session: str) -> None:
        """Begin this session again: its next request of any key is the first."""


@dataclass(frozen=True, slots=True)
class Player:
    """Plays takes, each at the pace that holds for its request."""

    paces: Paces
    aside: Aside
    """Runs a function that may take its time, while others are answered."""

    def pace(self, call: Call) -> Pace:
        """The request's own pace, else its session's.  Raises `RequestRefused`."""
        return asked_pace(call) or self.paces.of(call.session)

    async def play(self, take: Take, call: Call, ordinal: int, pace: Pace) -> Answer:
        """The answer that plays a take; `ordinal` is the request's, of its session and key.

        Raises `CassetteError` when the take cannot be trusted.
        """
        cassette = await take.cassette()
        rolls = chance(self.paces.seed, call.session, call.key, ordinal)
        if is_slow(cassette, pace):
            source = await self.aside(lambda: play(cassette, pace, rolls))
        else:
            source = play(cassette, pace, rolls)
        return Answer(source, take.file, pace=str(pace))
