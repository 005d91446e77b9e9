"""Recovers abandoned spools after a crash, and deletes leftovers.

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
from llm_proxy.cassette.spool import SpoolContent, SpoolEnd, with_fitting_codec
from llm_proxy.errors import CassetteError, SpoolError
from llm_proxy.exchange import Ending, Read
from llm_proxy.frame_redaction import EVENTSTREAM, count_placeholders
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.cassette_filer import TEMPORARY, CassetteFiler, FiledCassette
from llm_proxy.shell.recording.spooling import all_spools, belongs_to, claim_spool, open_spool

YOUNG: Final = timedelta(minutes=1)
"""How old a temporary file is that its writer would hold."""
STALE: Final = timedelta(hours=1)
"""How old a temporary file is that no cassette is being written to any more."""


@dataclass(frozen=True, slots=True)
class RecoveredRecording:
    """A recording that is in the library, its spool gone."""

    spool: Path
    filed: FiledCassette


@dataclass(frozen=True, slots=True)
class DeletedFile:
    """A file that held nothing to keep."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that could not be recovered or deleted, and stays as it is."""

    spool: Path
    reason: str
    """A sentence that names it."""


@dataclass(frozen=True, slots=True)
class ForeignSpool:
    """An abandoned spool of another library, which stays as it is."""

    spool: Path
    library: Path


Result = RecoveredRecording | DeletedFile | KeptFile | ForeignSpool


def recover_spools(library: Library, folder: Path) -> Iterator[Result]:
    """Recover every abandoned spool in `folder` that is of this library, and tidy up after it.

    Raises `SpoolError` where the folder cannot be read.
    """
    library.refresh()
    files = CassetteFiler(library, renew=False, once=True)
    for path in all_spools(folder):
        with claim_spool(path) as mine:
            if mine:
                yield _recover_spool(files, library.root, path)
    yield from _delete_temporary_files(library.root)


def _recover_spool(files: CassetteFiler, root: Path, path: Path) -> Result:
    if path.stat().st_size == 0:
        return _delete_file(path, "empty: the recorder was stopped before it wrote anything")
    try:
        with open_spool(path) as spooled:
            if not belongs_to(spooled, root):
                return ForeignSpool(path, Path(spooled.target.library))
            replaced = _count_redacted(spooled)
        filed = files.file_spool(path, SpoolEnd(Ending.KILLED, None, replaced))
    except SpoolError as error:
        return KeptFile(path, str(error))
    except CassetteError as error:
        line = "" if error.line is None else f"line {error.line}: "
        return KeptFile(path, f"{path} cannot be recovered: {line}{error.why}; it is kept as it is")
    if filed is None:
        return _delete_file(path, "no answer had begun to arrive")
    try:
        path.unlink()
    except OSError as error:
        return KeptFile(
            path, f"{path} cannot be deleted: {error.strerror}; its cassette is {filed.path}"
        )
    return RecoveredRecording(path, filed)


def _delete_file(path: Path, why: str) -> DeletedFile | KeptFile:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        return KeptFile(path, f"{path} cannot be deleted: {error.strerror}")
    return DeletedFile(path, why)


def _count_redacted(spooled: SpoolContent) -> int:
    """How many secrets were replaced in the response; ids of requests are not counted as such."""
    spooled = with_fitting_codec(spooled)
    if spooled.head_line is None:
        return 0
    response, mark = spooled.head_line.response, redaction.PLACEHOLDER
    of_headers = sum(
        value.count(mark)
        for name, value in response.headers
        if name.lower() not in redaction.REQUEST_IDS
    )
    reads = (item for item in spooled.reads if isinstance(item, Read))
    if response.codec == EVENTSTREAM:
        return of_headers + count_placeholders(reads)
    return of_headers + sum(read.data.count(mark.encode()) for read in reads)


def _delete_temporary_files(root: Path) -> Iterator[DeletedFile | KeptFile]:
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
            with suppress(FileNotFoundError), claim_spool(path) as mine:
                age = timedelta(seconds=now - path.lstat().st_mtime)
                if age > (YOUNG if mine else STALE):
                    yield _delete_file(path, "a cassette that was never finished")
