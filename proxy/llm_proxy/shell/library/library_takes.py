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
from llm_proxy.errors import CassetteError, Miss
from llm_proxy.integrity import LibraryLocation, has_other_key, integrity_complaints
from llm_proxy.matching import PLAIN, RuleSet
from llm_proxy.misses import CassetteCandidate
from llm_proxy.misses.nearest import may_respond, rank_candidates
from llm_proxy.misses.report import KEPT, ReportLimits
from llm_proxy.outcome import outcome_of
from llm_proxy.ports import SimilarTakes
from llm_proxy.routing import RoutedRequest
from llm_proxy.shell.library.indexer import LibraryIndexer
from llm_proxy.shell.library.library import Library, session_of_path, take_of_name
from llm_proxy.shell.library.library_keys import LibraryKeys
from llm_proxy.take_numbers import take_sequence

T = TypeVar("T")

_REMEMBERED: Final = 200
"""Misses that are remembered: clients ask again for what they did not get."""


@dataclass(frozen=True, slots=True)
class LibraryTake:
    """One take, read when it is played."""

    path: Path
    library: Library

    @property
    def file(self) -> str:
        """Its file."""
        return str(self.path)

    async def cassette(self) -> Cassette:
        """What it holds, as it was when it was first read.

        Raises `CassetteError` when it cannot be trusted.
        """
        kept = self.library.cached_cassette(self.path)
        return (
            kept
            if kept is not None
            else await _run_in_thread(lambda: self.library.load_cassette(self.path))
        )


class LibraryTakes:
    """What was in a library when the run started.

    All takes of a key are read when it is first asked for, to know which are playable.
    """

    def __init__(self, library: Library, *, allow_partial: bool, rules: RuleSet = PLAIN) -> None:
        """`library` must be refreshed, and not be added to by a recorder."""
        self._library = library
        self._allow_partial = allow_partial
        self._playable: dict[tuple[str, str], tuple[LibraryTake, ...]] = {}
        self._cached_misses: OrderedDict[tuple[str, str], Miss] = OrderedDict()
        self._cached_similar: dict[tuple[str, str], SimilarTakes | None] = {}
        self.indexing = LibraryIndexer(library, rules)
        self._keying = LibraryKeys(
            library, rules, lambda: self.indexing.completed_index().other_keys
        )

    async def takes_of(self, session: str, key: str) -> Sequence[LibraryTake]:
        """The playable takes of a session for a key, in order.

        Raises `CassetteError` when one of them cannot be trusted.
        """
        takes = self._playable.get((session, key))
        if takes is None:
            takes = await _run_in_thread(lambda: self.find_takes(session, key))
            self._playable[session, key] = takes
        return takes

    def find_takes(self, session: str, key: str) -> tuple[LibraryTake, ...]:
        """The same, found now, and not remembered."""
        return tuple(LibraryTake(path, self._library) for path in self._find_playable(session, key))

    async def miss(self, routed: RoutedRequest, ordinal: int) -> Miss:
        """Why the request of that ordinal is not answered."""
        takes = self._playable.get((routed.session, routed.key), ())
        if takes:
            return misses.miss_used_up(routed, len(takes), ordinal)
        values = routed.session, routed.key
        miss = self._cached_misses.pop(values, None)
        if miss is None:
            miss = await _run_in_thread(lambda: self.explain_miss(routed))
        self._cached_misses[values] = miss
        if len(self._cached_misses) > _REMEMBERED:
            self._cached_misses.popitem(last=False)
        return miss

    async def nearest(self, routed: RoutedRequest, share: float) -> SimilarTakes | None:
        """The takes of the nearest cassette that is at least that alike; None where none is."""
        values = routed.session, routed.key
        if values not in self._cached_similar:
            self._cached_similar[values] = await _run_in_thread(
                lambda: self.similar_takes(routed, share)
            )
        return self._cached_similar[values]

    def _find_playable(self, session: str, key: str) -> tuple[Path, ...]:
        """What is playable, session by session; the names that say nothing come first."""
        own = self._playable_in_session(session, key)
        default = (
            {} if session == DEFAULT_SESSION else self._playable_in_session(DEFAULT_SESSION, key)
        )
        return tuple(
            (own if mine else default)[number] for mine, number in take_sequence(own, default)
        )

    def _playable_in_session(self, session: str, key: str) -> dict[int, Path]:
        """The playable takes of one session by number; strays come in front of the named ones."""
        numbers = self._library.numbers(session, key)
        named = [self._library.take(session, key, number).path for number in numbers]
        anew = self._keying.unnamed_takes(session, key, everywhere=not named)
        strays = [path for path in anew if path not in named]
        places = self._numbers_of_strays(strays)
        if numbers:
            places = [*range(1, len(strays) + 1), *(len(strays) + number for number in numbers)]
        playable = set(self._filter_playable([*strays, *named], key))
        placed = zip(places, [*strays, *named], strict=True)
        return {number: path for number, path in placed if path in playable}

    def _numbers_of_strays(self, strays: Sequence[Path]) -> Sequence[int]:
        """The numbers that names of other rules say, where each says another.

        A session's own takes so come behind those of the default session that they continue.
        """
        takes = [take_of_name(self._library.root, path) for path in strays]
        numbers = [take.number for take in takes if take is not None]
        if len(set(numbers)) == len(strays):
            return numbers
        first = min(numbers) if len(numbers) == len(strays) else 1
        return range(first, first + len(strays))

    def _filter_playable(self, paths: Sequence[Path], key: str) -> tuple[Path, ...]:
        playable: list[Path] = []
        for path in paths:
            cassette = self._library.load_cassette(path)
            if self._keying.key_of(cassette.meta, cassette.request) != key:
                continue
            if self._allow_partial or outcome_of(cassette).complete:
                playable.append(path)
        return tuple(playable)

    def _candidate_cassettes(self, routed: RoutedRequest) -> Iterator[CassetteCandidate]:
        """The cassettes that a request could have meant, in the order of the library."""
        known = self.indexing.completed_index()
        for number in known.index.nearest_numbers(routed.stored_request):
            path = Path(known.paths[number])
            try:
                yield CassetteCandidate(str(path), *self._library.read_opening(path))
            except CassetteError:
                continue

    def sessions(self, key: str) -> list[str]:
        """The sessions that have takes of their own for a key, playable or not."""
        return [
            session
            for session in self._library.sessions()
            if self._library.numbers(session, key)
            or self._keying.unnamed_takes(session, key, everywhere=True)
        ]

    def best_similarity(self, routed: RoutedRequest) -> float:
        """How alike the nearest cassette is, from 0 to 1; 0 where none is near."""
        near, _ = rank_candidates(routed, self._candidate_cassettes(routed))
        return near[0].similarity if near else 0.0

    def similar_takes(self, routed: RoutedRequest, share: float) -> SimilarTakes | None:
        """The takes of the nearest cassette that may answer and is at least that alike."""
        near, _ = rank_candidates(routed, self._candidate_cassettes(routed))
        for nearest_match in near:
            meta = nearest_match.candidate.meta
            if nearest_match.similarity < share:
                return None
            if meta.session in {routed.session, DEFAULT_SESSION} and may_respond(
                nearest_match, routed, share
            ):
                takes = self.find_takes(
                    routed.session, self._keying.key_of(meta, nearest_match.candidate.request)
                )
                if takes:
                    return SimilarTakes(takes, nearest_match.similarity)
        return None

    def explain_miss(self, routed: RoutedRequest, limits: ReportLimits = KEPT) -> Miss:
        """Why no cassette answers a request."""
        looked_at = self.indexing.completed_index().index.size
        found = misses.find_nearest(routed, self._candidate_cassettes(routed), looked_at)
        why = ""
        if found is not None and found.match is not None and not found.match.list_differences:
            why = self._unplayable_reason(Path(found.match.candidate.file))
        return misses.miss_without_cassette(routed, found, str(self._library.root), why, limits)

    def _unplayable_reason(self, path: Path) -> str:
        try:
            cassette = self._library.load_cassette(path)
        except CassetteError as error:
            return f"cannot be trusted: {error}. Delete it, or record it again"
        take, root = take_of_name(self._library.root, path), self._library.root
        place = LibraryLocation(
            take.key_prefix if take is not None else None, session_of_path(root, path)
        )
        for complaint in integrity_complaints(cassette, place):
            return complaint
        found = outcome_of(cassette)
        if found.complete and has_other_key(cassette.request):
            return (
                "held other credentials where this request holds its own. Record it again with "
                "llm-proxy record, or leave that place out of keys with --normalise ignore=JSONPATH"
            )
        if found.complete:
            return "was not there when this run began; start it again"
        return (
            f"is not complete ({found.reason}). Record it again with llm-proxy record, or replay "
            "it as it is with --allow-partial"
        )


async def _run_in_thread(function: Callable[[], T]) -> T:
    import asyncio  # noqa: PLC0415 # commands that serve nothing look for takes without it

    return await asyncio.to_thread(function)
