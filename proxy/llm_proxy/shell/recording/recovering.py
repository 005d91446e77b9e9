"""What a crash left behind, made good: recordings into the library, leftovers out of it.

Each spool is held while it is looked at, as its recorder held it, so a recording that runs is
never touched, and of two recoveries at once only one gets it.
"""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import orjson

from llm_proxy import redaction
from llm_proxy.cassette.spool import Spooled
from llm_proxy.errors import CassetteError, SpoolError
from llm_proxy.exchange import Ending
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.filing import TEMPORARY, Filed, Files
from llm_proxy.shell.recording.spooling import belongs, claimed, opened, spools

STALE: Final = timedelta(hours=1)
"""How old a temporary file is that no cassette is being written to any more."""
_OPENING: Final = 4
"""Lines of a spool before its reads."""


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
    """A spool that could not be recovered, and stays as it is."""

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
    files = Files(library, renew=False)
    living: set[str] = set()
    dead: set[str] = set()
    for path in spools(folder):
        with claimed(path) as mine:
            (dead if mine else living).add(path.stem)
            if mine:
                yield _one(files, library.root, path)
    yield from _sweep(library.root, living, dead)


def _one(files: Files, root: Path, path: Path) -> Result:
    """What becomes of one spool, which is held."""
    if path.stat().st_size == 0:
        return _deleted(path, "empty: the recorder was stopped before it wrote anything")
    try:
        with opened(path) as spooled:
            if not belongs(spooled, root):
                return Foreign(path, Path(spooled.target.library))
            if spooled.head_line is not None:
                return _filed(files, path, spooled)
    except SpoolError as error:
        return Kept(path, str(error))
    except CassetteError as error:
        torn = _whole_lines(path) < _OPENING - 1
        return _kept(path, "it is torn before its request ends" if torn else error.why)
    if _whole_lines(path) >= _OPENING:
        return _kept(path, f"line {_OPENING} is no head of a response")
    return _deleted(path, "no answer had begun to arrive")


def _filed(files: Files, path: Path, spooled: Spooled) -> Result:
    """Make it a cassette, unless that would lose something."""
    size, replaced = 0, _replaced_in_head(spooled)
    for read in spooled.reads:
        size += len(read.data)
        replaced += read.data.count(redaction.PLACEHOLDER.encode())
    if (number := _left_out(path, size)) is not None:
        return _kept(path, f"line {number} is no read, which no crash leaves behind")
    filed = files.file(path, Ending.KILLED, None, replaced)
    if filed is None:
        raise AssertionError("a spool with a head makes a cassette")
    path.unlink()
    return Recovered(path, filed)


def _kept(path: Path, why: str) -> Kept:
    return Kept(path, f"{path} cannot be recovered: {why}; it is kept as it is")


def _deleted(path: Path, why: str) -> Deleted:
    path.unlink()
    return Deleted(path, why)


def _replaced_in_head(spooled: Spooled) -> int:
    """How many secrets were replaced in the head; ids of requests are not counted as such."""
    headers = spooled.head_line.response.headers if spooled.head_line else ()
    return sum(
        value.count(redaction.PLACEHOLDER)
        for name, value in headers
        if name.lower() not in redaction.REQUEST_IDS
    )


def _left_out(path: Path, size: int) -> int | None:
    """The first whole line that the first `size` bytes of the reads leave out; None for none.

    A crash tears the last line and no other, so such a line is damage that must not be hidden.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if number <= _OPENING:
                continue
            if not line.endswith(b"\n"):
                return None
            try:
                size -= len(b64decode(orjson.loads(line)["base64"], validate=True))
            except (ValueError, TypeError, KeyError):
                return number
            if size < 0:
                return number
    return None


def _whole_lines(path: Path) -> int:
    with path.open("rb") as lines:
        return sum(line.endswith(b"\n") for line in lines)


def _sweep(root: Path, living: set[str], dead: set[str]) -> Iterator[Deleted]:
    """Delete the temporary files of cassettes that nobody is writing any more."""
    before = (datetime.now(UTC) - STALE).timestamp()
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in sorted(names):
            match = TEMPORARY.fullmatch(name)
            if match is None or match[1] in living:
                continue
            path = Path(folder, name)
            with suppress(FileNotFoundError):
                if match[1] in dead or path.lstat().st_mtime < before:
                    yield _deleted(path, "a cassette that was never finished")
