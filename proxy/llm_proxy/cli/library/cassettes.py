"""Reads every cassette of a folder, with a progress bar where there are many."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from llm_proxy import display
from llm_proxy.cassette import Cassette
from llm_proxy.display import count_noun
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.matching import RuleSet
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.library_keys import is_keyed_by

_MANY: Final = 200
"""Files that take long enough to be watched."""


def existing_folder(cassettes: Path) -> Path:
    """The folder of --cassettes.

    Raises `UsageError` where somebody named one that does not exist: it is mistyped more often
    than empty, and a check that found nothing wrong in it would pass.
    """
    source = click.get_current_context().get_parameter_source("cassettes")
    if source is not ParameterSource.DEFAULT and not cassettes.exists():
        raise UsageError(
            f"there is no folder {display.escape_path(cassettes)}: give --cassettes the folder "
            f"that "
            "has the cassettes, or record some with llm-proxy record"
        )
    return cassettes


def read_cassettes(
    library: Library, paths: Sequence[Path]
) -> Iterator[tuple[Path, Cassette | CassetteError]]:
    """Each file with its cassette, or with the reason why it is none."""
    for path in with_progress(paths):
        try:
            yield path, library.load_cassette(path)
        except CassetteError as error:
            yield path, error


def count_other_keys(paths: Iterable[Path], rules: RuleSet) -> int:
    """How many of these were keyed by other rules, and so are not found by their names."""
    library, count = Library(Path()), 0
    for path in paths:
        with suppress(CassetteError):
            count += not is_keyed_by(library.read_meta(path), rules)
    return count


def other_rules_message(count: int) -> str:
    """What is said of those."""
    are = "was" if count == 1 else "were"
    return (
        f"{count_noun(count, 'cassette')} {are} keyed by other rules than those given, and "
        f"found by "
        "reading: llm-proxy rekey names them anew"
    )


def name_in_library(library: Library, path: Path) -> str:
    """The name of a file within its library; its path where it lies elsewhere."""
    return str(path.relative_to(library.root)) if path.is_relative_to(library.root) else str(path)


def with_progress(paths: Sequence[Path]) -> Iterator[Path]:
    """The paths; on a terminal with a bar on stderr, where there are many."""
    if len(paths) < _MANY or not sys.stderr.isatty():
        yield from paths
        return
    from rich.console import Console  # noqa: PLC0415 # only for a terminal
    from rich.progress import track  # noqa: PLC0415 # only for a terminal

    yield from track(paths, "reading", console=Console(stderr=True), transient=True)
