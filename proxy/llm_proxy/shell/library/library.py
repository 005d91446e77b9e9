"""A folder of cassettes.

    cassettes/<dialect>/<model>/<first 16 digits of the key>-<take>.jsonl
    cassettes/@<session>/<dialect>/...

A library opens by file names alone; a file is read when somebody asks for it.  The folders in
between are for people: a take is found by its name wherever it lies.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from llm_proxy.cassette import Cassette, Meta, StoredRequest, read_cassette, read_opening
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cassette.reader import MAX_FILE, read_meta
from llm_proxy.errors import CassetteError
from llm_proxy.shell.library.scanning import (
    Scanned,
    TakeFile,
    files_below,
    in_order,
    named_take,
    scan,
    session_of,
)

__all__ = ["Library", "TakeFile", "files_below", "named_take", "segment", "session_of"]

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._+-]+")
_CACHE: Final = 64 * 1024 * 1024
"""Bytes of memory that loaded cassettes may have, about."""
_MESSAGE: Final = 200
"""Bytes of memory that a message or a read has beyond its own, about."""


def segment(name: str) -> str:
    """`name` as one safe part of a path."""
    safe = _UNSAFE.sub("-", name).lstrip("-.")[:100]
    return safe or "unnamed"


class Library:
    """The cassettes of one folder.  Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        """`root` need not exist; it is looked through by `refresh`."""
        self.root = root
        self._found = Scanned({}, [])
        self._cache: OrderedDict[Path, Cassette] = OrderedDict()
        self._cached = 0
        self._lock = threading.RLock()

    def refresh(self) -> None:
        """Look through the folder.

        Raises `UsageError` where it cannot be read, or two files claim to be the same take.
        """
        found = scan(self.root)
        with self._lock:
            self._found = found

    def twin(self) -> Library:
        """Another library of this folder that knows of the same files, and is added to alone."""
        other = Library(self.root)
        with self._lock:
            takes = {
                session: {key16: dict(same) for key16, same in keys.items()}
                for session, keys in self._found.takes.items()
            }
            other._found = Scanned(takes, list(self._found.strays))
        return other

    def numbers(self, session: str, key: str) -> list[int]:
        """The take numbers that are on disk for a session and key, in order."""
        with self._lock:
            return sorted(self._same(session, key))

    def take(self, session: str, key: str, number: int) -> TakeFile:
        """One take.  Raises `KeyError` where there is none."""
        with self._lock:
            return TakeFile(Path(self._same(session, key)[number]), session, key[:16], number)

    def sessions(self) -> list[str]:
        """The sessions that have takes, sorted."""
        with self._lock:
            return sorted(self._found.takes)

    def files(self) -> list[Path]:
        """Every cassette, takes and strays, sorted by path."""
        return list(map(Path, in_order(self.paths())))

    def paths(self) -> list[str]:
        """Every cassette, takes and strays, in no order: for who looks at 100,000 of them."""
        with self._lock:
            keys = [same for keys in self._found.takes.values() for same in keys.values()]
            return [*(path for same in keys for path in same.values()), *self._found.strays]

    def named(self, session: str) -> list[Path]:
        """The takes in the folder of a session, sorted by path."""
        with self._lock:
            keys = self._found.takes.get(session, {})
            paths = [path for same in keys.values() for path in same.values()]
        return list(map(Path, in_order(paths)))

    def strays(self) -> list[Path]:
        """The `.jsonl` files whose names say nothing, sorted by path."""
        with self._lock:
            return list(map(Path, in_order(self._found.strays)))

    @property
    def has_strays(self) -> bool:
        """Whether there are files whose names say nothing."""
        return bool(self._found.strays)

    def add(self, path: Path, session: str, key: str, number: int) -> None:
        """Know of a file that was just put there."""
        with self._lock:
            self._forget(path)
            keys = self._found.takes.setdefault(session, {})
            keys.setdefault(key[:16], {})[number] = str(path)

    def remove(self, session: str, key: str, number: int) -> TakeFile | None:
        """Forget a take, and say which it was; its file is the caller's business."""
        with self._lock:
            path = self._same(session, key).pop(number, None)
        return None if path is None else TakeFile(Path(path), session, key[:16], number)

    def _same(self, session: str, key: str) -> dict[int, str]:
        """The files of a session and key, by their numbers."""
        return self._found.takes.get(session, {}).get(key[:16], {})

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

    def meta(self, path: Path) -> Meta:
        """What a file is: its first line, the rest unread.  Raises `CassetteError`."""
        with _readable(path) as file:
            return read_meta(str(path), file.readline(MAX_FILE + 1))

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

    def forget(self, path: Path) -> None:
        """Another cassette lies at this path by now."""
        with self._lock:
            self._forget(path)

    def _forget(self, path: Path) -> None:
        if (kept := self._cache.pop(path, None)) is not None:
            self._cached -= _weight(kept)


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
