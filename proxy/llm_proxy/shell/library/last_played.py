"""Stores when the cassettes of a library were last played on this machine.

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

from llm_proxy.display import escape_path
from llm_proxy.errors import LlmProxyError
from llm_proxy.shell.library.folder_lock import exclusive_access

_FOLDER: Final = "played"


class _LastPlayedDocument(msgspec.Struct):
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


def read_last_played(state: Path, library: Path) -> LastPlayed:
    """What the state folder knows of a library; nothing where it cannot be read."""
    try:
        last_played_document = msgspec.json.decode(
            _state_file(state, library).read_bytes(), type=_LastPlayedDocument
        )
    except (OSError, msgspec.DecodeError):  # never written, or by another version
        return LastPlayed()
    return LastPlayed(last_played_document.since, last_played_document.played)


def record_played(state: Path, library: Path, names: Iterable[str], now: datetime) -> None:
    """Remember that these were played.  Raises `LlmProxyError` where that cannot be written."""
    with_now = dict.fromkeys(map(escape_path, names), now)
    _update_file(
        state,
        library,
        lambda last_played: LastPlayed(
            last_played.since or now, {**last_played.played, **with_now}
        ),
    )


def forget_files(state: Path, library: Path, names: Iterable[str]) -> None:
    """Forget files that are no more.  Raises `LlmProxyError` where that cannot be written."""
    gone = frozenset(map(escape_path, names))

    def without(last_played: LastPlayed) -> LastPlayed:
        return LastPlayed(
            last_played.since,
            {name: at for name, at in last_played.played.items() if name not in gone},
        )

    if read_last_played(state, library).since is not None:
        _update_file(state, library, without)


def copy_to_new_names(state: Path, library: Path, names: Mapping[str, str]) -> None:
    """Remember of the new names what is known of the old ones, which are kept as well.

    To be called before files are renamed: a crash in between forgets nothing.  Raises
    `LlmProxyError` where that cannot be written.
    """
    pairs = [(escape_path(old), escape_path(new)) for old, new in names.items()]

    def with_new(last_played: LastPlayed) -> LastPlayed:
        played = dict(last_played.played)
        for old, new in pairs:
            if old in last_played.played:
                played[new] = max(last_played.played[old], played.get(new, last_played.played[old]))
        return LastPlayed(last_played.since, played)

    if not {old for old, _ in pairs}.isdisjoint(read_last_played(state, library).played):
        _update_file(state, library, with_new)


def _update_file(state: Path, library: Path, change: Callable[[LastPlayed], LastPlayed]) -> None:
    place = _state_file(state, library)
    temporary = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with exclusive_access(place.parent):
            last_played = change(read_last_played(state, library))
            assert last_played.since is not None  # noqa: S101 # every change gives it
            document = _LastPlayedDocument(
                escape_path(library.absolute()), last_played.since, dict(last_played.played)
            )
            temporary.write_bytes(msgspec.json.encode(document, order="sorted"))
            temporary.replace(place)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise LlmProxyError(f"{place} cannot be written: {error.strerror}") from None


def _state_file(state: Path, library: Path) -> Path:
    where = hashlib.sha256(os.fsencode(library.resolve())).hexdigest()[:16]
    return state / _FOLDER / f"{where}.json"
