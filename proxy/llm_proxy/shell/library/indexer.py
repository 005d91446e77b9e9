"""What the cassettes of a library answer, read once: in the background, or at once in need.

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
from llm_proxy.display import counted
from llm_proxy.errors import CassetteError
from llm_proxy.matching import KEY_RULES, Rules
from llm_proxy.misses.index import Index
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.scanning import in_order

log: Final = logging.getLogger("llm_proxy")

_FIRST: Final = 64 * 1024
"""Bytes of a file that are read at once: nearly all requests end there."""
_PAUSE: Final = 0.005
"""Seconds between two files while requests are answered."""


@dataclass(slots=True)
class Known:
    """What was read."""

    paths: Sequence[str] = ()
    """All files, by their number in the index."""
    index: Index = field(default_factory=Index)
    otherwise: set[str] = field(default_factory=set)
    """Those of them that were keyed by other rules than this run's."""


class Indexing:
    """Reads the openings of a library that is refreshed and not added to."""

    def __init__(self, library: Library, rules: Rules) -> None:
        """`rules` are the run's; nothing is read yet."""
        self._library = library
        self._rules = KEY_RULES, list(rules.spelled)
        self._known = Known()
        self._work = self._reading()
        self._turn = threading.Lock()
        self._needed = threading.Event()
        """Set once somebody waits for all of it, or nobody wants it any more."""

    def begin(self, busy: Callable[[], bool]) -> None:
        """Read in the background; `busy` tells whether requests are being answered."""
        threading.Thread(target=self._run, args=(busy,), name="indexing", daemon=True).start()

    def stop(self) -> None:
        """Read nothing more in the background."""
        self._needed.set()

    def complete(self) -> Known:
        """All of it, as soon as it is read."""
        self._needed.set()
        with self._turn:
            for _ in self._work:
                pass
        return self._known

    def _run(self, busy: Callable[[], bool]) -> None:
        while not self._needed.is_set():
            with self._turn:
                if next(self._work, None) is None:
                    return
            if busy():
                self._needed.wait(_PAUSE)

    def _reading(self) -> Iterator[bool]:
        """Reads one file after the other, and gives something after each."""
        self._known.paths = in_order(self._library.paths())
        for number, path in enumerate(self._known.paths):
            self._read(number, path)
            yield True
        if self._known.otherwise:
            log.info(
                "%s keyed by other rules than this run's, and so keyed anew: llm-proxy rekey "
                "renames them",
                counted(len(self._known.otherwise), "cassette was", "cassettes were"),
            )

    def _read(self, number: int, path: str) -> None:
        """Know of one file; what cannot be read is left out."""
        try:
            first, second = _lines(path)
            line = orjson.loads(first)
        except (OSError, ValueError):
            return
        if not isinstance(line, dict) or line.get("cassette") != FORMAT:
            try:  # of an older format, or nothing that can be read
                self._library.opening(Path(path))
            except CassetteError:
                return
        rules = line.get("key_rules"), line.get("rules", [])
        if rules != self._rules:
            self._known.otherwise.add(path)
        self._known.index.add(number, second)


def _lines(path: str) -> tuple[bytes, bytes]:
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
