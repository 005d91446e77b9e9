"""Indexes the requests of a library, in the background or on demand.

A thread reads the first two lines of each file, one file after the other, and slows down while
requests are in progress.  A caller that needs the whole index reads the rest itself, at full
speed.

Files whose names do not contain their key by this run's rules are found by their content: files
that were keyed by other rules, and files with names of another kind.  No file is changed.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from llm_proxy import matching
from llm_proxy.cassette import CassetteMeta, StoredRequest
from llm_proxy.cassette.model import FORMAT_VERSION
from llm_proxy.cassette.reader import MAX_FILE_BYTES
from llm_proxy.display import count_with_noun
from llm_proxy.errors import CassetteError, printable_excerpt
from llm_proxy.matching import KEY_RULES_VERSION, RuleSet
from llm_proxy.matching.keys import colliding_rules
from llm_proxy.misses.nearest import CassetteWordIndex
from llm_proxy.shell.library.library import Library, sort_paths

log: Final = logging.getLogger("llm_proxy")

_FIRST_READ_BYTES: Final = 64 * 1024
"""Bytes of a file that are read first: nearly all requests fit."""
_PAUSE_S: Final = 0.005
"""Seconds between two files while requests are in progress."""
_MAX_SHOWN_FILES: Final = 3
"""Maximum number of files in a warning."""
_MAX_PATH_CHARS: Final = 250
"""Maximum length of a path in a warning."""


def is_keyed_by(meta: CassetteMeta, rules: RuleSet) -> bool:
    """Whether a file was keyed by these rules, so that the key in its name is valid."""
    return meta.key_rules_version == KEY_RULES_VERSION and meta.match_rules == rules.rule_texts


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
        self._paths_keyed_differently: set[str] = set()
        """The files that were keyed by other rules than this run's, strays included."""
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
        if is_keyed_by(meta, self._rules):
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
                differently = self._paths_keyed_differently
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
        if count := len(self._paths_keyed_differently):
            log.info(
                "%s keyed by other rules than this run's, and so keyed anew: llm-proxy rekey "
                "renames them",
                count_with_noun(count, "cassette was", "cassettes were"),
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
        self._word_index.add_cassette(number, second)


def _read_opening_lines(path: str) -> tuple[bytes, bytes]:
    """Lines 1 and 2 without line ends.  Raises `ValueError` if the file has fewer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(descriptor, _FIRST_READ_BYTES)
        while content.count(b"\n") < 2 and len(content) < MAX_FILE_BYTES:
            chunk = os.read(descriptor, len(content))
            if not chunk:
                raise ValueError("the file is torn")
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
        f"{count_with_noun(len(paths), 'cassette')} of different requests have one key by "
        f"{', '.join(rules)}, and answer one after the other: {names}{remainder}"
    )


def natural_sort_key(path: Path) -> list[str | int]:
    """A sort key that puts take 10 after take 9: alternating text and numbers."""
    parts = re.split(r"(\d+)", str(path))
    return [int(part) if index % 2 else part for index, part in enumerate(parts)]
