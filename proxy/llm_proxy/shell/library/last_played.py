"""Stores when the cassettes of a library were last played on this machine.

Each library has a small file outside of it: playing changes no cassette, and a library in git
stays as it was committed.  Runs that end at the same time wait for each other, so that no update
is lost.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from llm_proxy.display import path_as_unicode_text
from llm_proxy.errors import LlmProxyError
from llm_proxy.shell.library.library import locked_folder
from llm_proxy.shell.private_files import make_private_folder, replace_file

_FOLDER_NAME: Final = "played"


class LastPlayed(
    msgspec.Struct,
    frozen=True,
    rename={"tracked_since": "since", "played_at_by_path": "played"},
):
    """When the cassettes of one library were last played."""

    library: str = ""
    """The library's folder, for people who read the file."""
    tracked_since: datetime | None = None
    """When tracking began; None if nothing was ever played."""
    played_at_by_path: dict[str, datetime] = {}  # msgspec copies it
    """Last time played, by the file's path relative to the library."""


def read_last_played(state_folder: Path, library: Path) -> LastPlayed:
    """The last played times of a library; empty if they cannot be read."""
    try:
        return msgspec.json.decode(_state_file(state_folder, library).read_bytes(), type=LastPlayed)
    except (OSError, msgspec.DecodeError):  # never written, or by another version
        return LastPlayed()


def mark_played(
    state_folder: Path, library: Path, file_names: Iterable[str], now: datetime
) -> None:
    """Store that these files were played at `now`.  Raises `LlmProxyError` if that fails."""
    played_now = dict.fromkeys(map(path_as_unicode_text, file_names), now)
    _update_file(state_folder, library, lambda played: {**played, **played_now}, now)


def forget_files(state_folder: Path, library: Path, file_names: Iterable[str]) -> None:
    """Remove deleted files.  Raises `LlmProxyError` if the state cannot be written."""
    deleted = frozenset(map(path_as_unicode_text, file_names))
    if read_last_played(state_folder, library).tracked_since is not None:
        _update_file(
            state_folder,
            library,
            lambda played: {name: at for name, at in played.items() if name not in deleted},
        )


def copy_times_to_new_names(
    state_folder: Path, library: Path, new_names: Mapping[str, str]
) -> None:
    """Copy the times of old names to new names, from a mapping of old to new.

    Call it before files are renamed, so that a crash in between loses nothing.  Raises
    `LlmProxyError` if the state cannot be written.
    """
    renames = {
        path_as_unicode_text(old): path_as_unicode_text(new) for old, new in new_names.items()
    }

    def add_new_names(played: dict[str, datetime]) -> dict[str, datetime]:
        renamed = dict(played)
        for old, new in renames.items():
            if old in played:
                renamed[new] = max(played[old], renamed.get(new, played[old]))
        return renamed

    if not renames.keys().isdisjoint(read_last_played(state_folder, library).played_at_by_path):
        _update_file(state_folder, library, add_new_names)


def _update_file(
    state_folder: Path,
    library: Path,
    update: Callable[[dict[str, datetime]], dict[str, datetime]],
    now: datetime | None = None,
) -> None:
    """Update the played times; tracking begins `now` if nothing was ever played."""
    path = _state_file(state_folder, library)
    try:
        make_private_folder(path.parent)
        with locked_folder(path.parent):
            old = read_last_played(state_folder, library)
            document = LastPlayed(
                path_as_unicode_text(library.absolute()),
                old.tracked_since or now,
                update(old.played_at_by_path),
            )
            replace_file(path, msgspec.json.encode(document, order="sorted"))
    except OSError as error:
        raise LlmProxyError(f"cannot write {path}: {error.strerror}") from None


def _state_file(state_folder: Path, library: Path) -> Path:
    library_hash = hashlib.sha256(os.fsencode(library.resolve())).hexdigest()[:16]
    return state_folder / _FOLDER_NAME / f"{library_hash}.json"
