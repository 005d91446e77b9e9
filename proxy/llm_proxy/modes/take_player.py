"""Replays takes; shared by `replay` and `auto`."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Final

from llm_proxy.actions import Burst
from llm_proxy.cassette import Cassette
from llm_proxy.modes.base import ModeResponse
from llm_proxy.modes.value_replacement import CassetteValueReplacer
from llm_proxy.pacing import ModelledPace, Pace, TokenRatePace
from llm_proxy.pacing.cassette_player import is_slow_to_plan, replay_actions
from llm_proxy.pacing.pace_input import read_pace_input
from llm_proxy.pacing.requested_pace import requested_pace
from llm_proxy.pacing.timing import IndexedUniformDraw, PaceInput, make_seeded_draw
from llm_proxy.ports import Offload, PaceSource, Take
from llm_proxy.routing import RoutedRequest

_CACHE_BYTES: Final = 64 * 1024 * 1024
"""The limit of the cache: bytes of the recordings, with requests, whose `PaceInput` it keeps."""


class TakePlayer:
    """Replays takes, each at the pace of its request."""

    def __init__(
        self, paces: PaceSource, offload: Offload, min_similarity: float | None = None
    ) -> None:
        """`offload` runs a slow function without blocking other requests.

        `min_similarity`, from 0 to 1, is required of a cassette that is replayed where none is
        equal; None allows equal ones only.
        """
        self.min_similarity = min_similarity
        self._paces = paces
        self._offload = offload
        self._renamer = CassetteValueReplacer(offload)
        self._cached_inputs: OrderedDict[tuple[str, bool], tuple[Cassette, PaceInput]] = (
            OrderedDict()
        )
        """The input of pacing, by cassette file and whether the recorded reads are its pieces."""
        self._cached_bytes = 0
        """Bytes of the recordings whose input is cached."""

    def pace_of(self, routed: RoutedRequest) -> Pace:
        """The request's own pace, else its session's.  Raises `RequestRefused`."""
        return requested_pace(routed) or self._paces.pace_of(routed.session)

    async def replay_take(
        self, take: Take, routed: RoutedRequest, request_ordinal: int, pace: Pace
    ) -> ModeResponse:
        """The response that replays a take.

        `request_ordinal` counts the requests of a session and key, from 1.  Raises `CassetteError`
        when the take cannot be trusted.
        """
        recorded = await take.cassette()
        cassette, renamed_count = await self._renamer.replace_values_for_request(recorded, routed)
        draw_uniform = make_seeded_draw(
            self._paces.seed, routed.session, routed.key, request_ordinal
        )
        pace_input = self._cached_pace_input(cassette, pace)
        plan_actions = partial(_plan_actions, cassette, pace, draw_uniform, pace_input)
        burst, pace_input = (
            await self._offload(plan_actions)
            if is_slow_to_plan(cassette, pace, pace_input)
            else plan_actions()
        )
        if cassette is recorded:  # replaced values are specific to one client
            self._cache_pace_input(cassette, pace, pace_input)
        recorded_at = cassette.meta.recorded_at
        return ModeResponse(
            burst,
            take.file,
            recorded_at=recorded_at,
            replaced_value_count=renamed_count,
            pace=str(pace),
        )

    def _cached_pace_input(self, cassette: Cassette, pace: Pace) -> PaceInput | None:
        cached_cassette, pace_input = self._cached_inputs.get(
            _cache_key(cassette, pace), (None, None)
        )
        return pace_input if cached_cassette is cassette else None

    def _cache_pace_input(
        self, cassette: Cassette, pace: Pace, pace_input: PaceInput | None
    ) -> None:
        if pace_input is None:
            return
        key = _cache_key(cassette, pace)
        replaced, _ = self._cached_inputs.pop(key, (None, None))
        self._cached_bytes += _cassette_size_bytes(cassette) - (
            _cassette_size_bytes(replaced) if replaced is not None else 0
        )
        self._cached_inputs[key] = cassette, pace_input
        while self._cached_bytes > _CACHE_BYTES:
            _, (oldest_cassette, _) = self._cached_inputs.popitem(last=False)
            self._cached_bytes -= _cassette_size_bytes(oldest_cassette)


def _cassette_size_bytes(cassette: Cassette) -> int:
    return cassette.response_end.size_bytes + len(cassette.request.body)


def _cache_key(cassette: Cassette, pace: Pace) -> tuple[str, bool]:
    return cassette.file, pace.chunks == "recorded"


def _plan_actions(
    cassette: Cassette, pace: Pace, draw_uniform: IndexedUniformDraw, pace_input: PaceInput | None
) -> tuple[Burst, PaceInput | None]:
    """The actions, and the input of pacing; None where the pace does not need it."""
    if isinstance(pace, TokenRatePace | ModelledPace):
        pace_input = pace_input or read_pace_input(cassette, pace.chunks)
        return replay_actions(cassette, pace, draw_uniform, pace_input), pace_input
    return replay_actions(cassette, pace, draw_uniform), None
