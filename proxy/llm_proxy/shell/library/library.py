"""A folder of cassettes.

    cassettes/<dialect>/<model>/<first 16 digits of the key>-<take>.jsonl
    cassettes/@<session>/<dialect>/...

A library opens by file names alone; a file is read when somebody asks for it.  The folders in
between are for people: a take is found by its name wherever it lies.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from llm_proxy.cassette import Cassette, Meta, StoredRequest, read_cassette, read_opening
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cassette.reader import MAX_FILE
from llm_proxy.errors import CassetteError, UsageError

_NAME: Final = re.compile(r"([0-9a-f]{16})-([1-9]\d{0,8})\.jsonl")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._+-]+")
_CACHE: Final = 64 * 1024 * 1024
"""Bytes of memory that loaded cassettes may have, about."""
_MESSAGE: Final = 200
"""Bytes of memory that a message or a read has beyond its own, about."""


@dataclass(frozen=True, slots=True)
class TakeFile:
    """One cassette file, as its name describes it."""

    path: Path
    session: str
    key16: str
    number: int


def segment(name: str) -> str:
    """`name` as one safe part of a path."""
    safe = _UNSAFE.sub("-", name).lstrip("-.")[:100]
    return safe or "unnamed"


class Library:
    """The cassettes of one folder.  Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        """`root` need not exist; it is looked through by `refresh`."""
        self.root = root
        self._takes: dict[tuple[str, str], dict[int, TakeFile]] = {}
        self._strays: list[Path] = []
        self._cache: OrderedDict[Path, Cassette] = OrderedDict()
        self._cached = 0
        self._lock = threading.RLock()

    def refresh(self) -> None:
        """Look through the folder.  Raises `UsageError` where it cannot be read."""
        takes: dict[tuple[str, str], dict[int, TakeFile]] = {}
        strays: list[Path] = []
        for path in files_below(self.root):
            take = named_take(self.root, path)
            if take is None:
                strays.append(path)
                continue
            same = takes.setdefault((take.session, take.key16), {})
            if take.number in same:
                raise UsageError(
                    f"two files are take {take.number} of one key: {same[take.number].path} and "
                    f"{path}: delete or rename one of them"
                )
            same[take.number] = take
        with self._lock:
            self._takes, self._strays = takes, strays

    def numbers(self, session: str, key: str) -> list[int]:
        """The take numbers that are on disk for a session and key, in order."""
        with self._lock:
            return sorted(self._takes.get((session, key[:16]), {}))

    def take(self, session: str, key: str, number: int) -> TakeFile:
        """One take.  Raises `KeyError` where there is none."""
        with self._lock:
            return self._takes[session, key[:16]][number]

    def sessions(self, key: str) -> list[str]:
        """The sessions that have takes of a key by their names, sorted."""
        with self._lock:
            return sorted(session for session, key16 in self._takes if key16 == key[:16])

    def files(self) -> list[Path]:
        """Every cassette, takes and strays, sorted by path."""
        with self._lock:
            named = [take.path for same in self._takes.values() for take in same.values()]
            return sorted([*named, *self._strays])

    def strays(self) -> list[Path]:
        """The `.jsonl` files whose names say nothing."""
        with self._lock:
            return list(self._strays)

    def add(self, path: Path, session: str, key: str, number: int) -> None:
        """Know of a file that was just put there."""
        with self._lock:
            self._forget(path)
            same = self._takes.setdefault((session, key[:16]), {})
            same[number] = TakeFile(path, session, key[:16], number)

    def remove(self, session: str, key: str, number: int) -> TakeFile | None:
        """Forget a take, and say which it was; its file is the caller's business."""
        with self._lock:
            return self._takes.get((session, key[:16]), {}).pop(number, None)

    def cached(self, path: Path) -> Cassette | None:
        """The cassette of a file that was loaded before, as it was then."""
        with self._lock:
            kept = self._cache.get(path)
            if kept is not None:
                self._cache.move_to_end(path)
            return kept

    def load(self, path: Path) -> Cassette:
        """The cassette in a file, checked.  Raises `CassetteError`."""
        if (kept := self.cached(path)) is not None:
            return kept
        cassette = read_cassette(str(path), _content(path))
        with self._lock:
            self._forget(path)
            self._cache[path] = cassette
            self._cached += _weight(cassette)
            while self._cached > _CACHE and len(self._cache) > 1:
                self._forget(next(iter(self._cache)))
        return cassette

    def opening(self, path: Path) -> tuple[Meta, StoredRequest]:
        """What a file answers: its first two lines, the rest unread.  Raises `CassetteError`."""
        with _readable(path) as file:
            lines = file.readline(MAX_FILE + 1) + file.readline(MAX_FILE + 1)
        return read_opening(str(path), lines)

    def openings(self) -> Iterator[tuple[Path, Meta, StoredRequest]]:
        """What every readable cassette answers; what cannot be read is left out."""
        for path in self.files():
            try:
                yield path, *self.opening(path)
            except CassetteError:
                continue

    def place(self, meta: Meta, request: StoredRequest, number: int) -> Path:
        """Where a take of this exchange belongs."""
        folder = self.root
        if meta.session != DEFAULT_SESSION:
            folder /= f"@{segment(meta.session)}"
        what = meta.model or request.path.strip("/").replace("/", "-") or "root"
        return folder / segment(meta.dialect) / segment(what) / f"{meta.key[:16]}-{number}.jsonl"

    def _forget(self, path: Path) -> None:
        if (kept := self._cache.pop(path, None)) is not None:
            self._cached -= _weight(kept)


def named_take(root: Path, path: Path) -> TakeFile | None:
    """What the name and the folder of a library's file say; None where the name says nothing."""
    match = _NAME.fullmatch(path.name)
    return match and TakeFile(path, session_of(root, path), match[1], int(match[2]))


def session_of(root: Path, path: Path) -> str:
    """The session in whose folder a library's file lies."""
    top = path.relative_to(root).parts[0]
    return top[1:] if top.startswith("@") and len(top) > 1 else DEFAULT_SESSION


def files_below(root: Path) -> Iterator[Path]:
    """The regular `.jsonl` files below `root`, links not followed, in a stable order."""
    for entry in _entries(root):
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(Path(entry.path))
        elif entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise UsageError(f"{folder} is not a folder: give --cassettes a folder") from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}") from None


def _weight(cassette: Cassette) -> int:
    """Bytes of memory that a cassette has, about: its body is there as messages and as reads."""
    pieces = len(cassette.messages) + len(cassette.reads)
    return 2 * cassette.end.size + len(cassette.request.body) + _MESSAGE * pieces


def _content(path: Path) -> bytes:
    with _readable(path) as file:
        return file.read(MAX_FILE + 1)


@contextmanager
def _readable(path: Path) -> Iterator[BinaryIO]:
    """The file, open; trouble with it is a `CassetteError`."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise CassetteError(str(path), None, f"it cannot be read: {error.strerror}") from None
