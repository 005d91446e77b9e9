"""`replay`: responds from cassettes only, without network.

With `--match nearest`, the most similar cassette is replayed where none is equal, and marked.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from llm_proxy.actions import Begin
from llm_proxy.errors import NotSimulated
from llm_proxy.modes.base import Mode, ModeResponse, probe_response
from llm_proxy.modes.take_player import TakePlayer
from llm_proxy.ports import TakeSource
from llm_proxy.routing import RoutedRequest
from llm_proxy.take_numbers import AfterLast, RequestCounter, pick_take

NEAREST_HEADER: Final = "x-llm-proxy-nearest"
"""The header of the response of a similar cassette: the similarity of its request, its file."""
_UNQUOTED_CHARS: Final = "/ !#$&'()*+,:;=?@[]~"


class ReplayMode:
    """Replays the takes of a key one after another, separately for each session."""

    name = "replay"

    def __init__(
        self,
        takes: TakeSource,
        player: TakePlayer,
        after_last: AfterLast,
        fallback: Mode | None = None,
        *,
        after_last_nearest: AfterLast | None = None,
    ) -> None:
        """`fallback` responds to requests without a take; without it, they are misses.

        `after_last_nearest` applies to the takes of a similar request; None is as `after_last`.
        """
        self._fallback = fallback
        self._takes = takes
        self._player = player
        self._after_last: AfterLast = after_last
        self._after_last_nearest: AfterLast = after_last_nearest or after_last
        self._request_counter = RequestCounter()

    async def respond(self, routed: RoutedRequest) -> ModeResponse:
        """Replays the next take of this request's key."""
        pace = self._player.pace_of(routed)
        request_ordinal = self._request_counter.next_ordinal(
            routed.session, routed.key, routed.logical_request
        )
        takes = await self._takes.takes_of(routed.session, routed.key)
        take = pick_take(takes, request_ordinal, self._after_last)
        if take is not None:
            return await self._player.replay_take(take, routed, request_ordinal, pace)
        return await self._respond_without_take(routed, request_ordinal, is_known=bool(takes))

    async def _respond_without_take(
        self, routed: RoutedRequest, request_ordinal: int, *, is_known: bool
    ) -> ModeResponse:
        """Responds to a request for which no take is left, or was ever recorded."""
        response = None if is_known else await self._respond_nearest(routed, request_ordinal)
        response = response or probe_response(routed)
        if response is not None:
            return response
        if self._fallback is not None:
            with suppress(NotSimulated):
                return await self._fallback.respond(routed)
        raise await self._takes.miss_for_request(routed, request_ordinal)

    async def _respond_nearest(
        self, routed: RoutedRequest, request_ordinal: int
    ) -> ModeResponse | None:
        """Replays the most similar cassette; None where none is similar enough."""
        if self._player.min_similarity is None:
            return None
        similar = await self._takes.nearest(routed, self._player.min_similarity)
        if similar is None:
            return None
        take = pick_take(similar.takes, request_ordinal, self._after_last_nearest)
        if take is None:
            return None
        pace = self._player.pace_of(routed)
        response = await self._player.replay_take(take, routed, request_ordinal, pace)
        return mark_nearest_response(response, similar.similarity)

    def reset_session(self, session: str) -> None:
        """Starts again with the session's first takes."""
        self._request_counter.reset_session(session)
        if self._fallback is not None:
            self._fallback.reset_session(session)


def mark_nearest_response(response: ModeResponse, similarity: float) -> ModeResponse:
    """The response, with its similarity, and with a header that declares it."""
    if not isinstance(response.action_source, tuple):
        raise TypeError("a cassette is played in one burst")
    header_value = (
        f"{int(similarity * 100) / 100:.2f} "
        f"{quote(response.origin, safe=_UNQUOTED_CHARS, errors='replace')}"
    )
    headers = ((NEAREST_HEADER, header_value),)
    source = tuple(
        Begin(replace(action.head, headers=action.head.headers + headers))
        if isinstance(action, Begin)
        else action
        for action in response.action_source
    )
    return replace(response, action_source=source, similarity=similarity)
