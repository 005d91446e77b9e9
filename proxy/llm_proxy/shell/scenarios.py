"""Scenario files on disk: found, read, and reloaded when they change.

In a folder these are `*.yaml`, `*.yml` and `*.json` at any depth, in the order of their paths.
Links are followed; names that begin with a dot, or end in `.schema.json`, are skipped.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from llm_proxy.display import count_with_noun, path_as_unicode_text
from llm_proxy.errors import UsageError
from llm_proxy.scenario.choosing import ScenarioSet
from llm_proxy.scenario.documents.document import MockSpec
from llm_proxy.scenario.documents.loading import (
    MAX_FILE_BYTES,
    LoadedScenarios,
    merge_loaded,
    parse_scenario_file,
)
from llm_proxy.scenario.documents.mistakes import ROOT_PATH, DocumentMistake

if TYPE_CHECKING:
    import asyncio

log: Final = logging.getLogger("llm_proxy")

SCENARIO_SUFFIXES: Final = (".yaml", ".yml", ".json")
_SCHEMA_SUFFIX: Final = ".schema.json"
"""The suffix of JSON Schemas, which may be in the same folder as the scenarios."""
CHECK_INTERVAL_S: Final = 0.2
"""Minimum seconds between two checks of the files."""
MAX_RENEWAL_WAIT_S: Final = 1.0
"""Maximum seconds that a request waits for a changed file; then the old version is used."""
_MAX_LISTED_MISTAKES: Final = 20
"""Maximum number of mistakes in one message."""

_FileIdentity = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file found by a scan; without a stamp it cannot be read, for the given `reason`."""

    path: Path
    stamp: tuple[int, int, int] | None
    """The mtime in ns, the size in bytes and the inode: they change when the content does."""
    unreadable_reason: str = ""


def scan_files(paths: Sequence[Path]) -> tuple[ScannedFile, ...]:
    """The scenario files at and below the paths.

    Raises `UsageError` for a path that does not exist, cannot be read or has no scenario files.
    """
    files_by_path: dict[Path, ScannedFile] = {}
    for path in paths:
        name = path_as_unicode_text(path)
        try:
            status = path.stat()
            if stat.S_ISDIR(status.st_mode):
                scanned = sorted(
                    _files_in_folder(path, (_file_identity(status),)), key=lambda file: file.path
                )
            elif stat.S_ISREG(status.st_mode):
                scanned = [_scan_file(path)]
            else:
                raise UsageError(f"neither a file nor a folder: {name} (set --scenarios)")
        except FileNotFoundError:
            raise UsageError(f"no such file or folder: {name} (set --scenarios)") from None
        except OSError as error:
            raise UsageError(f"cannot read {name}: {error.strerror}") from None
        if not scanned:
            names = ", ".join(f"*{suffix}" for suffix in SCENARIO_SUFFIXES)
            raise UsageError(f"no scenario files in {name}; add a file that matches {names}")
        files_by_path |= {file.path: file for file in scanned}
    return tuple(files_by_path.values())


def load_scenarios(paths: Sequence[Path]) -> LoadedScenarios:
    """Load all scenarios at and below the paths.  Raises `UsageError` as `scan_files` does."""
    return merge_loaded(_read_files(scan_files(paths), {}).values())


def _files_in_folder(folder: Path, ancestors: tuple[_FileIdentity, ...]) -> Iterator[ScannedFile]:
    """The files below a folder; `ancestors` are the folder and its parents, to detect loops."""
    for path in list(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if not path.is_dir():
            is_schema = path.name.endswith(_SCHEMA_SUFFIX)
            if path.suffix.lower() in SCENARIO_SUFFIXES and not is_schema:
                yield _scan_file(path)
            continue
        try:
            identity = _file_identity(path.stat())
            if identity in ancestors:
                reason = "the symbolic link points to a parent folder; remove the link"
                yield ScannedFile(path, None, reason)
            else:
                yield from _files_in_folder(path, (*ancestors, identity))
        except OSError as error:
            yield ScannedFile(path, None, f"cannot read the folder: {error.strerror}")


def _scan_file(path: Path) -> ScannedFile:
    try:
        status = path.stat()
    except FileNotFoundError:
        return ScannedFile(path, None, "broken symbolic link; remove the link")
    except OSError as error:
        return ScannedFile(path, None, f"cannot read the file: {error.strerror}")
    if not stat.S_ISREG(status.st_mode):
        reason = "not a regular file; rename or remove it"
        return ScannedFile(path, None, reason)
    return ScannedFile(path, (status.st_mtime_ns, status.st_size, status.st_ino))


def _file_identity(status: os.stat_result) -> _FileIdentity:
    return status.st_dev, status.st_ino


def _read_files(
    files: Sequence[ScannedFile], loaded_before: Mapping[ScannedFile, LoadedScenarios]
) -> dict[ScannedFile, LoadedScenarios]:
    """The content of each file; those in `loaded_before` are not read again."""
    return {
        file: loaded_before[file] if file in loaded_before else _read_file(file) for file in files
    }


def _read_file(file: ScannedFile) -> LoadedScenarios:
    name, reason = path_as_unicode_text(file.path), file.unreadable_reason
    if file.stamp is not None:
        try:
            with file.path.open("rb") as stream:
                return parse_scenario_file(name, stream.read(MAX_FILE_BYTES + 1))
        except OSError as error:
            reason = f"cannot read the file: {error.strerror}"
    return LoadedScenarios(mistakes=(DocumentMistake(name, 0, 0, ROOT_PATH, reason),))


class ScenarioLibrary:
    """The scenarios of one path, a file or a folder.

    A change with mistakes is logged, and the last valid version stays in use.
    """

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
            raise UsageError(self._mistakes_message(loaded.mistakes))
        self._accept_loaded(loaded)
        self._checked_at_s = self._clock()
        return loaded

    async def current_scenarios(self) -> ScenarioSet:
        """The scenarios to use now.

        A change of the last 0.2 s may be missing, as may one that takes long to read: requests
        that arrive while it is read get the last valid version, and so does, after 1 s, the
        request that noticed the change.
        """
        import asyncio  # noqa: PLC0415 # commands without a server load scenarios without it

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
        import asyncio  # noqa: PLC0415 # commands without a server load scenarios without it

        try:
            try:
                scanned = await asyncio.to_thread(scan_files, [self.path])
            except UsageError as error:
                message = str(error)
                if message != self._logged_error:
                    log.error("keeping the previous scenarios: %s", message)  # noqa: TRY400 # a sentence
                self._logged_error = message
                return
            if scanned != tuple(self._loaded_by_file) or self._logged_error:
                self._logged_error = ""
                self._skips_wait = True
                await asyncio.to_thread(self._reload, scanned)
        finally:
            self._checked_at_s = self._clock()
            self._skips_wait = False
            self._renewal_task = None

    def _reload(self, scanned: tuple[ScannedFile, ...]) -> None:
        loaded = self._read_changed(scanned)
        emptied_reason = "the file is now empty; save the scenarios again, or delete the file"
        emptied_mistakes = tuple(
            DocumentMistake(path_as_unicode_text(file.path), 0, 0, ROOT_PATH, emptied_reason)
            for file, file_scenarios in self._loaded_by_file.items()
            if file_scenarios.is_blank and file.path in self._nonblank_paths
        )  # such as those of an unfinished save
        if mistakes := (*loaded.mistakes, *emptied_mistakes):
            log.error("keeping the previous scenarios: %s", self._mistakes_message(mistakes))
            return
        self._accept_loaded(loaded)
        count = count_with_noun(len(loaded.scenarios), "scenario")
        log.info("%s changed; loaded %s", path_as_unicode_text(self.path), count)

    def _read_changed(self, scanned: tuple[ScannedFile, ...]) -> LoadedScenarios:
        self._loaded_by_file = _read_files(scanned, self._loaded_by_file)
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

    def _mistakes_message(self, mistakes: tuple[DocumentMistake, ...]) -> str:
        """One message with the first mistakes and the number of the others."""
        lines = [str(mistake) for mistake in mistakes[:_MAX_LISTED_MISTAKES]]
        if remaining_count := len(mistakes) - len(lines):
            lines.append(
                f"and {remaining_count} more; run `llm-proxy scenario lint` to list all errors"
            )
        count = count_with_noun(len(mistakes), "error")
        heading = f"{count} in the scenarios of {path_as_unicode_text(self.path)}:"
        return "\n  ".join((heading, *lines))
