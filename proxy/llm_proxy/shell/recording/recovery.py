"""What a crash left behind, made good: recordings into the library, leftovers out of it.

Each spool is held while it is looked at, as its recorder held it, so a recording that runs is
never touched, and of two recoveries at once only one gets it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from llm_proxy import redaction
from llm_proxy.cassette.spool import Spooled, SpoolEnd, fitted
from llm_proxy.errors import CassetteError, SpoolError
from llm_proxy.exchange import Ending, Read
from llm_proxy.frame_redaction import EVENTSTREAM, placeholders
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.cassette_filer import TEMPORARY, Filed, Files
from llm_proxy.shell.recording.spooling import belongs, claimed, opened, spools

YOUNG: Final = timedelta(minutes=1)
"""How old a temporary file is that its writer would hold."""
STALE: Final = timedelta(hours=1)
"""How old a temporary file is that no cassette is being written to any more."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """A recording that is in the library, its spool gone."""

    spool: Path
    filed: Filed


@dataclass(frozen=True, slots=True)
class Deleted:
    """A file that held nothing to keep."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A file that could not be recovered or deleted, and stays as it is."""

    spool: Path
    why: str
    """A sentence that names it."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """An abandoned spool of another library, which stays as it is."""

    spool: Path
    library: Path


Result = Recovered | Deleted | Kept | Foreign


def recover(library: Library, folder: Path) -> Iterator[Result]:
    """Recover every abandoned spool in `folder` that is of this library, and tidy up after it.

    Raises `SpoolError` where the folder cannot be read.
    """
    library.refresh()
    files = Files(library, renew=False, once=True)
    for path in spools(folder):
        with claimed(path) as mine:
            if mine:
                yield _one(files, library.root, path)
    yield from _sweep(library.root)


def _one(files: Files, root: Path, path: Path) -> Result:
    """What becomes of one spool, which is held."""
    if path.stat().st_size == 0:
        return _deleted(path, "empty: the recorder was stopped before it wrote anything")
    try:
        with opened(path) as spooled:
            if not belongs(spooled, root):
                return Foreign(path, Path(spooled.target.library))
            replaced = _replaced(spooled)
        filed = files.file(path, SpoolEnd(Ending.KILLED, None, replaced))
    except SpoolError as error:
        return Kept(path, str(error))
    except CassetteError as error:
        line = "" if error.line is None else f"line {error.line}: "
        return Kept(path, f"{path} cannot be recovered: {line}{error.why}; it is kept as it is")
    if filed is None:
        return _deleted(path, "no answer had begun to arrive")
    try:
        path.unlink()
    except OSError as error:
        return Kept(
            path, f"{path} cannot be deleted: {error.strerror}; its cassette is {filed.path}"
        )
    return Recovered(path, filed)


def _deleted(path: Path, why: str) -> Deleted | Kept:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        return Kept(path, f"{path} cannot be deleted: {error.strerror}")
    return Deleted(path, why)


def _replaced(spooled: Spooled) -> int:
    """How many secrets were replaced in the response; ids of requests are not counted as such."""
    spooled = fitted(spooled)
    if spooled.head_line is None:
        return 0
    response, mark = spooled.head_line.response, redaction.PLACEHOLDER
    of_headers = sum(
        value.count(mark)
        for name, value in response.headers
        if name.lower() not in redaction.REQUEST_IDS
    )
    reads = (it for it in spooled.reads if isinstance(it, Read))
    if response.codec == EVENTSTREAM:
        return of_headers + placeholders(reads)
    return of_headers + sum(read.data.count(mark.encode()) for read in reads)


def _sweep(root: Path) -> Iterator[Deleted | Kept]:
    """Delete the temporary files of cassettes that nobody is writing any more.

    Their writer holds them, so one that can be held is left over; only a young one may belong to
    a writer that has not got hold of it yet.  Where the file system has no locks, age decides.
    """
    now = datetime.now(UTC).timestamp()
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in sorted(names):
            if TEMPORARY.fullmatch(name) is None:
                continue
            path = Path(folder, name)
            with suppress(FileNotFoundError), claimed(path) as mine:
                age = timedelta(seconds=now - path.lstat().st_mtime)
                if age > (YOUNG if mine else STALE):
                    yield _deleted(path, "a cassette that was never finished")
