"""Indexes the requests of a library, in the background or on demand.

A thread reads the first two lines of each file, one file after the other, and gives way while
requests are answered.  Whoever needs all of it reads the rest himself, at full speed.
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

from llm_proxy.cassette.model import FORMAT
from llm_proxy.cassette.reader import MAX_FILE
from llm_proxy.display import count_noun
from llm_proxy.errors import CassetteError
from llm_proxy.matching import KEY_RULES, RuleSet
from llm_proxy.misses.word_index import CassetteIndex
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.scanning import sort_paths

log: Final = logging.getLogger("llm_proxy")

_FIRST: Final = 64 * 1024
"""Bytes of a file that are read at once: nearly all requests end there."""
_PAUSE: Final = 0.005
"""Seconds between two files while requests are answered."""


@dataclass(slots=True)
class LibraryIndex:
    """What was read."""

    paths: Sequence[str] = ()
    """All files, by their number in the index."""
    index: CassetteIndex = field(default_factory=CassetteIndex)
    other_keys: set[str] = field(default_factory=set)
    """Those of them that were keyed by other rules than this run's."""


class LibraryIndexer:
    """Reads the openings of a library that is refreshed and not added to."""

    def __init__(self, library: Library, rules: RuleSet) -> None:
        """`rules` are the run's; nothing is read yet."""
        self._library = library
        self._rules = KEY_RULES, list(rules.serialized)
        self._index = LibraryIndex()
        self._task = self._read_files()
        self._lock = threading.Lock()
        self._is_needed_now = threading.Event()
        """Set once somebody waits for all of it, or nobody wants it any more."""

    def start(self, busy: Callable[[], bool]) -> None:
        """Read in the background; `busy` tells whether requests are being answered."""
        threading.Thread(
            target=self._run_in_background, args=(busy,), name="indexing", daemon=True
        ).start()

    def stop(self) -> None:
        """Read nothing more in the background."""
        self._is_needed_now.set()

    def completed_index(self) -> LibraryIndex:
        """All of it, as soon as it is read."""
        self._is_needed_now.set()
        with self._lock:
            for _ in self._task:
                pass
        return self._index

    def _run_in_background(self, busy: Callable[[], bool]) -> None:
        while not self._is_needed_now.is_set():
            with self._lock:
                if next(self._task, None) is None:
                    return
            if busy():
                self._is_needed_now.wait(_PAUSE)

    def _read_files(self) -> Iterator[bool]:
        self._index.paths = sort_paths(self._library.paths())
        for number, path in enumerate(self._index.paths):
            self._index_file(number, path)
            yield True
        if self._index.other_keys:
            log.info(
                "%s keyed by other rules than this run's, and so keyed anew: llm-proxy rekey "
                "renames them",
                count_noun(len(self._index.other_keys), "cassette was", "cassettes were"),
            )

    def _index_file(self, number: int, path: str) -> None:
        """Know of one file; what cannot be read is left out."""
        try:
            first, second = _read_opening_lines(path)
            line = orjson.loads(first)
        except (OSError, ValueError):
            return
        if not isinstance(line, dict) or line.get("cassette") != FORMAT:
            try:  # of an older format, or nothing that can be read
                self._library.read_opening(Path(path))
            except CassetteError:
                return
        rules = line.get("key_rules"), line.get("rules", [])
        if rules != self._rules:
            self._index.other_keys.add(path)
        self._index.index.add(number, second)


def _read_opening_lines(path: str) -> tuple[bytes, bytes]:
    """Lines 1 and 2, without their ends.  Raises `ValueError` where there are no two."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        start = os.read(descriptor, _FIRST)
        while start.count(b"\n") < 2 and len(start) < MAX_FILE:
            more = os.read(descriptor, len(start))
            if not more:
                raise ValueError("the file is torn")
            start += more
    finally:
        os.close(descriptor)
    first, second, *_ = start.split(b"\n", 2)
    return first, second
