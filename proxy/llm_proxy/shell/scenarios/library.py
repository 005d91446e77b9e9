"""The scenarios of a server, reloaded when a file changes.

A change that is a mistake is told in the log, and what was good before goes on being played.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from llm_proxy.display import count_noun, escape_path
from llm_proxy.errors import UsageError
from llm_proxy.scenario.documents.loading import LoadedScenarios, merge_loaded
from llm_proxy.scenario.documents.mistakes import ROOT, DocumentMistake
from llm_proxy.shell.scenarios.files import ScannedFile, read_files, scan_files

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
        self._clock = now
        self._check_interval = patience
        self._checked_at = -CHECK_EVERY
        self._scanned_files: tuple[ScannedFile, ...] = ()
        self._logged_trouble = ""
        self._files: dict[ScannedFile, LoadedScenarios] = {}
        self._last_good = LoadedScenarios()
        self._held_back: frozenset[Path] = frozenset()
        """The files that `_good` is from."""
        self._renewal_task: asyncio.Task[None] | None = None
        self._reads_in_thread = False
        """Whether nobody waits for the renewal any more: it reads a change, or has taken long."""

    def load(self) -> LoadedScenarios:
        """Read them at the start.  Raises `UsageError` with the mistakes where there are any."""
        loaded = self._read_changed(scan_files([self.path]))
        if loaded.mistakes:
            raise UsageError(_mistakes_message(self.path, loaded.mistakes))
        self._accept_loaded(loaded)
        self._checked_at = self._clock()
        return loaded

    async def current(self) -> LoadedScenarios:
        """What is to be played now.

        A change of the last 0.2 s may not be in it yet, nor one that takes long to read: who
        comes while it is read gets what was good before, and so does who noticed it, after 1 s.
        """
        if self._renewal_task is None and self._clock() - self._checked_at >= CHECK_EVERY:
            self._renewal_task = asyncio.create_task(self._renew_if_changed())
        if (renewal := self._renewal_task) is not None and not self._reads_in_thread:
            done, _ = await asyncio.wait([renewal], timeout=self._check_interval)
            if done:
                renewal.result()  # a fault of ours is not passed over in silence
            elif renewal is self._renewal_task:
                self._reads_in_thread = True
        return self._last_good

    async def _renew_if_changed(self) -> None:
        try:
            seen = await asyncio.to_thread(self._scan_if_changed)
            if seen is not None:
                self._reads_in_thread = True
                await asyncio.to_thread(self._reload, seen)
        finally:
            self._checked_at = self._clock()
            self._reads_in_thread = False
            self._renewal_task = None

    def _scan_if_changed(self) -> tuple[ScannedFile, ...] | None:
        """The files, where anything has changed."""
        try:
            seen = scan_files([self.path])
        except UsageError as error:
            self._log_trouble_once(str(error))
            return None
        if seen == self._scanned_files and not self._logged_trouble:
            return None
        self._logged_trouble = ""
        return seen

    def _reload(self, seen: tuple[ScannedFile, ...]) -> None:
        loaded = self._read_changed(seen)
        emptied = tuple(self._emptied_files())
        if emptied or loaded.mistakes:
            mistakes = (*loaded.mistakes, *emptied)
            log.error("what was good before stays: %s", _mistakes_message(self.path, mistakes))
            return
        self._accept_loaded(loaded)
        count = count_noun(len(loaded.scenarios), "scenario")
        log.info("%s has changed: %s read anew", escape_path(self.path), count)

    def _log_trouble_once(self, trouble: str) -> None:
        if trouble != self._logged_trouble:
            log.error("what was good before stays: %s", trouble)
        self._logged_trouble = trouble

    def _read_changed(self, seen: tuple[ScannedFile, ...]) -> LoadedScenarios:
        self._scanned_files = seen
        self._files = read_files(seen, self._files)
        return merge_loaded(self._files.values())

    def _accept_loaded(self, loaded: LoadedScenarios) -> None:
        _log_warnings(loaded.warnings)
        self._last_good = loaded
        self._held_back = frozenset(
            scanned_file.path for scanned_file, held in self._files.items() if not held.is_blank
        )

    def _emptied_files(self) -> Iterator[DocumentMistake]:
        """Files that held something and hold nothing now: a save that is not over looks so."""
        for seen, held in self._files.items():
            if held.is_blank and seen.path in self._held_back:
                why = "the file holds nothing any more: save it whole, or delete it"
                yield DocumentMistake(escape_path(seen.path), 0, 0, ROOT, why)


def _mistakes_message(path: Path, mistakes: tuple[DocumentMistake, ...]) -> str:
    """The mistakes in one text: the first of them, and how many there are more."""
    lines = [str(mistake) for mistake in mistakes[:_TOLD]]
    more = len(mistakes) - len(lines)
    if more:
        lines.append(f"and {more} more: llm-proxy scenario lint tells all of them")
    count = count_noun(len(mistakes), "mistake")
    return "\n  ".join((f"the scenarios in {escape_path(path)} have {count}:", *lines))


def _log_warnings(warnings: Iterable[DocumentMistake]) -> None:
    for warning in warnings:
        log.warning("%s", warning)
