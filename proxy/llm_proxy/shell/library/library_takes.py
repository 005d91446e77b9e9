"""The take source of a library, as modes use it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from llm_proxy import misses
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.errors import CassetteError, Miss
from llm_proxy.integrity import integrity_problems, was_redacted_after_keying
from llm_proxy.matching import NO_RULES, RuleSet
from llm_proxy.misses import CassetteCandidate
from llm_proxy.misses.nearest import is_similar_enough, rank_candidates
from llm_proxy.misses.report import STORED_LIMITS, ReportLimits
from llm_proxy.ports import SimilarTakes
from llm_proxy.routing import RoutedRequest
from llm_proxy.shell.library.library import Library, parse_take_path, session_of_path
from llm_proxy.shell.library.library_index import LibraryIndex
from llm_proxy.take_numbers import session_take_order

T = TypeVar("T")

_MAX_CACHED_MISSES: Final = 200
"""Maximum number of cached misses: clients repeat requests that were not answered."""


@dataclass(frozen=True, slots=True)
class LibraryTake:
    """One take, which is read when it is played."""

    path: Path
    library: Library

    @property
    def file(self) -> str:
        """The path of its file."""
        return str(self.path)

    async def cassette(self) -> Cassette:
        """The cassette as it was when it was first read.

        Raises `CassetteError` if it is invalid.
        """
        cassette = self.library.cached_cassette(self.path)
        return (
            cassette
            if cassette is not None
            else await _run_in_thread(lambda: self.library.load_cassette(self.path))
        )


class LibraryTakes:
    """The takes that were in a library when the run started.

    All takes of a key are read at its first request, to find out which are playable.
    """

    def __init__(self, library: Library, *, allow_partial: bool, rules: RuleSet = NO_RULES) -> None:
        """`library` must be refreshed, and no recorder may add to it."""
        self._library = library
        self._allow_partial = allow_partial
        self._takes_by_key: dict[tuple[str, str], tuple[LibraryTake, ...]] = {}
        self._cached_misses: OrderedDict[tuple[str, str], Miss] = OrderedDict()
        self._cached_similar: dict[tuple[str, str], SimilarTakes | None] = {}
        self.index = LibraryIndex(library, rules)

    async def takes_of(self, session: str, key: str) -> Sequence[LibraryTake]:
        """The playable takes of a session for a key, in order.

        Raises `CassetteError` if one of them is invalid.
        """
        takes = self._takes_by_key.get((session, key))
        if takes is None:
            takes = await _run_in_thread(lambda: self.find_takes(session, key))
            self._takes_by_key[session, key] = takes
        return takes

    def find_takes(self, session: str, key: str) -> tuple[LibraryTake, ...]:
        """The playable takes of a session for a key, read now and not cached.

        They are the session's and the default session's, in the order of playing.
        """
        own_takes = self._playable_in_session(session, key)
        default_takes = (
            {} if session == DEFAULT_SESSION else self._playable_in_session(DEFAULT_SESSION, key)
        )
        return tuple(
            LibraryTake((own_takes if is_own else default_takes)[number], self._library)
            for is_own, number in session_take_order(own_takes, default_takes)
        )

    async def miss_for_request(self, routed: RoutedRequest, ordinal: int) -> Miss:
        """Why a request, the `ordinal`-th of its key and session, is not answered; cached."""
        takes = self._takes_by_key.get((routed.session, routed.key), ())
        if takes:
            return misses.used_up_takes_miss(routed, len(takes), ordinal)
        cache_key = routed.session, routed.key
        miss = self._cached_misses.pop(cache_key, None)
        if miss is None:
            miss = await _run_in_thread(lambda: self.explain_miss(routed))
        self._cached_misses[cache_key] = miss
        if len(self._cached_misses) > _MAX_CACHED_MISSES:
            self._cached_misses.popitem(last=False)
        return miss

    async def nearest(self, routed: RoutedRequest, share: float) -> SimilarTakes | None:
        """The takes of the nearest cassette, if its similarity is at least `share`; cached."""
        cache_key = routed.session, routed.key
        if cache_key not in self._cached_similar:
            self._cached_similar[cache_key] = await _run_in_thread(
                lambda: self.similar_takes(routed, share)
            )
        return self._cached_similar[cache_key]

    def _playable_in_session(self, session: str, key: str) -> dict[int, Path]:
        """The playable files of one session by take number; strays come before the named ones."""
        named = self._library.take_paths(session, key)
        found = self.index.find_takes_by_content(session, key, include_other_rules=not named)
        strays = [path for path in found if path not in named.values()]
        if named:
            numbered = {
                **dict(enumerate(strays, 1)),
                **{len(strays) + number: path for number, path in named.items()},
            }
        else:
            numbered = dict(zip(self._stray_numbers(strays), strays, strict=True))
        return {number: path for number, path in numbered.items() if self._is_playable(path, key)}

    def _stray_numbers(self, strays: Sequence[Path]) -> Sequence[int]:
        """The take numbers in the names of files of other rules; consecutive if not distinct.

        So a session's own takes come after those of the default session that they continue.
        """
        takes = [parse_take_path(self._library.root, path) for path in strays]
        numbers = [take.number for take in takes if take is not None]
        if len(set(numbers)) == len(strays):
            return numbers
        first_number = min(numbers) if len(numbers) == len(strays) else 1
        return range(first_number, first_number + len(strays))

    def _is_playable(self, path: Path, key: str) -> bool:
        cassette = self._library.load_cassette(path)
        return self.index.key_by_run_rules(cassette.meta, cassette.request) == key and (
            self._allow_partial or cassette_outcome(cassette).is_complete
        )

    def _candidate_cassettes(self, routed: RoutedRequest) -> Iterator[CassetteCandidate]:
        """Yield the cassettes nearest to a request, as the index ranks them."""
        for path in self.index.nearest_paths(routed.stored_request):
            try:
                yield CassetteCandidate(str(path), *self._library.read_opening(path))
            except CassetteError:
                continue

    def sessions_with_key(self, key: str) -> list[str]:
        """The sessions that have takes of their own for a key, playable or not."""
        return [
            session
            for session in self._library.sessions()
            if self._library.take_paths(session, key)
            or self.index.find_takes_by_content(session, key, include_other_rules=True)
        ]

    def best_similarity(self, routed: RoutedRequest) -> float:
        """The similarity of the nearest cassette, from 0 to 1; 0 if none is near."""
        ranked = rank_candidates(routed, self._candidate_cassettes(routed))
        return ranked[0].similarity if ranked else 0.0

    def similar_takes(self, routed: RoutedRequest, min_similarity: float) -> SimilarTakes | None:
        """The takes of the nearest cassette that may answer, if it is similar enough.

        `min_similarity` is from 0 to 1.
        """
        for nearest_match in rank_candidates(routed, self._candidate_cassettes(routed)):
            meta = nearest_match.cassette.meta
            if nearest_match.similarity < min_similarity:
                return None
            if meta.session in {routed.session, DEFAULT_SESSION} and is_similar_enough(
                nearest_match, routed, min_similarity
            ):
                takes = self.find_takes(
                    routed.session,
                    self.index.key_by_run_rules(meta, nearest_match.cassette.request),
                )
                if takes:
                    return SimilarTakes(takes, nearest_match.similarity)
        return None

    def explain_miss(self, routed: RoutedRequest, limits: ReportLimits = STORED_LIMITS) -> Miss:
        """Why no cassette answers a request; not cached."""
        cassette_count = self.index.cassette_count()
        ranked = rank_candidates(routed, self._candidate_cassettes(routed))
        nearest = ranked[0] if ranked else None
        reason = ""
        if nearest is not None and not nearest.differences.differences:
            reason = self._unplayable_reason(Path(nearest.cassette.file))
        root = str(self._library.root)
        return misses.no_cassette_miss(routed, nearest, cassette_count, root, reason, limits)

    def _unplayable_reason(self, path: Path) -> str:
        try:
            cassette = self._library.load_cassette(path)
        except CassetteError as error:
            return f"cannot be trusted: {error}. Delete it, or record it again"
        take, root = parse_take_path(self._library.root, path), self._library.root
        key_prefix = take.key_prefix if take is not None else None
        for complaint in integrity_problems(cassette, key_prefix, session_of_path(root, path)):
            return complaint
        outcome = cassette_outcome(cassette)
        if outcome.is_complete and was_redacted_after_keying(cassette.request):
            return (
                "held other credentials where this request holds its own. Record it again with "
                "llm-proxy record, or leave that place out of keys with --normalise ignore=JSONPATH"
            )
        if outcome.is_complete:
            return "was not there when this run began; start it again"
        return (
            f"is not complete ({outcome.reason}). Record it again with llm-proxy record, or replay "
            "it as it is with --allow-partial"
        )


async def _run_in_thread(function: Callable[[], T]) -> T:
    import asyncio  # noqa: PLC0415 # commands without a server find takes without it

    return await asyncio.to_thread(function)
