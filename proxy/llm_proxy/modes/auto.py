"""`auto`: plays what is on disk, records what is not.

The nth request of a key in a session plays take n if it was on disk when the run started, and
becomes take n otherwise.
"""

from __future__ import annotations

from contextlib import suppress

from llm_proxy.errors import NotSimulated
from llm_proxy.modes.base import LIVE, UNRECORDED, Mode, ModeResponse, probe_response
from llm_proxy.modes.nearest import respond_nearest
from llm_proxy.modes.take_player import TakePlayer
from llm_proxy.ports import Recorder, TakeSource, Upstream
from llm_proxy.routing import RoutedRequest
from llm_proxy.take_numbers import OnMiss, RequestCounter


class AutoMode:
    """Plays and records, whichever is called for."""

    name = "auto"

    def __init__(
        self,
        takes: TakeSource,
        upstream: Upstream,
        recorder: Recorder,
        player: TakePlayer,
        on_miss: OnMiss | Mode,
    ) -> None:
        """A mode in the place of `on_miss` answers what is not on disk."""
        self._takes = takes
        self._upstream = upstream
        self._recorder = recorder
        self._player = player
        self._on_miss: OnMiss | Mode = on_miss
        self._request_counter = RequestCounter()

    async def respond(self, routed: RoutedRequest) -> ModeResponse:
        """Take n, or the provider's answer, which comes as it comes."""
        pace = self._player.pace_of(routed)
        ordinal = self._request_counter.next_ordinal(
            routed.session, routed.key, routed.logical_request
        )
        takes = await self._takes.takes_of(routed.session, routed.key)
        if ordinal <= len(takes):
            return await self._player.play(takes[ordinal - 1], routed, ordinal, pace)
        match self._on_miss:
            case "record":
                source = self._upstream.stream(
                    routed, lambda: self._recorder.start(routed, ordinal)
                )
                return ModeResponse(source, LIVE)
            case "passthrough":
                return ModeResponse(self._upstream.stream(routed, None), UNRECORDED)
            case "fail":
                near = None if takes else await self._respond_nearest(routed, ordinal)
                answer = near or probe_response(routed)
                if answer is None:
                    raise await self._takes.miss(routed, ordinal)
                return answer
            case other:
                if not takes and (near := await self._respond_nearest(routed, ordinal)) is not None:
                    return near
                with suppress(NotSimulated):
                    return await other.respond(routed)
                raise await self._takes.miss(routed, ordinal)

    async def _respond_nearest(self, routed: RoutedRequest, ordinal: int) -> ModeResponse | None:
        """What is only alike answers where nothing goes live."""
        return await respond_nearest(self._takes, self._player, routed, ordinal, "repeat")

    def reset(self, session: str) -> None:
        """Begin with the session's first takes again."""
        self._request_counter.reset_session(session)
        if not isinstance(self._on_miss, str):
            self._on_miss.reset(session)
