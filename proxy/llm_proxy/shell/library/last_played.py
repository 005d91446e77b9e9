"""When the cassettes of a library were last played on this machine.

A small file for each library, outside of it: playing changes no cassette, and a library in git
stays as it was committed.  Runs that end at once wait for each other, and lose nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from llm_proxy.display import path_text
from llm_proxy.errors import LlmProxyError
from llm_proxy.shell.library.exclusive_access import alone

_FOLDER: Final = "played"


class _Document(msgspec.Struct):
    library: str
    since: datetime
    played: dict[str, datetime]


@dataclass(frozen=True, slots=True)
class LastPlayed:
    """What is known of one library."""

    since: datetime | None = None
    """When its plays began to be noted; None where none ever was."""
    played: Mapping[str, datetime] = field(default_factory=dict)
    """By the file's name within the library."""


def read(state: Path, library: Path) -> LastPlayed:
    """What the state folder knows of a library; nothing where it cannot be read."""
    try:
        it = msgspec.json.decode(_place(state, library).read_bytes(), type=_Document)
    except (OSError, msgspec.DecodeError):  # never written, or by another version
        return LastPlayed()
    return LastPlayed(it.since, it.played)


def note(state: Path, library: Path, names: Iterable[str], now: datetime) -> None:
    """Remember that these were played.  Raises `LlmProxyError` where that cannot be written."""
    with_now = dict.fromkeys(map(path_text, names), now)
    _change(state, library, lambda it: LastPlayed(it.since or now, {**it.played, **with_now}))


def forget(state: Path, library: Path, names: Iterable[str]) -> None:
    """Forget files that are no more.  Raises `LlmProxyError` where that cannot be written."""
    gone = frozenset(map(path_text, names))

    def without(it: LastPlayed) -> LastPlayed:
        return LastPlayed(
            it.since, {name: at for name, at in it.played.items() if name not in gone}
        )

    if read(state, library).since is not None:
        _change(state, library, without)


def rename(state: Path, library: Path, names: Mapping[str, str]) -> None:
    """Remember of the new names what is known of the old ones, which are kept as well.

    To be called before files are renamed: a crash in between forgets nothing.  Raises
    `LlmProxyError` where that cannot be written.
    """
    pairs = [(path_text(old), path_text(new)) for old, new in names.items()]

    def with_new(it: LastPlayed) -> LastPlayed:
        played = dict(it.played)
        for old, new in pairs:
            if old in it.played:
                played[new] = max(it.played[old], played.get(new, it.played[old]))
        return LastPlayed(it.since, played)

    if not {old for old, _ in pairs}.isdisjoint(read(state, library).played):
        _change(state, library, with_new)


def _change(state: Path, library: Path, change: Callable[[LastPlayed], LastPlayed]) -> None:
    place = _place(state, library)
    temporary = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with alone(place.parent):
            it = change(read(state, library))
            assert it.since is not None  # noqa: S101 # every change gives it
            document = _Document(path_text(library.absolute()), it.since, dict(it.played))
            temporary.write_bytes(msgspec.json.encode(document, order="sorted"))
            temporary.replace(place)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise LlmProxyError(f"{place} cannot be written: {error.strerror}") from None


def _place(state: Path, library: Path) -> Path:
    """The file of a library, however its folder is spelled."""
    where = hashlib.sha256(os.fsencode(library.resolve())).hexdigest()[:16]
    return state / _FOLDER / f"{where}.json"
