"""`replay`: responds from cassettes only, without network."""

from __future__ import annotations

from contextlib import suppress

from llm_proxy.errors import NotSimulated
from llm_proxy.modes.base import Mode, ModeResponse, probe_response
from llm_proxy.modes.nearest import respond_nearest
from llm_proxy.modes.take_player import TakePlayer
from llm_proxy.ports import TakeSource
from llm_proxy.routing import RoutedRequest
from llm_proxy.take_numbers import AfterLast, RequestCounter, pick_take


class ReplayMode:
    """Replays the takes of a key one after another, separately for each session."""

    name = "replay"

    def __init__(
        self,
        takes: TakeSource,
        player: TakePlayer,
        after_last: AfterLast,
        fallback: Mode | None = None,
    ) -> None:
        """`fallback` responds to requests without a take; without it, they are misses."""
        self._fallback = fallback
        self._takes = takes
        self._player = player
        self._after_last: AfterLast = after_last
        self._request_counter = RequestCounter()

    async def respond(self, routed: RoutedRequest) -> ModeResponse:
        """Replays the next take of this request's key."""
        pace = self._player.pace_of(routed)
        request_ordinal = self._request_counter.next_ordinal(
            routed.session, routed.key, routed.logical_request
        )
        takes = await self._takes.takes_of(routed.session, routed.key)
        take = pick_take(takes, request_ordinal, self._after_last)
        if take is None:
            nearest_response = None
            if not takes:
                nearest_response = await respond_nearest(
                    self._takes, self._player, routed, request_ordinal, self._after_last
                )
            return nearest_response or await self._respond_to_miss(routed, request_ordinal)
        return await self._player.replay_take(take, routed, request_ordinal, pace)

    async def _respond_to_miss(self, routed: RoutedRequest, request_ordinal: int) -> ModeResponse:
        if (response := probe_response(routed)) is not None:
            return response
        if self._fallback is not None:
            with suppress(NotSimulated):
                return await self._fallback.respond(routed)
        raise await self._takes.miss_for_request(routed, request_ordinal)

    def reset_session(self, session: str) -> None:
        """Starts again with the session's first takes."""
        self._request_counter.reset_session(session)
        if self._fallback is not None:
            self._fallback.reset_session(session)
