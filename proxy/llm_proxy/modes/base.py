"""What a mode is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from llm_proxy.actions import Begin, Source
from llm_proxy.exchange import Head
from llm_proxy.providers import is_probe
from llm_proxy.routing import Call
from llm_proxy.scenario.scripted_response import Direction

LIVE: Final = "live"
UNRECORDED: Final = "live, not recorded"
PROBE: Final = "answer to a probe"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one call."""

    source: Source
    origin: str
    """`LIVE`, `UNRECORDED`, `PROBE`, the file of the cassette played, or what directed it."""
    direction: Direction | None = None
    """What a simulated answer follows."""
    simulated: bool = False
    likeness: float | None = None
    """How alike, from 0 to 1, the request of the cassette is, where it is not the same."""
    renamed: int = 0
    """How many values of the recording were replaced by those that this client has for them."""
    recorded: str = ""
    """When the cassette was recorded, as its line 1 says; empty where none is played."""
    pace: str = ""
    """How it goes out, as the grammar of paces spells it; empty where no pace holds."""

    @property
    def live(self) -> bool:
        """Whether the provider gives it."""
        return self.origin in {LIVE, UNRECORDED}


def answer_to_probe(call: Call) -> Answer | None:
    """A bare 200 for a client that only asks whether anybody is there; None for other calls."""
    if not is_probe(call.plain):
        return None
    return Answer((Begin(Head(200, "OK", (), "none")),), PROBE, simulated=True)


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
