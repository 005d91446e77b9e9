"""`replay`: responds from cassettes only, without network.

Takes are replayed at the pace of their requests, with the values of the requesting client.  With
`--match nearest`, the most similar cassette is replayed where none is equal, and marked.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final
from urllib.parse import quote

from llm_proxy import matching
from llm_proxy.actions import Begin, Burst
from llm_proxy.cassette import Cassette
from llm_proxy.errors import NotSimulated
from llm_proxy.matching import NormalizedDocument
from llm_proxy.modes.base import Mode, ModeResponse, probe_response, requested_pace
from llm_proxy.pacing import ModelledPace, Pace, PaceRegistry, TokenRatePace
from llm_proxy.pacing.cassette_player import is_slow_to_plan, read_pace_input, replay_actions
from llm_proxy.pacing.timing import IndexedUniformDraw, PaceInput, make_seeded_draw
from llm_proxy.ports import Offload, Take, TakeSource
from llm_proxy.routing import LARGE_BODY_BYTES, RoutedRequest
from llm_proxy.take_numbers import AfterLast, RequestCounter, pick_take
from llm_proxy.value_replacement import replace_recorded_values, value_replacements

_CACHE_BYTES: Final = 64 * 1024 * 1024
"""The limit of the cache: bytes of the recordings, with requests, that it keeps values of."""
_SLOW_ALIAS_COUNT: Final = 50
"""The number of aliases that takes a few ms."""
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
        return await self._respond_without_take(routed, request_ordinal, len(takes))

    async def _respond_without_take(
        self, routed: RoutedRequest, request_ordinal: int, take_count: int
    ) -> ModeResponse:
        """Responds to a request for which none of the `take_count` takes is left."""
        response = None if take_count else await self._respond_nearest(routed, request_ordinal)
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
        raise TypeError("the actions of a response from a cassette are a generator, not a tuple")
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


class TakePlayer:
    """Replays takes, each at the pace of its request.

    Recorded values that have an alias by the match rules, such as ids and paths, are replaced by
    those of the requesting client.
    """

    def __init__(
        self, paces: PaceRegistry, offload: Offload, min_similarity: float | None = None
    ) -> None:
        """`offload` runs a slow function without blocking other requests.

        `min_similarity`, from 0 to 1, is required of a cassette that is replayed where none is
        equal; None allows equal ones only.
        """
        self.min_similarity = min_similarity
        self._paces = paces
        self._offload = offload
        self._prepared: OrderedDict[str, _PreparedCassette] = OrderedDict()
        """By cassette file; those unused for longest go first."""
        self._prepared_bytes = 0

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
        cassette = await take.cassette()
        draw_uniform = make_seeded_draw(
            self._paces.seed, routed.session, routed.key, request_ordinal
        )
        prepared = self._prepared.get(cassette.file)
        if prepared is None or prepared.cassette is not cassette:
            prepared = _PreparedCassette(cassette)
        pace_input = prepared.pace_inputs.get(pace.chunks == "recorded")
        alias_count = 0
        if routed.match_rules.rules and cassette.request.body != routed.stored_request.body:
            alias_count = len(routed.normalized_document.value_by_alias)
        largest_body_bytes = max(cassette.response_end.size_bytes, len(cassette.request.body))
        replacing_is_slow = alias_count > 0 and (
            largest_body_bytes > LARGE_BODY_BYTES or alias_count > _SLOW_ALIAS_COUNT
        )
        plan = partial(_plan_replay, prepared, routed if alias_count else None, pace, draw_uniform)
        is_slow = replacing_is_slow or is_slow_to_plan(
            cassette, pace, None if alias_count else pace_input
        )
        burst, replaced_count = await self._offload(plan) if is_slow else plan()
        if prepared.document is not None or prepared.pace_inputs:
            self._keep_prepared(prepared)
        return ModeResponse(
            burst,
            take.file,
            recorded_at=cassette.meta.recorded_at,
            replaced_value_count=replaced_count,
            pace=str(pace),
        )

    def _keep_prepared(self, prepared: _PreparedCassette) -> None:
        replaced = self._prepared.pop(prepared.cassette.file, None)
        if replaced is not None:
            self._prepared_bytes -= replaced.size_bytes
        self._prepared[prepared.cassette.file] = prepared
        self._prepared_bytes += prepared.size_bytes
        while self._prepared_bytes > _CACHE_BYTES:
            _, oldest = self._prepared.popitem(last=False)
            self._prepared_bytes -= oldest.size_bytes


@dataclass(slots=True)
class _PreparedCassette:
    """What the replays of a cassette share; each part is computed when it is first needed."""

    cassette: Cassette
    document: NormalizedDocument | None = None
    """The document of the recorded request."""
    pace_inputs: dict[bool, PaceInput] = field(default_factory=dict)
    """By whether the recorded reads are the pieces."""

    @property
    def size_bytes(self) -> int:
        """The size of the recording, its request included."""
        return self.cassette.response_end.size_bytes + len(self.cassette.request.body)


def _plan_replay(
    prepared: _PreparedCassette,
    replacing_routed: RoutedRequest | None,
    pace: Pace,
    draw_uniform: IndexedUniformDraw,
) -> tuple[Burst, int]:
    """The actions of a replay, and how many recorded values are replaced in it.

    They are replaced by those of the client of `replacing_routed`, if there is one, unless the
    requests differ by more than them, since then an alias may mean different things in the two.
    """
    cassette = played = prepared.cassette
    replaced_count = 0
    if replacing_routed is not None:
        prepared.document = prepared.document or matching.normalized_document(
            cassette.meta.provider, cassette.request, replacing_routed.match_rules
        )
        own_document = replacing_routed.normalized_document
        if prepared.document.document == own_document.document:
            replacements = value_replacements(
                prepared.document.value_by_alias, own_document.value_by_alias
            )
            if replacements:
                played, replaced_count = replace_recorded_values(
                    cassette, replacements, replacing_routed.dialect.counted_texts
                )
    # Replaced values are specific to one client: what is computed from them is not kept.
    pace_inputs = prepared.pace_inputs if played is cassette else {}
    has_read_pieces = pace.chunks == "recorded"
    if has_read_pieces not in pace_inputs and isinstance(pace, TokenRatePace | ModelledPace):
        pace_inputs[has_read_pieces] = read_pace_input(played, pace.chunks)
    burst = replay_actions(played, pace, draw_uniform, pace_inputs.get(has_read_pieces))
    return burst, replaced_count
