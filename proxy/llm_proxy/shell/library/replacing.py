"""Replaces the takes of a request by new ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llm_proxy.cassette import Cassette
from llm_proxy.errors import SpoolError
from llm_proxy.shell.library.folder_lock import exclusive_access
from llm_proxy.shell.library.folders import make_folder, sync_folder
from llm_proxy.shell.library.library import Library


def replace_takes(
    library: Library, old: Sequence[Path], new: Sequence[tuple[Path, Cassette]]
) -> list[Path]:
    """Put the new takes, each in a file of the same file system, in the place of the old ones.

    Gives where they lie; they are takes 1, 2, 3… in their order.  Each file is whole at every
    moment, and what is old goes last.  Raises `SpoolError` where the library cannot be written,
    or somebody else's take has the place of one.
    """
    try:
        with exclusive_access(library.root):
            _check_unchanged(library, old, [cassette for _, cassette in new])
            placed = [
                _path_for_new_take(library, path, it, n) for n, (path, it) in enumerate(new, 1)
            ]
            for path in set(old) - set(placed):
                path.unlink(missing_ok=True)
            for folder in {path.parent for path in (*placed, *old)}:
                sync_folder(folder)
    except OSError as error:
        raise SpoolError(f"{library.root} cannot be written: {error.strerror}") from None
    return placed


def _check_unchanged(library: Library, old: Sequence[Path], new: Sequence[Cassette]) -> None:
    for number, cassette in enumerate(new, 1):
        home = library.path_for_take(cassette.meta, cassette.request, number)
        if home not in old and home.exists():
            raise SpoolError(
                f"{home} is there, and none of those that were asked again: another process may "
                "have recorded it; all are kept as they are"
            )


def _path_for_new_take(library: Library, path: Path, cassette: Cassette, number: int) -> Path:
    home = library.path_for_take(cassette.meta, cassette.request, number)
    make_folder(home.parent)
    path.replace(home)
    return home
