"""Recovers abandoned spools after a crash, and deletes leftovers.

Each spool is locked while it is recovered, as its recorder locked it, so a running recording is
never touched, and of two concurrent recoveries only one gets it.
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
from llm_proxy.cassette.spool import SpoolContent, SpoolEnd, with_detected_codec
from llm_proxy.errors import CassetteError, SecretNotReplaced, SpoolError
from llm_proxy.exchange import Ending, Read
from llm_proxy.framing import eventstream
from llm_proxy.redaction.frames import count_frame_placeholders
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.cassette_filer import (
    TEMPORARY_FILE_NAME,
    CassetteFiler,
    FiledCassette,
)
from llm_proxy.shell.recording.spooling import all_spools, claim_file, is_for_library, open_spool

MAX_UNLOCKED_AGE: Final = timedelta(minutes=1)
"""Age up to which an unlocked temporary file may belong to a writer that has not locked it yet."""
MIN_STALE_AGE: Final = timedelta(hours=1)
"""Age beyond which a temporary file that cannot be locked counts as abandoned."""


@dataclass(frozen=True, slots=True)
class RecoveredRecording:
    """A recording that was filed in the library, and whose spool was deleted."""

    spool_path: Path
    filed_cassette: FiledCassette


@dataclass(frozen=True, slots=True)
class DeletedFile:
    """A file that was deleted because it held nothing to keep."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A spool or temporary file that could not be recovered or deleted, and is kept unchanged."""

    path: Path
    reason: str
    """A sentence that names the file."""


@dataclass(frozen=True, slots=True)
class ForeignSpool:
    """An abandoned spool of another library, which is kept unchanged."""

    spool_path: Path
    library_folder: Path


RecoveryResult = RecoveredRecording | DeletedFile | KeptFile | ForeignSpool


def recover_spools(
    library: Library, folder: Path, environment_secrets: frozenset[bytes] = frozenset()
) -> Iterator[RecoveryResult]:
    """Recover this library's abandoned spools in `folder`, and delete its temporary files.

    `environment_secrets` are redacted, in these spellings; those of the requests are not known.
    Yields one result for each file.  Raises `SpoolError` if the folder cannot be read.
    """
    library.refresh()
    filer = CassetteFiler(
        library,
        replaces_older=False,
        skips_existing_copies=True,
        environment_secrets=environment_secrets,
    )
    for path in all_spools(folder):
        with claim_file(path) as is_claimed:
            if is_claimed:
                yield _recover_spool(filer, library.root, path)
    yield from _delete_temporary_files(library.root)


def _recover_spool(filer: CassetteFiler, root: Path, path: Path) -> RecoveryResult:
    if path.stat().st_size == 0:
        return _delete_file(
            path, "the file is empty; llm-proxy was stopped before it wrote any data"
        )
    try:
        with open_spool(path) as spooled:
            if not is_for_library(spooled, root):
                return ForeignSpool(path, Path(spooled.target_line.library))
            redacted_count = _count_redacted_secrets(spooled)
        filed = filer.file_spool(path, SpoolEnd(Ending.KILLED, 0.0, redacted_count))
    except SecretNotReplaced as error:
        return _delete_file(path, str(error))
    except SpoolError as error:
        return KeptFile(path, str(error))
    except CassetteError as error:
        line = "" if error.line is None else f"line {error.line}: "
        return KeptFile(
            path, f"cannot recover {path}: {line}{error.reason}; the file is kept unchanged"
        )
    if filed is None:
        return _delete_file(path, "no response had started")
    try:
        path.unlink()
    except OSError as error:
        return KeptFile(
            path,
            f"cannot delete {path}: {error.strerror}; the recording was recovered as {filed.path}",
        )
    return RecoveredRecording(path, filed)


def _delete_file(path: Path, reason: str) -> DeletedFile | KeptFile:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        return KeptFile(path, f"cannot delete {path}: {error.strerror}")
    return DeletedFile(path, reason)


def _count_redacted_secrets(spooled: SpoolContent) -> int:
    """How many secrets were redacted from the response; request ids are not counted."""
    spooled = with_detected_codec(spooled)
    if spooled.head is None:
        return 0
    response = spooled.head
    header_count = sum(
        redaction.count_placeholders(value.encode("latin-1"))
        for name, value in response.headers
        if name.lower() not in redaction.REDACTED_RESPONSE_HEADERS
    )
    reads = (item for item in spooled.reads_and_end if isinstance(item, Read))
    if response.codec == eventstream.CODEC_NAME:
        return header_count + count_frame_placeholders(reads)
    return header_count + sum(redaction.count_placeholders(read.received_bytes) for read in reads)


def _delete_temporary_files(root: Path) -> Iterator[DeletedFile | KeptFile]:
    """Delete the temporary files of cassettes that no process is writing any more.

    Their writer locks them, so one that can be locked is abandoned, unless it is so new that its
    writer may not have locked it yet.  If the file system has no locks, age alone decides.
    """
    now = datetime.now(UTC).timestamp()
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in sorted(names):
            if TEMPORARY_FILE_NAME.fullmatch(name) is None:
                continue
            path = Path(folder, name)
            with suppress(FileNotFoundError), claim_file(path) as is_claimed:
                age = timedelta(seconds=now - path.lstat().st_mtime)
                if age > (MAX_UNLOCKED_AGE if is_claimed else MIN_STALE_AGE):
                    yield _delete_file(path, "the cassette is unfinished")
