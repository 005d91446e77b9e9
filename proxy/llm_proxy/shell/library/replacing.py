"""New takes of a request in the place of its old ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llm_proxy.cassette import Cassette
from llm_proxy.errors import SpoolError
from llm_proxy.shell.library.exclusive_access import alone
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
        with alone(library.root):
            _check(library, old, [it for _, it in new])
            placed = [_place(library, path, it, n) for n, (path, it) in enumerate(new, 1)]
            for path in set(old) - set(placed):
                path.unlink(missing_ok=True)
            for folder in {path.parent for path in (*placed, *old)}:
                sync_folder(folder)
    except OSError as error:
        raise SpoolError(f"{library.root} cannot be written: {error.strerror}") from None
    return placed


def _check(library: Library, old: Sequence[Path], new: Sequence[Cassette]) -> None:
    for number, it in enumerate(new, 1):
        home = library.place(it.meta, it.request, number)
        if home not in old and home.exists():
            raise SpoolError(
                f"{home} is there, and none of those that were asked again: another process may "
                "have recorded it; all are kept as they are"
            )


def _place(library: Library, path: Path, it: Cassette, number: int) -> Path:
    home = library.place(it.meta, it.request, number)
    make_folder(home.parent)
    path.replace(home)
    return home
