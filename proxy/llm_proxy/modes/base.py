"""The mode protocol, and the response that a mode gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from llm_proxy.actions import ActionSource, Begin
from llm_proxy.errors import RequestRefused, UsageError
from llm_proxy.exchange import ResponseHead
from llm_proxy.pacing import Pace, parse_pace
from llm_proxy.providers import is_probe_request
from llm_proxy.routing import PACE_HEADER, RoutedRequest
from llm_proxy.scenario.scripted_response import ScriptedResponse

LIVE: Final = "live"
UNRECORDED: Final = "live, not recorded"
PROBE: Final = "response to a probe"


@dataclass(frozen=True, slots=True)
class ModeResponse:
    """The response to one request, and where it came from."""

    action_source: ActionSource
    origin: str
    """`LIVE`, `UNRECORDED`, `PROBE`, the file of the replayed cassette, or the origin of the
    scripted response (scenario, mock or synthesis)."""
    scripted_response: ScriptedResponse | None = None
    """The script of a simulated response; None for others."""
    is_simulated: bool = False
    similarity: float | None = None
    """The similarity, from 0 to 1, of the cassette's request, where it is not equal; else None."""
    replaced_value_count: int = 0
    """How many values of the recording were replaced by those of the requesting client."""
    recorded_at: str = ""
    """When the cassette was recorded, from its line 1; empty where none is replayed."""
    pace: str = ""
    """The pace in the syntax of the pace grammar; empty where none applies."""

    @property
    def is_live(self) -> bool:
        """Whether it comes from the provider."""
        return self.origin in {LIVE, UNRECORDED}


def requested_pace(routed: RoutedRequest) -> Pace | None:
    """The pace in the request's header; None without one.

    Raises `RequestRefused` (status 400) for an invalid pace.
    """
    if not routed.requested_pace:
        return None
    try:
        return parse_pace(routed.requested_pace)
    except UsageError as error:
        raise RequestRefused(400, f"{PACE_HEADER}: {error}") from None


def probe_response(routed: RoutedRequest) -> ModeResponse | None:
    """An empty 200 for a client that only checks that the server is up; None for other requests."""
    if not is_probe_request(routed.decompressed_request):
        return None
    return ModeResponse((Begin(ResponseHead(200, "OK", (), "none")),), PROBE, is_simulated=True)


class Mode(Protocol):
    """A source of responses: `record`, `replay`, `auto` or `simulate`."""

    @property
    def name(self) -> str:
        """Its name on the command line."""

    async def respond(self, routed: RoutedRequest) -> ModeResponse:
        """Responds to this request.

        Raises `Miss`, `CassetteError`, `UpstreamFailed` or `RequestRefused`; the last two also
        from the source.
        """

    def reset_session(self, session: str) -> None:
        """Resets this session: its next request of any key counts as the first."""
