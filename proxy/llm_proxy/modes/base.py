"""The mode protocol, and the response that a mode gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from llm_proxy.actions import Begin, Source
from llm_proxy.exchange import ResponseHead
from llm_proxy.providers import is_probe_request
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario.scripted_response import ScriptedResponse

LIVE: Final = "live"
UNRECORDED: Final = "live, not recorded"
PROBE: Final = "answer to a probe"


@dataclass(frozen=True, slots=True)
class ModeResponse:
    """The answer to one call."""

    source: Source
    origin: str
    """`LIVE`, `UNRECORDED`, `PROBE`, the file of the cassette played, or what directed it."""
    scripted_response: ScriptedResponse | None = None
    """What a simulated answer follows."""
    is_simulated: bool = False
    similarity: float | None = None
    """How alike, from 0 to 1, the request of the cassette is, where it is not the same."""
    renamed_count: int = 0
    """How many values of the recording were replaced by those that this client has for them."""
    recorded_at: str = ""
    """When the cassette was recorded, as its line 1 says; empty where none is played."""
    pace: str = ""
    """How it goes out, as the grammar of paces spells it; empty where no pace holds."""

    @property
    def is_live(self) -> bool:
        """Whether the provider gives it."""
        return self.origin in {LIVE, UNRECORDED}


def probe_response(routed: RoutedRequest) -> ModeResponse | None:
    """A bare 200 for a client that only asks whether anybody is there; None for other calls."""
    if not is_probe_request(routed.decompressed):
        return None
    return ModeResponse((Begin(ResponseHead(200, "OK", (), "none")),), PROBE, is_simulated=True)


class Mode(Protocol):
    """One way to answer."""

    @property
    def name(self) -> str:
        """As it is called on the command line."""

    async def respond(self, routed: RoutedRequest) -> ModeResponse:
        """The answer to this call.

        Raises `Miss`, `CassetteError`, `UpstreamFailed` or `RequestRefused`; the last two also
        from the source.
        """

    def reset(self, session: str) -> None:
        """Begin this session again: its next request of any key is the first."""
