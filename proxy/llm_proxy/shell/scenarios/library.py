"""The scenarios of a server, reloaded when a file changes.

A change with mistakes is logged, and the last valid version stays in use.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from llm_proxy.display import count_with_noun, path_as_unicode_text
from llm_proxy.errors import UsageError
from llm_proxy.scenario.documents.document import MockSpec
from llm_proxy.scenario.documents.loading import LoadedScenarios, merge_loaded
from llm_proxy.scenario.documents.mistakes import ROOT_PATH, DocumentMistake
from llm_proxy.scenario.engine.choosing import ScenarioSet
from llm_proxy.shell.scenarios.files import ScannedFile, read_files, scan_files

log: Final = logging.getLogger("llm_proxy")

CHECK_INTERVAL_S: Final = 0.2
"""Minimum seconds between two checks of the files."""
MAX_RENEWAL_WAIT_S: Final = 1.0
"""Maximum seconds that a request waits for a changed file; then the old version is used."""
_MAX_LISTED_MISTAKES: Final = 20
"""Maximum number of mistakes in one message."""


class ScenarioLibrary:
    """The scenarios of one path, a file or a folder."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] = time.monotonic,
        max_wait_s: float = MAX_RENEWAL_WAIT_S,
        mock: MockSpec | None = None,
    ) -> None:
        """`clock` returns monotonic seconds; `mock` takes precedence over that of the files.

        Nothing is read before `load`.
        """
        self.path = path
        self._clock = clock
        self._max_wait_s = max_wait_s
        self._mock = mock
        self._checked_at_s = -CHECK_INTERVAL_S
        self._scanned_files: tuple[ScannedFile, ...] = ()
        self._logged_error = ""
        self._loaded_by_file: dict[ScannedFile, LoadedScenarios] = {}
        self._last_good = ScenarioSet()
        self._nonblank_paths: frozenset[Path] = frozenset()
        """The files of `_last_good` that hold scenarios or a mock."""
        self._renewal_task: asyncio.Task[None] | None = None
        self._skips_wait = False
        """Whether requests do not wait for the renewal: it is reading a change, or took too long.
        """

    def load(self) -> LoadedScenarios:
        """Read the scenarios at the start.  Raises `UsageError` with all mistakes, if any."""
        loaded = self._read_changed(scan_files([self.path]))
        if loaded.mistakes:
            raise UsageError(_mistakes_message(self.path, loaded.mistakes))
        self._accept_loaded(loaded)
        self._checked_at_s = self._clock()
        return loaded

    async def current_scenarios(self) -> ScenarioSet:
        """The scenarios to use now.

        A change of the last 0.2 s may be missing, as may one that takes long to read: requests
        that arrive while it is read get the last valid version, and so does, after 1 s, the
        request that noticed the change.
        """
        if self._renewal_task is None and self._clock() - self._checked_at_s >= CHECK_INTERVAL_S:
            self._renewal_task = asyncio.create_task(self._renew_if_changed())
        if (renewal := self._renewal_task) is not None and not self._skips_wait:
            done, _ = await asyncio.wait([renewal], timeout=self._max_wait_s)
            if done:
                renewal.result()  # raises an internal error
            elif renewal is self._renewal_task:
                self._skips_wait = True
        return self._last_good

    async def _renew_if_changed(self) -> None:
        try:
            scanned = await asyncio.to_thread(self._scan_for_changes)
            if scanned is not None:
                self._skips_wait = True
                await asyncio.to_thread(self._reload, scanned)
        finally:
            self._checked_at_s = self._clock()
            self._skips_wait = False
            self._renewal_task = None

    def _scan_for_changes(self) -> tuple[ScannedFile, ...] | None:
        """The files, if anything has changed; None otherwise."""
        try:
            scanned = scan_files([self.path])
        except UsageError as error:
            self._log_error_once(str(error))
            return None
        if scanned == self._scanned_files and not self._logged_error:
            return None
        self._logged_error = ""
        return scanned

    def _log_error_once(self, message: str) -> None:
        if message != self._logged_error:
            log.error("what was good before stays: %s", message)
        self._logged_error = message

    def _reload(self, scanned: tuple[ScannedFile, ...]) -> None:
        loaded = self._read_changed(scanned)
        emptied_mistakes = tuple(
            DocumentMistake(
                path_as_unicode_text(file.path),
                0,
                0,
                ROOT_PATH,
                "the file holds nothing any more: save it whole, or delete it",
            )
            for file, file_scenarios in self._loaded_by_file.items()
            if file_scenarios.is_blank and file.path in self._nonblank_paths
        )  # such as those of an unfinished save
        if mistakes := (*loaded.mistakes, *emptied_mistakes):
            log.error("what was good before stays: %s", _mistakes_message(self.path, mistakes))
            return
        self._accept_loaded(loaded)
        count = count_with_noun(len(loaded.scenarios), "scenario")
        log.info("%s has changed: %s read anew", path_as_unicode_text(self.path), count)

    def _read_changed(self, scanned: tuple[ScannedFile, ...]) -> LoadedScenarios:
        self._scanned_files = scanned
        self._loaded_by_file = read_files(scanned, self._loaded_by_file)
        return merge_loaded(self._loaded_by_file.values())

    def _accept_loaded(self, loaded: LoadedScenarios) -> None:
        for warning in loaded.warnings:
            log.warning("%s", warning)
        self._last_good = ScenarioSet(loaded.scenarios, self._mock or loaded.mock)
        self._nonblank_paths = frozenset(
            file.path
            for file, file_scenarios in self._loaded_by_file.items()
            if not file_scenarios.is_blank
        )


def _mistakes_message(path: Path, mistakes: tuple[DocumentMistake, ...]) -> str:
    """One message with the first mistakes and the number of the others."""
    lines = [str(mistake) for mistake in mistakes[:_MAX_LISTED_MISTAKES]]
    remaining_count = len(mistakes) - len(lines)
    if remaining_count:
        lines.append(f"and {remaining_count} more: llm-proxy scenario lint tells all of them")
    count = count_with_noun(len(mistakes), "mistake")
    return "\n  ".join((f"the scenarios in {path_as_unicode_text(path)} have {count}:", *lines))
