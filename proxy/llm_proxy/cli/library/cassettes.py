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
from llm_proxy.display import count_with_noun
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.matching import RuleSet
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.library_index import is_keyed_by

_PROGRESS_MIN_FILES: Final = 200
"""How many files take long enough to read for a progress bar."""


def checked_library_folder(cassettes: Path) -> Path:
    """The folder of --cassettes, unchanged.

    Raises `UsageError` where the user named one that does not exist: it is mistyped more often
    than empty, and a check that found nothing wrong in it would pass.
    """
    parameter_source = click.get_current_context().get_parameter_source("cassettes")
    if parameter_source is not ParameterSource.DEFAULT and not cassettes.exists():
        raise UsageError(
            f"there is no folder {display.path_as_unicode_text(cassettes)}: give --cassettes "
            "the folder "
            f"that "
            "has the cassettes, or record some with llm-proxy record"
        )
    return cassettes


def read_cassettes(
    library: Library, paths: Sequence[Path]
) -> Iterator[tuple[Path, Cassette | CassetteError]]:
    """Each file with its cassette, or with the error of reading it."""
    for path in paths_with_progress(paths):
        try:
            yield path, library.load_cassette(path)
        except CassetteError as error:
            yield path, error


def count_keyed_by_other_rules(paths: Iterable[Path], rules: RuleSet) -> int:
    """How many of these cassettes were keyed by other rules, and so are not found by name."""
    library, count = Library(Path()), 0
    for path in paths:
        with suppress(CassetteError):
            count += not is_keyed_by(library.read_meta(path), rules)
    return count


def other_rules_message(count: int) -> str:
    """The message about cassettes that were keyed by other rules."""
    verb = "was" if count == 1 else "were"
    return (
        f"{count_with_noun(count, 'cassette')} {verb} keyed by other rules than those given, and "
        f"found by "
        "reading: llm-proxy rekey names them anew"
    )


def name_in_library(library: Library, path: Path) -> str:
    """The path of a file relative to the library; its path as it is if it is elsewhere."""
    return str(path.relative_to(library.root)) if path.is_relative_to(library.root) else str(path)


def paths_with_progress(paths: Sequence[Path]) -> Iterator[Path]:
    """The paths; shows a progress bar on stderr where they are many and stderr is a terminal."""
    if len(paths) < _PROGRESS_MIN_FILES or not sys.stderr.isatty():
        yield from paths
        return
    from rich.console import Console  # noqa: PLC0415 # only for a terminal
    from rich.progress import track  # noqa: PLC0415 # only for a terminal

    yield from track(paths, "reading", console=Console(stderr=True), transient=True)
