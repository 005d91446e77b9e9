"""Plays takes; shared by `replay` and `auto`."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Final

from llm_proxy.actions import Burst
from llm_proxy.cassette import Cassette
from llm_proxy.modes.base import ModeResponse
from llm_proxy.modes.value_replacement import ResponseRenamer
from llm_proxy.pacing import ModelledPace, Pace, TokenRatePace
from llm_proxy.pacing.cassette_player import is_slow_to_plan, play_cassette
from llm_proxy.pacing.pace_input import paced_response
from llm_proxy.pacing.requested_pace import requested_pace
from llm_proxy.pacing.timing import Chance, PacedResponse, seeded_chance
from llm_proxy.ports import Offload, PaceSource, Take
from llm_proxy.routing import RoutedRequest

_KEPT: Final = 64 * 1024 * 1024
"""Bytes of all recordings, requests too, of which it is kept what was read to pace them."""


class TakePlayer:
    """Plays takes, each at the pace that holds for its request."""

    def __init__(self, paces: PaceSource, aside: Offload, nearest: float | None = None) -> None:
        """`aside` runs a function that may take its time, while others are answered.

        `nearest` is how alike, from 0 to 1, a cassette must be that answers where none is the same;
        None where none may.
        """
        self.nearest = nearest
        self._paces = paces
        self._offload = aside
        self._renamer = ResponseRenamer(aside)
        self._cached_readings: OrderedDict[tuple[str, bool], tuple[Cassette, PacedResponse]] = (
            OrderedDict()
        )
        """By file, and whether it is played in the pieces in which it was recorded."""
        self._cassette_size = 0
        """Bytes of the recordings that are kept."""

    def pace_of(self, routed: RoutedRequest) -> Pace:
        """The request's own pace, else its session's.  Raises `RequestRefused`."""
        return requested_pace(routed) or self._paces.pace_of(routed.session)

    async def play(
        self, take: Take, routed: RoutedRequest, ordinal: int, pace: Pace
    ) -> ModeResponse:
        """The answer that plays a take; `ordinal` is the request's, of its session and key.

        Raises `CassetteError` when the take cannot be trusted.
        """
        recorded = await take.cassette()
        cassette, renamed = await self._renamer.rename_for(recorded, routed)
        rolls = seeded_chance(self._paces.seed, routed.session, routed.key, ordinal)
        read = self._cached_reading(cassette, pace)
        made = partial(_play_actions, cassette, pace, rolls, read)
        burst, read = await self._offload(made) if is_slow_to_plan(cassette, pace, read) else made()
        if cassette is recorded:  # another client has another one
            self._cache_reading(cassette, pace, read)
        at = cassette.meta.recorded
        return ModeResponse(burst, take.file, recorded_at=at, renamed_count=renamed, pace=str(pace))

    def _cached_reading(self, cassette: Cassette, pace: Pace) -> PacedResponse | None:
        of, read = self._cached_readings.get(_cache_key(cassette, pace), (None, None))
        return read if of is cassette else None

    def _cache_reading(self, cassette: Cassette, pace: Pace, read: PacedResponse | None) -> None:
        if read is None:
            return
        key = _cache_key(cassette, pace)
        before, _ = self._cached_readings.pop(key, (None, None))
        self._cassette_size += _cassette_size(cassette) - (
            _cassette_size(before) if before is not None else 0
        )
        self._cached_readings[key] = cassette, read
        while self._cassette_size > _KEPT:
            _, (oldest, _) = self._cached_readings.popitem(last=False)
            self._cassette_size -= _cassette_size(oldest)


def _cassette_size(cassette: Cassette) -> int:
    return cassette.end.size + len(cassette.request.body)


def _cache_key(cassette: Cassette, pace: Pace) -> tuple[str, bool]:
    return cassette.file, pace.chunks == "recorded"


def _play_actions(
    cassette: Cassette, pace: Pace, rolls: Chance, read: PacedResponse | None
) -> tuple[Burst, PacedResponse | None]:
    """The actions, and what was read to make them; None where nothing had to be."""
    if isinstance(pace, TokenRatePace | ModelledPace):
        read = read or paced_response(cassette, pace.chunks)
        return play_cassette(cassette, pace, rolls, read), read
    return play_cassette(cassette, pace, rolls), None
