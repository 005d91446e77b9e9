"""The library: a folder of cassettes.

    cassettes/<dialect>/<model>/<first 16 digits of the key>-<take>.jsonl
    cassettes/@<session>/<dialect>/...

A library is scanned by file names alone; a file is read on demand.  The folders below a session
are for people only: a take is found by its file name in any of them.  A library may hold 100,000
cassettes, so the index holds paths as strings: a `Path` is created only when one is requested.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
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
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.shell.private_files import make_private_folder, private_opener

_TAKE_FILE_NAME: Final = re.compile(r"([0-9a-f]{16})-([1-9]\d{0,8})\.jsonl")
CASSETTE_SUFFIX: Final = ".jsonl"
KEY_PREFIX_CHARS: Final = 16
"""The number of digits of the key in the name of a take's file."""
_UNSAFE_CHARS: Final = re.compile(r"[^A-Za-z0-9._+-]+")
_MAX_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Approximate maximum memory of the cached cassettes, in bytes."""
_OVERHEAD_BYTES: Final = 200
"""Approximate memory overhead of one message or read, in bytes."""

_TakePaths = dict[str, dict[str, dict[int, str]]]
"""Paths by session, by the first 16 digits of the key, and by take number."""


@dataclass(frozen=True, slots=True)
class TakeFile:
    """One cassette file and what its name and folder give: session, key prefix, take number."""

    path: Path
    session: str
    key_prefix: str
    number: int


@dataclass(frozen=True, slots=True)
class TakeGroup:
    """All takes of one request in one session, in the order in which they are played."""

    session: str
    key: str
    """The request's key by the rules of this run."""
    provider: str
    paths: tuple[Path, ...]


class Library:
    """The cassettes of one folder.  Safe to use from several threads."""

    def __init__(self, root: Path, *, is_shared: bool = False) -> None:
        """`root` need not exist; `refresh` scans it.

        New files and folders are their owner's alone, or with `is_shared` as the umask says.
        """
        self.root = root
        self.is_shared = is_shared
        self._take_paths: _TakePaths = {}
        self._strays: list[str] = []
        """The paths of the cassettes whose names hold no key and take number."""
        self._cache: OrderedDict[Path, Cassette] = OrderedDict()
        self._cache_bytes = 0
        self._lock = threading.RLock()

    def refresh(self) -> None:
        """Scan the folder.

        Raises `UsageError` if it cannot be read, or two files have the same take number and key.
        """
        take_paths, strays = _scan(self.root)
        with self._lock:
            self._take_paths, self._strays = take_paths, strays

    def with_copied_index(self) -> Library:
        """A library of the same folder with a copy of the file index; changes are not shared."""
        copied = Library(self.root, is_shared=self.is_shared)
        with self._lock:
            copied._take_paths = {
                session: {key: dict(takes) for key, takes in groups.items()}
                for session, groups in self._take_paths.items()
            }
            copied._strays = list(self._strays)
        return copied

    def take_paths(self, session: str, key: str) -> dict[int, Path]:
        """The files of a session and key by take number, in ascending order."""
        with self._lock:
            takes = sorted(self._takes_by_number(session, key).items())
        return {number: Path(path) for number, path in takes}

    def sessions(self) -> list[str]:
        """The sessions that have takes, sorted."""
        with self._lock:
            return sorted(self._take_paths)

    def cassette_paths(self) -> list[Path]:
        """The paths of all cassettes, takes and strays, sorted."""
        return list(map(Path, sort_paths(self.unsorted_paths())))

    def unsorted_paths(self) -> list[str]:
        """The paths of all cassettes, takes and strays, unsorted: fast for 100,000 of them."""
        with self._lock:
            groups = [takes for keys in self._take_paths.values() for takes in keys.values()]
            return [*(path for takes in groups for path in takes.values()), *self._strays]

    def take_paths_in_session(self, session: str) -> list[Path]:
        """The paths of a session's takes, sorted."""
        with self._lock:
            groups = self._take_paths.get(session, {})
            paths = [path for takes in groups.values() for path in takes.values()]
        return list(map(Path, sort_paths(paths)))

    def stray_paths(self) -> list[Path]:
        """The `.jsonl` files whose names hold no key and take number, sorted by path."""
        return list(map(Path, sort_paths(self._strays)))

    def add_take_to_index(self, path: Path, session: str, key: str, number: int) -> None:
        """Add a take's file, which was just written, to the index."""
        with self._lock:
            self.evict_from_cache(path)
            groups = self._take_paths.setdefault(session, {})
            groups.setdefault(key[:KEY_PREFIX_CHARS], {})[number] = str(path)

    def remove_take_from_index(self, session: str, key: str, number: int) -> Path | None:
        """Remove a take from the index and return its path; None if there is none.

        Its file is kept.
        """
        with self._lock:
            path = self._takes_by_number(session, key).pop(number, None)
        return None if path is None else Path(path)

    def _takes_by_number(self, session: str, key: str) -> dict[int, str]:
        return self._take_paths.get(session, {}).get(key[:KEY_PREFIX_CHARS], {})

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
        with _open_file(path) as file:
            content = file.read(MAX_FILE_BYTES + 1)
        cassette = parse_cassette(str(path), content)
        with self._lock:
            self.evict_from_cache(path)
            self._cache[path] = cassette
            self._cache_bytes += _memory_size(cassette)
            while self._cache_bytes > _MAX_CACHE_BYTES and len(self._cache) > 1:
                self.evict_from_cache(next(iter(self._cache)))
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

    def path_for_take(self, meta: CassetteMeta, request: StoredRequest, number: int) -> Path:
        """The path that a take of this exchange is written to."""
        folder = session_folder(self.root, meta.session)
        label = meta.model or request.path.strip("/").replace("/", "-") or "root"
        return (
            folder
            / safe_segment(meta.dialect)
            / safe_segment(label)
            / take_file_name(meta.key, number)
        )

    def make_folder(self, folder: Path) -> None:
        """Create a folder and its parents, and sync them so that they survive a power cut."""
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        if self.is_shared:
            folder.mkdir(parents=True, exist_ok=True)
        else:
            make_private_folder(folder)
        for created in missing:
            sync_folder(created.parent)

    def create_file(self, path: Path) -> BinaryIO:
        """A new file, open for writing.  Raises `FileExistsError` if there is one."""
        return open(path, "xb", opener=None if self.is_shared else private_opener)

    def evict_from_cache(self, path: Path) -> None:
        """Remove a path from the cache, because its file was replaced."""
        with self._lock:
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


@contextmanager
def _open_file(path: Path) -> Iterator[BinaryIO]:
    """The file, open for reading.  Raises `CassetteError` for an `OSError`."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise CassetteError(str(path), None, f"cannot read the file: {error.strerror}") from None


def take_file_name(key: str, number: int) -> str:
    """The name of a take's file."""
    return f"{key[:KEY_PREFIX_CHARS]}-{number}{CASSETTE_SUFFIX}"


def safe_segment(name: str) -> str:
    """`name` as one safe segment of a path, at most 100 characters."""
    safe = _UNSAFE_CHARS.sub("-", name).lstrip("-.")[:100]
    return safe or "unnamed"


def _scan(root: Path) -> tuple[_TakePaths, list[str]]:
    takes: _TakePaths = {}
    strays: list[str] = []
    prefix_chars = len("./") if str(root) == "." else 0  # as `Path` drops it
    for session, entry in _walk_by_session(str(root)):
        path = entry.path[prefix_chars:]
        match = _TAKE_FILE_NAME.fullmatch(entry.name)
        if match is None:
            strays.append(path)
            continue
        number = int(match[2])
        paths_by_number = takes.setdefault(session, {}).setdefault(match[1], {})
        if paths_by_number.setdefault(number, path) is not path:
            raise UsageError(
                f"two files have the same key and take number {number}: "
                f"{paths_by_number[number]} and "
                f"{path}; delete or rename one of the two files"
            )
    return takes, strays


def sort_paths(paths: list[str]) -> list[str]:
    """Paths sorted as `Path` objects are: folder by folder."""
    return sorted(paths, key=lambda path: path.split("/"))


def natural_sort_key(path: Path) -> list[str | int]:
    """A sort key that puts take 10 after take 9: alternating text and numbers."""
    parts = re.split(r"(\d+)", str(path))
    return [int(part) if index % 2 else part for index, part in enumerate(parts)]


def parse_take_path(root: Path, path: Path) -> TakeFile | None:
    """A library file's session, key prefix and take number; None if its name is not a take's."""
    match = _TAKE_FILE_NAME.fullmatch(path.name)
    return match and TakeFile(path, session_of_path(root, path), match[1], int(match[2]))


def session_of_path(root: Path, path: Path) -> str:
    """The session of a library file, from its top folder."""
    return _session_of_folder(path.relative_to(root).parts[0])


def session_folder(root: Path, session: str) -> Path:
    """The folder of a session's takes."""
    return root if session == DEFAULT_SESSION else root / f"@{safe_segment(session)}"


def walk_cassettes(root: Path) -> Iterator[Path]:
    """Yield the regular `.jsonl` files below `root`, links not followed, in a stable order.

    Raises `UsageError` if it cannot be read.
    """
    for _, entry in _walk_by_session(str(root)):
        yield Path(entry.path)


def _walk_by_session(root: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield files with their sessions; the stack allows folders of any depth."""
    listings = [("", _sorted_entries(root))]
    while listings:
        session, entries = listings[-1]
        entry = next(entries, None)
        if entry is None:
            listings.pop()
        elif entry.name.startswith("."):
            continue
        elif entry.is_dir(follow_symlinks=False):
            folder_session = session or _session_of_folder(entry.name)
            listings.append((folder_session, _sorted_entries(entry.path)))
        elif entry.name.endswith(CASSETTE_SUFFIX) and entry.is_file(follow_symlinks=False):
            yield session or DEFAULT_SESSION, entry


def _session_of_folder(folder_name: str) -> str:
    return (
        folder_name[1:] if folder_name.startswith("@") and len(folder_name) > 1 else DEFAULT_SESSION
    )


def _sorted_entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return iter(sorted(entries, key=attrgetter("name")))
    except FileNotFoundError:
        return iter(())
    except NotADirectoryError:
        raise UsageError(f"not a folder: {folder} (set --cassettes)") from None
    except OSError as error:
        raise UsageError(f"cannot read {folder}: {error.strerror}") from None


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries to the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock a folder against other llm-proxy processes; no lock if the file system has none."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
