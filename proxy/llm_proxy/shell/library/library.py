"""The library: a folder of cassettes.

    cassettes/<dialect>/<model>/<first 16 digits of the key>-<take>.jsonl
    cassettes/@<session>/<dialect>/...

A library is scanned by file names alone; a file is read on demand.  The folders below a session
are for people only: a take is found by its file name in any of them.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from llm_proxy.cassette import (
    Cassette,
    CassetteMeta,
    StoredRequest,
    parse_cassette,
    parse_cassette_opening,
)
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cassette.reader import MAX_FILE_BYTES, parse_cassette_meta
from llm_proxy.errors import CassetteError
from llm_proxy.shell.library.scanning import (
    ScannedLibrary,
    TakeFile,
    parse_take_path,
    scan_library,
    session_of_path,
    sort_paths,
    walk_cassettes,
)

__all__ = [
    "Library",
    "TakeFile",
    "parse_take_path",
    "safe_segment",
    "session_of_path",
    "walk_cassettes",
]

_UNSAFE_CHARS: Final = re.compile(r"[^A-Za-z0-9._+-]+")
_MAX_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Approximate maximum memory of the cached cassettes, in bytes."""
_OVERHEAD_BYTES: Final = 200
"""Approximate memory overhead of one message or read, in bytes."""


def safe_segment(name: str) -> str:
    """`name` as one safe segment of a path, at most 100 characters."""
    safe = _UNSAFE_CHARS.sub("-", name).lstrip("-.")[:100]
    return safe or "unnamed"


class Library:
    """The cassettes of one folder.  Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        """`root` need not exist; `refresh` scans it."""
        self.root = root
        self._scan = ScannedLibrary({}, [])
        self._cache: OrderedDict[Path, Cassette] = OrderedDict()
        self._cache_bytes = 0
        self._lock = threading.RLock()

    def refresh(self) -> None:
        """Scan the folder.

        Raises `UsageError` if it cannot be read, or two files have the same take number and key.
        """
        scan = scan_library(self.root)
        with self._lock:
            self._scan = scan

    def with_copied_index(self) -> Library:
        """A library of the same folder with a copy of the file index; changes are not shared."""
        copied = Library(self.root)
        with self._lock:
            takes = {
                session: {key16: dict(same) for key16, same in keys.items()}
                for session, keys in self._scan.take_paths.items()
            }
            copied._scan = ScannedLibrary(takes, list(self._scan.strays))
        return copied

    def take_numbers(self, session: str, key: str) -> list[int]:
        """The take numbers on disk for a session and key, in ascending order."""
        with self._lock:
            return sorted(self._takes_by_number(session, key))

    def take_file(self, session: str, key: str, number: int) -> TakeFile:
        """The file of one take.  Raises `KeyError` if there is none."""
        with self._lock:
            return TakeFile(
                Path(self._takes_by_number(session, key)[number]), session, key[:16], number
            )

    def sessions(self) -> list[str]:
        """The sessions that have takes, sorted."""
        with self._lock:
            return sorted(self._scan.take_paths)

    def cassette_paths(self) -> list[Path]:
        """The paths of all cassettes, takes and strays, sorted."""
        return list(map(Path, sort_paths(self.unsorted_paths())))

    def unsorted_paths(self) -> list[str]:
        """The paths of all cassettes, takes and strays, unsorted: fast for 100,000 of them."""
        with self._lock:
            keys = [same for keys in self._scan.take_paths.values() for same in keys.values()]
            return [*(path for same in keys for path in same.values()), *self._scan.strays]

    def take_paths_in_session(self, session: str) -> list[Path]:
        """The paths of a session's takes, sorted."""
        with self._lock:
            keys = self._scan.take_paths.get(session, {})
            paths = [path for same in keys.values() for path in same.values()]
        return list(map(Path, sort_paths(paths)))

    def stray_paths(self) -> list[Path]:
        """The `.jsonl` files whose names hold no key and take number, sorted by path."""
        with self._lock:
            return list(map(Path, sort_paths(self._scan.strays)))

    @property
    def has_strays(self) -> bool:
        """Whether there are `.jsonl` files whose names hold no key and take number."""
        return bool(self._scan.strays)

    def add_take_to_index(self, path: Path, session: str, key: str, number: int) -> None:
        """Add a take's file, which was just written, to the index."""
        with self._lock:
            self._evict(path)
            keys = self._scan.take_paths.setdefault(session, {})
            keys.setdefault(key[:16], {})[number] = str(path)

    def remove_take_from_index(self, session: str, key: str, number: int) -> TakeFile | None:
        """Remove a take from the index and return it, None if there is none; its file is kept."""
        with self._lock:
            path = self._takes_by_number(session, key).pop(number, None)
        return None if path is None else TakeFile(Path(path), session, key[:16], number)

    def _takes_by_number(self, session: str, key: str) -> dict[int, str]:
        return self._scan.take_paths.get(session, {}).get(key[:16], {})

    def cached_cassette(self, path: Path) -> Cassette | None:
        """The cassette of a file as it was when it was loaded; None if it is not cached."""
        with self._lock:
            cassette = self._cache.get(path)
            if cassette is not None:
                self._cache.move_to_end(path)
            return cassette

    def load_cassette(self, path: Path) -> Cassette:
        """The validated cassette in a file, from the cache if possible.  Raises `CassetteError`."""
        if (cached := self.cached_cassette(path)) is not None:
            return cached
        cassette = parse_cassette(str(path), _read_content(path))
        with self._lock:
            self._evict(path)
            self._cache[path] = cassette
            self._cache_bytes += _memory_size(cassette)
            while self._cache_bytes > _MAX_CACHE_BYTES and len(self._cache) > 1:
                self._evict(next(iter(self._cache)))
        return cassette

    def read_opening(self, path: Path) -> tuple[CassetteMeta, StoredRequest]:
        """The metadata and request in a file's first two lines.  Raises `CassetteError`."""
        with _open_file(path) as file:
            lines = file.readline(MAX_FILE_BYTES + 1) + file.readline(MAX_FILE_BYTES + 1)
        return parse_cassette_opening(str(path), lines)

    def read_meta(self, path: Path) -> CassetteMeta:
        """The metadata in a file's first line.  Raises `CassetteError`."""
        with _open_file(path) as file:
            return parse_cassette_meta(str(path), file.readline(MAX_FILE_BYTES + 1))

    def read_openings(self) -> Iterator[tuple[Path, CassetteMeta, StoredRequest]]:
        """Yield path, metadata and request of every cassette; unreadable ones are skipped."""
        for path in self.cassette_paths():
            try:
                yield path, *self.read_opening(path)
            except CassetteError:
                continue

    def path_for_take(self, meta: CassetteMeta, request: StoredRequest, number: int) -> Path:
        """The path that a take of this exchange is written to."""
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

    def evict_from_cache(self, path: Path) -> None:
        """Remove a path from the cache, because its file was replaced."""
        with self._lock:
            self._evict(path)

    def _evict(self, path: Path) -> None:
        if (cassette := self._cache.pop(path, None)) is not None:
            self._cache_bytes -= _memory_size(cassette)


def _memory_size(cassette: Cassette) -> int:
    """Approximate memory of a cassette in bytes: its body is held as messages and as reads."""
    item_count = len(cassette.framed_messages) + len(cassette.reads)
    return (
        2 * cassette.response_end.size_bytes
        + len(cassette.request.body)
        + _OVERHEAD_BYTES * item_count
    )


def _read_content(path: Path) -> bytes:
    with _open_file(path) as file:
        return file.read(MAX_FILE_BYTES + 1)


@contextmanager
def _open_file(path: Path) -> Iterator[BinaryIO]:
    """The file, open for reading.  Raises `CassetteError` for an `OSError`."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise CassetteError(str(path), None, f"it cannot be read: {error.strerror}") from None
