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
    ScannedLibrary,
    TakeFile,
    cassette_files,
    scan_library,
    session_of_path,
    sort_paths,
    take_of_name,
)

__all__ = [
    "Library",
    "TakeFile",
    "cassette_files",
    "safe_segment",
    "session_of_path",
    "take_of_name",
]

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._+-]+")
_CACHE: Final = 64 * 1024 * 1024
"""Bytes of memory that loaded cassettes may have, about."""
_MESSAGE: Final = 200
"""Bytes of memory that a message or a read has beyond its own, about."""


def safe_segment(name: str) -> str:
    """`name` as one safe part of a path."""
    safe = _UNSAFE.sub("-", name).lstrip("-.")[:100]
    return safe or "unnamed"


class Library:
    """The cassettes of one folder.  Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        """`root` need not exist; it is looked through by `refresh`."""
        self.root = root
        self._scanned = ScannedLibrary({}, [])
        self._cache: OrderedDict[Path, Cassette] = OrderedDict()
        self._cached = 0
        self._lock = threading.RLock()

    def refresh(self) -> None:
        """Look through the folder.

        Raises `UsageError` where it cannot be read, or two files claim to be the same take.
        """
        found = scan_library(self.root)
        with self._lock:
            self._scanned = found

    def shared_view(self) -> Library:
        """Another library of this folder that knows of the same files, and is added to alone."""
        other = Library(self.root)
        with self._lock:
            takes = {
                session: {key16: dict(same) for key16, same in keys.items()}
                for session, keys in self._scanned.takes.items()
            }
            other._scanned = ScannedLibrary(takes, list(self._scanned.strays))
        return other

    def numbers(self, session: str, key: str) -> list[int]:
        """The take numbers that are on disk for a session and key, in order."""
        with self._lock:
            return sorted(self._takes_by_number(session, key))

    def take(self, session: str, key: str, number: int) -> TakeFile:
        """One take.  Raises `KeyError` where there is none."""
        with self._lock:
            return TakeFile(
                Path(self._takes_by_number(session, key)[number]), session, key[:16], number
            )

    def sessions(self) -> list[str]:
        """The sessions that have takes, sorted."""
        with self._lock:
            return sorted(self._scanned.takes)

    def files(self) -> list[Path]:
        """Every cassette, takes and strays, sorted by path."""
        return list(map(Path, sort_paths(self.paths())))

    def paths(self) -> list[str]:
        """Every cassette, takes and strays, in no order: for who looks at 100,000 of them."""
        with self._lock:
            keys = [same for keys in self._scanned.takes.values() for same in keys.values()]
            return [*(path for same in keys for path in same.values()), *self._scanned.strays]

    def takes_in_folder(self, session: str) -> list[Path]:
        """The takes in the folder of a session, sorted by path."""
        with self._lock:
            keys = self._scanned.takes.get(session, {})
            paths = [path for same in keys.values() for path in same.values()]
        return list(map(Path, sort_paths(paths)))

    def strays(self) -> list[Path]:
        """The `.jsonl` files whose names say nothing, sorted by path."""
        with self._lock:
            return list(map(Path, sort_paths(self._scanned.strays)))

    @property
    def has_strays(self) -> bool:
        """Whether there are files whose names say nothing."""
        return bool(self._scanned.strays)

    def add(self, path: Path, session: str, key: str, number: int) -> None:
        """Know of a file that was just put there."""
        with self._lock:
            self._drop_cached(path)
            keys = self._scanned.takes.setdefault(session, {})
            keys.setdefault(key[:16], {})[number] = str(path)

    def remove(self, session: str, key: str, number: int) -> TakeFile | None:
        """Forget a take, and say which it was; its file is the caller's business."""
        with self._lock:
            path = self._takes_by_number(session, key).pop(number, None)
        return None if path is None else TakeFile(Path(path), session, key[:16], number)

    def _takes_by_number(self, session: str, key: str) -> dict[int, str]:
        return self._scanned.takes.get(session, {}).get(key[:16], {})

    def cached_cassette(self, path: Path) -> Cassette | None:
        """The cassette of a file that was loaded before, as it was then."""
        with self._lock:
            kept = self._cache.get(path)
            if kept is not None:
                self._cache.move_to_end(path)
            return kept

    def load_cassette(self, path: Path) -> Cassette:
        """The cassette in a file, checked.  Raises `CassetteError`."""
        if (kept := self.cached_cassette(path)) is not None:
            return kept
        cassette = read_cassette(str(path), _read_content(path))
        with self._lock:
            self._drop_cached(path)
            self._cache[path] = cassette
            self._cached += _memory_size(cassette)
            while self._cached > _CACHE and len(self._cache) > 1:
                self._drop_cached(next(iter(self._cache)))
        return cassette

    def read_opening(self, path: Path) -> tuple[Meta, StoredRequest]:
        """What a file answers: its first two lines, the rest unread.  Raises `CassetteError`."""
        with _open_file(path) as file:
            lines = file.readline(MAX_FILE + 1) + file.readline(MAX_FILE + 1)
        return read_opening(str(path), lines)

    def read_meta(self, path: Path) -> Meta:
        """What a file is: its first line, the rest unread.  Raises `CassetteError`."""
        with _open_file(path) as file:
            return read_meta(str(path), file.readline(MAX_FILE + 1))

    def read_openings(self) -> Iterator[tuple[Path, Meta, StoredRequest]]:
        """What every readable cassette answers; what cannot be read is left out."""
        for path in self.files():
            try:
                yield path, *self.read_opening(path)
            except CassetteError:
                continue

    def path_for_take(self, meta: Meta, request: StoredRequest, number: int) -> Path:
        """Where a take of this exchange belongs."""
        folder = self.root
        if meta.session != DEFAULT_SESSION:
            folder /= f"@{safe_segment(meta.session)}"
        label = meta.model or request.path.strip("/").replace("/", "-") or "root"
        return (
            folder
            / safe_segment(meta.dialect)
            / safe_segment(label)
            / f"{meta.key[:16]}-{number}.jsonl"
        )

    def forget_cached(self, path: Path) -> None:
        """Another cassette lies at this path by now."""
        with self._lock:
            self._drop_cached(path)

    def _drop_cached(self, path: Path) -> None:
        if (kept := self._cache.pop(path, None)) is not None:
            self._cached -= _memory_size(kept)


def _memory_size(cassette: Cassette) -> int:
    """Bytes of memory that a cassette has, about: its body is there as messages and as reads."""
    pieces = len(cassette.messages) + len(cassette.reads)
    return 2 * cassette.end.size + len(cassette.request.body) + _MESSAGE * pieces


def _read_content(path: Path) -> bytes:
    with _open_file(path) as file:
        return file.read(MAX_FILE + 1)


@contextmanager
def _open_file(path: Path) -> Iterator[BinaryIO]:
    """The file, open; trouble with it is a `CassetteError`."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise CassetteError(str(path), None, f"it cannot be read: {error.strerror}") from None
