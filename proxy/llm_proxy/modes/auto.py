"""`auto`: replays what is on disk, records what is not.

The nth request of a key in a session replays take n if it was on disk when the run started, and
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
    """Replays requests that have a take; records the others, or handles them by `on_miss`."""

    name = "auto"

    def __init__(
        self,
        takes: TakeSource,
        upstream: Upstream,
        recorder: Recorder,
        player: TakePlayer,
        on_miss: OnMiss | Mode,
    ) -> None:
        """A mode as `on_miss` responds to requests without a take."""
        self._takes = takes
        self._upstream = upstream
        self._recorder = recorder
        self._player = player
        self._on_miss: OnMiss | Mode = on_miss
        self._request_counter = RequestCounter()

    async def respond(self, routed: RoutedRequest) -> ModeResponse:
        """Replays take n, or streams the provider's response as it arrives."""
        pace = self._player.pace_of(routed)
        request_ordinal = self._request_counter.next_ordinal(
            routed.session, routed.key, routed.logical_request
        )
        takes = await self._takes.takes_of(routed.session, routed.key)
        if request_ordinal <= len(takes):
            return await self._player.replay_take(
                takes[request_ordinal - 1], routed, request_ordinal, pace
            )
        match self._on_miss:
            case "record":
                source = self._upstream.stream(
                    routed, lambda: self._recorder.start_recording(routed, request_ordinal)
                )
                return ModeResponse(source, LIVE)
            case "passthrough":
                return ModeResponse(self._upstream.stream(routed, None), UNRECORDED)
            case "fail":
                nearest_response = (
                    None if takes else await self._respond_nearest(routed, request_ordinal)
                )
                response = nearest_response or probe_response(routed)
                if response is None:
                    raise await self._takes.miss_for_request(routed, request_ordinal)
                return response
            case other:
                if (
                    not takes
                    and (nearest_response := await self._respond_nearest(routed, request_ordinal))
                    is not None
                ):
                    return nearest_response
                with suppress(NotSimulated):
                    return await other.respond(routed)
                raise await self._takes.miss_for_request(routed, request_ordinal)

    async def _respond_nearest(
        self, routed: RoutedRequest, request_ordinal: int
    ) -> ModeResponse | None:
        """Replays the most similar cassette; called only where no request goes to the provider."""
        return await respond_nearest(self._takes, self._player, routed, request_ordinal, "repeat")

    def reset_session(self, session: str) -> None:
        """Starts again with the session's first takes."""
        self._request_counter.reset_session(session)
        if not isinstance(self._on_miss, str):
            self._on_miss.reset_session(session)
