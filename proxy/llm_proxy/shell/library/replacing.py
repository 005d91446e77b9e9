"""Replaces the takes of a request by new ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llm_proxy.cassette import Cassette
from llm_proxy.errors import SpoolError
from llm_proxy.shell.library.folder_lock import locked_folder
from llm_proxy.shell.library.folders import make_folder, sync_folder
from llm_proxy.shell.library.library import Library


def replace_takes(
    library: Library, old_paths: Sequence[Path], new_takes: Sequence[tuple[Path, Cassette]]
) -> list[Path]:
    """Move the new takes, each a file on the library's file system, in place of the old ones.

    Returns their new paths; they become takes 1, 2, 3… in their order.  Each move is atomic, and
    old takes are deleted last.  Raises `SpoolError` if the library cannot be written, or another
    process's take has one of the paths.
    """
    try:
        with locked_folder(library.root):
            _check_targets_free(library, old_paths, [cassette for _, cassette in new_takes])
            placed_paths = [
                _move_into_library(library, path, cassette, number)
                for number, (path, cassette) in enumerate(new_takes, 1)
            ]
            for path in set(old_paths) - set(placed_paths):
                path.unlink(missing_ok=True)
            for folder in {path.parent for path in (*placed_paths, *old_paths)}:
                sync_folder(folder)
    except OSError as error:
        raise SpoolError(f"{library.root} cannot be written: {error.strerror}") from None
    return placed_paths


def _check_targets_free(
    library: Library, old_paths: Sequence[Path], new_cassettes: Sequence[Cassette]
) -> None:
    for number, cassette in enumerate(new_cassettes, 1):
        target = library.path_for_take(cassette.meta, cassette.request, number)
        if target not in old_paths and target.exists():
            raise SpoolError(
                f"{target} is there, and none of those that were asked again: another process may "
                "have recorded it; all are kept as they are"
            )


def _move_into_library(library: Library, path: Path, cassette: Cassette, number: int) -> Path:
    target = library.path_for_take(cassette.meta, cassette.request, number)
    make_folder(target.parent)
    path.replace(target)
    return target
