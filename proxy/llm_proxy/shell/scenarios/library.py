"""The scenarios of a server: read at its start, and again whenever a file changes.

A change that is a mistake is told in the log, and what was good before goes on being played.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from llm_proxy.display import counted, path_text
from llm_proxy.errors import UsageError
from llm_proxy.scenario.documents.loading import Loaded, together
from llm_proxy.scenario.documents.mistakes import Mistake
from llm_proxy.shell.scenarios.files import Seen, read, survey

log: Final = logging.getLogger("llm_proxy")

CHECK_EVERY: Final = 0.2
"""Seconds between two looks at the files, at least."""
_TOLD: Final = 20
"""Mistakes that are told at once."""


class ScenarioLibrary:
    """The scenarios of one path, a file or a folder."""

    def __init__(self, path: Path, now: Callable[[], float] = time.monotonic) -> None:
        """`now` is a clock in s; nothing is read before `load`."""
        self.path = path
        self._now = now
        self._checked = -CHECK_EVERY
        self._seen: tuple[Seen, ...] = ()
        self._trouble = ""
        self._files: dict[Seen, Loaded] = {}
        self._good = Loaded()
        self._lock = asyncio.Lock()

    def load(self) -> Loaded:
        """Read them at the start.  Raises `UsageError` with the mistakes where there are any."""
        loaded = self._read(survey([self.path]))
        if loaded.mistakes:
            raise UsageError(_refusal(self.path, loaded.mistakes))
        _warn(loaded.warnings)
        self._good = loaded
        self._checked = self._now()
        return loaded

    async def current(self) -> Loaded:
        """What is to be played now; a change of the last 0.2 s may not be in it yet."""
        async with self._lock:
            if self._now() - self._checked >= CHECK_EVERY:
                await asyncio.to_thread(self._refresh)
                self._checked = self._now()
        return self._good

    def _refresh(self) -> None:
        """Read what has changed, where anything has."""
        try:
            seen = survey([self.path])
        except UsageError as error:
            self._complain(str(error))
            return
        if seen == self._seen and not self._trouble:
            return
        self._trouble = ""
        loaded = self._read(seen)
        if loaded.mistakes:
            log.error("what was good before stays: %s", _refusal(self.path, loaded.mistakes))
            return
        _warn(loaded.warnings)
        self._good = loaded
        count = counted(len(loaded.scenarios), "scenario")
        log.info("%s has changed: %s read anew", path_text(self.path), count)

    def _complain(self, trouble: str) -> None:
        """Say once that the path cannot be read."""
        if trouble != self._trouble:
            log.error("what was good before stays: %s", trouble)
        self._trouble = trouble

    def _read(self, seen: tuple[Seen, ...]) -> Loaded:
        self._seen = seen
        self._files = read(seen, self._files)
        return together(self._files.values())


def _refusal(path: Path, mistakes: tuple[Mistake, ...]) -> str:
    """The mistakes in one text: the first of them, and how many there are more."""
    lines = [str(it) for it in mistakes[:_TOLD]]
    more = len(mistakes) - len(lines)
    if more:
        lines.append(f"and {more} more: llm-proxy scenario lint tells all of them")
    count = counted(len(mistakes), "mistake")
    return "\n  ".join((f"the scenarios in {path_text(path)} have {count}:", *lines))


def _warn(warnings: Iterable[Mistake]) -> None:
    for it in warnings:
        log.warning("%s", it)
