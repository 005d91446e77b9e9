"""Indexes the requests of a library, in the background or on demand.

A thread reads the first two lines of each file, one file after the other, and slows down while
requests are in progress.  A caller that needs the whole index reads the rest itself, at full
speed.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson

from llm_proxy.cassette.model import FORMAT_VERSION
from llm_proxy.cassette.reader import MAX_FILE_BYTES
from llm_proxy.display import count_with_noun
from llm_proxy.errors import CassetteError
from llm_proxy.matching import KEY_RULES_VERSION, RuleSet
from llm_proxy.misses.word_index import CassetteWordIndex
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.scanning import sort_paths

log: Final = logging.getLogger("llm_proxy")

_FIRST_READ_BYTES: Final = 64 * 1024
"""Bytes of a file that are read first: nearly all requests fit."""
_PAUSE_S: Final = 0.005
"""Seconds between two files while requests are in progress."""


@dataclass(slots=True)
class LibraryIndex:
    """The indexed requests of a library."""

    paths: Sequence[str] = ()
    """All files; the position is the file's number in `index`."""
    word_index: CassetteWordIndex = field(default_factory=CassetteWordIndex)
    paths_keyed_differently: set[str] = field(default_factory=set)
    """The files that were keyed by other rules than this run's."""


class LibraryIndexer:
    """Indexes the first two lines of a library's files.

    The library must be refreshed, and no recorder may add to it.
    """

    def __init__(self, library: Library, rules: RuleSet) -> None:
        """`rules` are the run's.  Reads nothing yet."""
        self._library = library
        self._expected_rules = KEY_RULES_VERSION, list(rules.rule_texts)
        self._index = LibraryIndex()
        self._index_steps = self._index_files()
        self._lock = threading.Lock()
        self._finish_event = threading.Event()
        """Set once a caller waits for the whole index, or the background thread must stop."""

    def start_in_background(self, is_busy: Callable[[], bool]) -> None:
        """Index in a thread; `is_busy` returns whether requests are in progress."""
        threading.Thread(
            target=self._run_in_background, args=(is_busy,), name="indexing", daemon=True
        ).start()

    def stop_background(self) -> None:
        """Stop the background thread."""
        self._finish_event.set()

    def completed_index(self) -> LibraryIndex:
        """The whole index; reads the remaining files first."""
        self._finish_event.set()
        with self._lock:
            for _ in self._index_steps:
                pass
        return self._index

    def _run_in_background(self, is_busy: Callable[[], bool]) -> None:
        while not self._finish_event.is_set():
            with self._lock:
                if next(self._index_steps, None) is None:
                    return
            if is_busy():
                self._finish_event.wait(_PAUSE_S)

    def _index_files(self) -> Iterator[bool]:
        self._index.paths = sort_paths(self._library.unsorted_paths())
        for number, path in enumerate(self._index.paths):
            self._index_file(number, path)
            yield True
        if self._index.paths_keyed_differently:
            log.info(
                "%s keyed by other rules than this run's, and so keyed anew: llm-proxy rekey "
                "renames them",
                count_with_noun(
                    len(self._index.paths_keyed_differently), "cassette was", "cassettes were"
                ),
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
            self._index.paths_keyed_differently.add(path)
        self._index.word_index.add_cassette(number, second)


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
