"""The scenarios of a server: read at its start, and again whenever a file changes.

A change that is a mistake is told in the log, and what was good before goes on being played.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from llm_proxy.display import counted, path_text
from llm_proxy.errors import UsageError
from llm_proxy.scenario.documents.loading import Loaded, together
from llm_proxy.scenario.documents.mistakes import ROOT, Mistake
from llm_proxy.shell.scenarios.files import Seen, read, survey

log: Final = logging.getLogger("llm_proxy")

CHECK_EVERY: Final = 0.2
"""Seconds between two looks at the files, at least."""
PATIENCE: Final = 1.0
"""Seconds that a request waits at most for what has changed; then the old is played."""
_TOLD: Final = 20
"""Mistakes that are told at once."""


class ScenarioLibrary:
    """The scenarios of one path, a file or a folder."""

    def __init__(
        self, path: Path, now: Callable[[], float] = time.monotonic, patience: float = PATIENCE
    ) -> None:
        """`now` is a clock in s, `patience` is in s too; nothing is read before `load`."""
        self.path = path
        self._now = now
        self._patience = patience
        self._checked = -CHECK_EVERY
        self._seen: tuple[Seen, ...] = ()
        self._trouble = ""
        self._files: dict[Seen, Loaded] = {}
        self._good = Loaded()
        self._held: frozenset[Path] = frozenset()
        """The files that `_good` is from."""
        self._renewal: asyncio.Task[None] | None = None
        self._is_slow = False
        """Whether nobody waits for the renewal any more: it reads a change, or has taken long."""

    def load(self) -> Loaded:
        """Read them at the start.  Raises `UsageError` with the mistakes where there are any."""
        loaded = self._read(survey([self.path]))
        if loaded.mistakes:
            raise UsageError(_refusal(self.path, loaded.mistakes))
        self._accept(loaded)
        self._checked = self._now()
        return loaded

    async def current(self) -> Loaded:
        """What is to be played now.

        A change of the last 0.2 s may not be in it yet, nor one that takes long to read: who
        comes while it is read gets what was good before, and so does who noticed it, after 1 s.
        """
        if self._renewal is None and self._now() - self._checked >= CHECK_EVERY:
            self._renewal = asyncio.create_task(self._renew())
        if (renewal := self._renewal) is not None and not self._is_slow:
            done, _ = await asyncio.wait([renewal], timeout=self._patience)
            if done:
                renewal.result()  # a fault of ours is not passed over in silence
            elif renewal is self._renewal:
                self._is_slow = True
        return self._good

    async def _renew(self) -> None:
        """Look at the files, and read what has changed, each in a thread."""
        try:
            seen = await asyncio.to_thread(self._look)
            if seen is not None:
                self._is_slow = True
                await asyncio.to_thread(self._reload, seen)
        finally:
            self._checked = self._now()
            self._is_slow = False
            self._renewal = None

    def _look(self) -> tuple[Seen, ...] | None:
        """The files, where anything has changed."""
        try:
            seen = survey([self.path])
        except UsageError as error:
            self._complain(str(error))
            return None
        if seen == self._seen and not self._trouble:
            return None
        self._trouble = ""
        return seen

    def _reload(self, seen: tuple[Seen, ...]) -> None:
        """Read what has changed."""
        loaded = self._read(seen)
        emptied = tuple(self._emptied())
        if emptied or loaded.mistakes:
            mistakes = (*loaded.mistakes, *emptied)
            log.error("what was good before stays: %s", _refusal(self.path, mistakes))
            return
        self._accept(loaded)
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

    def _accept(self, loaded: Loaded) -> None:
        _warn(loaded.warnings)
        self._good = loaded
        self._held = frozenset(it.path for it, held in self._files.items() if not held.is_blank)

    def _emptied(self) -> Iterator[Mistake]:
        """Files that held something and hold nothing now: a save that is not over looks so."""
        for seen, held in self._files.items():
            if held.is_blank and seen.path in self._held:
                why = "the file holds nothing any more: save it whole, or delete it"
                yield Mistake(path_text(seen.path), 0, 0, ROOT, why)


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
