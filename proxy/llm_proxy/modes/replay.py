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
    """Plays the takes of a key one after another, each session on its own."""

    name = "replay"

    def __init__(
        self,
        takes: TakeSource,
        player: TakePlayer,
        after_last: AfterLast,
        simulate: Mode | None = None,
    ) -> None:
        """`simulate` answers what is not on disk; without it, that is a miss."""
        self._simulate = simulate
        self._takes = takes
        self._player = player
        self._after_last: AfterLast = after_last
        self._request_counter = RequestCounter()

    async def respond(self, routed: RoutedRequest) -> ModeResponse:
        """The next take of this call's key."""
        pace = self._player.pace_of(routed)
        ordinal = self._request_counter.next_ordinal(
            routed.session, routed.key, routed.logical_request
        )
        takes = await self._takes.takes_of(routed.session, routed.key)
        take = pick_take(takes, ordinal, self._after_last)
        if take is None:
            near = None
            if not takes:
                near = await respond_nearest(
                    self._takes, self._player, routed, ordinal, self._after_last
                )
            return near or await self._respond_to_miss(routed, ordinal)
        return await self._player.play(take, routed, ordinal, pace)

    async def _respond_to_miss(self, routed: RoutedRequest, ordinal: int) -> ModeResponse:
        if (answer := probe_response(routed)) is not None:
            return answer
        if self._simulate is not None:
            with suppress(NotSimulated):
                return await self._simulate.respond(routed)
        raise await self._takes.miss(routed, ordinal)

    def reset(self, session: str) -> None:
        """Play the session's takes from the first again."""
        self._request_counter.reset_session(session)
        if self._simulate is not None:
            self._simulate.reset(session)
