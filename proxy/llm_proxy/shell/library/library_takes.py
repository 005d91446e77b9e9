"""The takes of a library, as modes use them, and the index that finds them by their requests.

The index is built in the background or on demand.  A thread reads the first two lines of each file,
one file after the other, and slows down while requests are in progress.  A caller that needs the
whole index reads the rest itself, at full speed.

Files whose names do not contain their key by this run's rules are found by their content: files
that were keyed by other rules, and files with names of another kind.  No file is changed.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import orjson

from llm_proxy import matching, misses
from llm_proxy.cassette import Cassette, CassetteMeta, StoredRequest
from llm_proxy.cassette.model import DEFAULT_SESSION, FORMAT_VERSION
from llm_proxy.cassette.reader import MAX_FILE_BYTES, parse_cassette_meta
from llm_proxy.cassette_consistency import consistency_problems, was_redacted_after_keying
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.display import count_with_noun
from llm_proxy.errors import CassetteError, Miss, printable_excerpt
from llm_proxy.matching import KEY_RULES_VERSION, NO_RULES, RuleSet
from llm_proxy.matching.keys import colliding_rules, is_keyed_by
from llm_proxy.matching.presets import needs_rekeying
from llm_proxy.misses import CassetteCandidate
from llm_proxy.misses.nearest import CassetteWordIndex, is_similar_enough, rank_candidates
from llm_proxy.misses.report import STORED_LIMITS, ReportOptions
from llm_proxy.ports import SimilarTakes
from llm_proxy.redaction import has_older_rules, may_be_redacted
from llm_proxy.routing import RoutedRequest
from llm_proxy.shell.library.library import (
    Library,
    natural_sort_key,
    parse_take_path,
    session_of_path,
    sort_paths,
)
from llm_proxy.take_numbers import session_take_order

T = TypeVar("T")

log: Final = logging.getLogger("llm_proxy")

_MAX_CACHED_MISSES: Final = 200
"""Maximum number of cached misses: clients repeat requests that were not answered."""
_FIRST_READ_BYTES: Final = 64 * 1024
"""Bytes of a file that are read first: nearly all requests fit."""
_PAUSE_S: Final = 0.005
"""Seconds between two files while requests are in progress."""
_MAX_SHOWN_FILES: Final = 3
"""Maximum number of files in a warning."""
_MAX_PATH_CHARS: Final = 250
"""Maximum length of a path in a warning."""


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

    def __init__(
        self,
        library: Library,
        *,
        allow_partial: bool,
        rules: RuleSet = NO_RULES,
        report_options: ReportOptions = STORED_LIMITS,
    ) -> None:
        """`library` must be refreshed, and no recorder may add to it."""
        self._report_options = report_options
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
            return misses.no_takes_left_miss(routed, len(takes), ordinal)
        cache_key = routed.session, routed.key
        miss = self._cached_misses.pop(cache_key, None)
        if miss is None:
            miss = await _run_in_thread(lambda: self.explain_miss(routed, self._report_options))
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

    def explain_miss(self, routed: RoutedRequest, limits: ReportOptions = STORED_LIMITS) -> Miss:
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
            return f"is not a valid cassette ({error}); delete or re-record the file"
        take, root = parse_take_path(self._library.root, path), self._library.root
        key_prefix = take.key_prefix if take is not None else None
        for complaint in consistency_problems(cassette, key_prefix, session_of_path(root, path)):
            return complaint
        outcome = cassette_outcome(cassette)
        if outcome.is_complete and was_redacted_after_keying(cassette.request):
            return (
                "was recorded with different credentials in the request; record the request again "
                "with llm-proxy record, or ignore the credentials with --normalise ignore=JSONPATH"
            )
        if outcome.is_complete:
            return "was added after this run started; restart llm-proxy"
        return (
            f"is incomplete ({outcome.reason}); record the request again with llm-proxy "
            "record, or replay with --allow-partial"
        )


async def _run_in_thread(function: Callable[[], T]) -> T:
    import asyncio  # noqa: PLC0415 # commands without a server find takes without it

    return await asyncio.to_thread(function)


@dataclass(frozen=True, slots=True)
class _RekeyedFile:
    """A file with the key that was computed from its stored request."""

    path: Path
    meta: CassetteMeta
    key_by_run_rules: str


class LibraryIndex:
    """Indexes the first two lines of a library's files.  Thread-safe.

    The library must be refreshed, and no recorder may add to it.
    """

    def __init__(self, library: Library, rules: RuleSet) -> None:
        """`rules` are the run's.  Reads nothing yet."""
        self._library = library
        self._rules = rules
        self._expected_rules = KEY_RULES_VERSION, list(rules.rule_texts)
        self._paths: Sequence[str] = ()
        """All files; the position is the file's number in the word index."""
        self._word_index = CassetteWordIndex()
        self._outdated_count = 0
        """The number of files that `rekey` would change."""
        self._paths_keyed_differently: set[str] = set()
        """The files that were keyed by other rules than this run's, strays included."""
        self._paths_redacted_differently: set[str] = set()
        """The files with older rules in whose requests the rules of today replace something."""
        self._index_steps = self._index_files()
        self._indexing_lock = threading.Lock()
        self._finish_event = threading.Event()
        """Set once a caller waits for the whole index, or the background thread must stop."""
        self._rekeyed_files: dict[str | None, tuple[_RekeyedFile, ...]] = {}
        """For each session read so far, its files that were keyed by other rules; for None, the
        strays."""
        self._rekeying_lock = threading.Lock()
        """Held while reading, so that files are read only once."""

    def start_in_background(self, is_busy: Callable[[], bool]) -> None:
        """Index in a thread; `is_busy` returns whether requests are in progress."""
        threading.Thread(
            target=self._run_in_background, args=(is_busy,), name="indexing", daemon=True
        ).start()

    def stop_background(self) -> None:
        """Stop the background thread."""
        self._finish_event.set()

    def cassette_count(self) -> int:
        """The number of indexed files; reads the remaining ones first."""
        self._complete()
        return self._word_index.cassette_count

    def nearest_paths(self, request: StoredRequest) -> Iterator[Path]:
        """The files with the requests nearest to this one, nearest first.

        Reads the remaining files first.
        """
        self._complete()
        numbers = self._word_index.nearest_cassette_numbers(request)
        return (Path(self._paths[number]) for number in numbers)

    def key_by_run_rules(self, meta: CassetteMeta, request: StoredRequest) -> str:
        """The key of a file's request by the rules of this run."""
        if is_keyed_by(meta, self._rules) and not has_older_rules(meta.redaction_rules_version):
            return meta.key
        return matching.request_key(meta.provider, request, self._rules)

    def find_takes_by_content(
        self, session: str, key: str, *, include_other_rules: bool
    ) -> list[Path]:
        """The files of a session and key whose names do not contain that key, in order.

        Strays are always searched.  `include_other_rules` also reads the session's files that were
        keyed by other rules, which is slow, and needed only if no name has the key.
        """
        files = [file for file in self._load_rekeyed(None) if file.meta.session == session]
        if include_other_rules:
            files += self._load_rekeyed(session)
        return sorted(
            (file.path for file in files if file.key_by_run_rules == key), key=natural_sort_key
        )

    def _load_rekeyed(self, session: str | None) -> tuple[_RekeyedFile, ...]:
        """The files of a session that were keyed by other rules, or the strays if it is None."""
        cached = self._rekeyed_files.get(session)
        if cached is not None:  # without waiting for the lock
            return cached
        with self._rekeying_lock:
            if session in self._rekeyed_files:
                return self._rekeyed_files[session]
            if session is None:
                paths = self._library.stray_paths()
            else:
                self._complete()
                differently = self._paths_keyed_differently | self._paths_redacted_differently
                in_session = self._library.take_paths_in_session(session) if differently else []
                paths = [path for path in in_session if str(path) in differently]
            files: list[_RekeyedFile] = []
            for path in paths:
                try:
                    meta, request = self._library.read_opening(path)
                except CassetteError:
                    continue
                files.append(_RekeyedFile(path, meta, self.key_by_run_rules(meta, request)))
            if session is not None:
                self._warn_about_collisions(files)
            self._rekeyed_files[session] = tuple(files)
            return self._rekeyed_files[session]

    def _warn_about_collisions(self, rekeyed_files: Sequence[_RekeyedFile]) -> None:
        """Log which files had different keys, but have the same key by the rules of this run."""
        files_by_key: dict[str, list[_RekeyedFile]] = {}
        for file in rekeyed_files:
            files_by_key.setdefault(file.key_by_run_rules, []).append(file)
        for group in files_by_key.values():
            if len({file.meta.key for file in group}) > 1:
                openings = [self._library.read_opening(file.path) for file in group]
                rules = colliding_rules(
                    [(meta.provider, request) for meta, request in openings], self._rules
                )
                if rules:
                    message = collision_message([file.path for file in group], map(str, rules))
                    log.warning("%s", message)

    def _complete(self) -> None:
        """Index the remaining files."""
        self._finish_event.set()
        with self._indexing_lock:
            for _ in self._index_steps:
                pass

    def _run_in_background(self, is_busy: Callable[[], bool]) -> None:
        while not self._finish_event.is_set():
            with self._indexing_lock:
                if next(self._index_steps, None) is None:
                    return
            if is_busy():
                self._finish_event.wait(_PAUSE_S)

    def _index_files(self) -> Iterator[bool]:
        self._paths = sort_paths(self._library.unsorted_paths())
        for number, path in enumerate(self._paths):
            self._index_file(number, path)
            yield True
        if count := self._outdated_count:
            log.info(
                "%s recorded with different --normalise rules; run llm-proxy rekey to apply the "
                "current rules",
                count_with_noun(count, "cassette"),
            )

    def _index_file(self, number: int, path: str) -> None:
        """Add one file to the index; an unreadable one is skipped."""
        try:
            first, second = _read_opening_lines(path)
            meta_line = orjson.loads(first)
        except (OSError, ValueError):
            return
        if not isinstance(meta_line, dict) or meta_line.get("cassette") != FORMAT_VERSION:
            try:  # an older format, or unreadable
                self._library.read_opening(Path(path))
            except CassetteError:
                return
        file_rules = meta_line.get("key_rules"), meta_line.get("rules", [])
        if file_rules != self._expected_rules:
            self._paths_keyed_differently.add(path)
            with suppress(CassetteError):  # which is reported when the file is replayed
                meta = parse_cassette_meta(path, first + b"\n")
                self._outdated_count += needs_rekeying(meta, self._rules)
        elif has_older_rules(meta_line.get("redaction_rules")) and may_be_redacted(
            second, self._rules.redaction
        ):
            self._paths_redacted_differently.add(path)
        self._word_index.add_cassette(number, second)


def _read_opening_lines(path: str) -> tuple[bytes, bytes]:
    """Lines 1 and 2 without line ends.  Raises `ValueError` if the file has fewer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(descriptor, _FIRST_READ_BYTES)
        while content.count(b"\n") < 2 and len(content) < MAX_FILE_BYTES:
            chunk = os.read(descriptor, len(content))
            if not chunk:
                raise ValueError("the file is truncated")
            content += chunk
    finally:
        os.close(descriptor)
    first, second, *_ = content.split(b"\n", 2)
    return first, second


def collision_message(paths: Sequence[Path], rules: Iterable[str]) -> str:
    """A message about files of different requests that `rules` give the same key."""
    names = ", ".join(
        printable_excerpt(str(path), _MAX_PATH_CHARS) for path in paths[:_MAX_SHOWN_FILES]
    )
    remainder = (
        f", and {len(paths) - _MAX_SHOWN_FILES} more" if len(paths) > _MAX_SHOWN_FILES else ""
    )
    return (
        f"{count_with_noun(len(paths), 'cassette')} of different requests have the same key "
        f"under the rules {', '.join(rules)}; llm-proxy replays them "
        f"one after another: {names}{remainder}"
    )
