"""What the commands on a library share: finding and reading cassettes, rows, filters, groups."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from llm_proxy import ages, display
from llm_proxy.cassette import Cassette, CassetteEnd, CassetteMeta
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.cli.json_documents import meta_document, outcome_document
from llm_proxy.cli.options import CheckedTextType, ParsedType, decorate, grouped_option
from llm_proxy.display import count_with_noun, path_as_unicode_text
from llm_proxy.errors import CassetteError, UsageError, printable_excerpt
from llm_proxy.exchange import Outcome
from llm_proxy.matching import RuleSet
from llm_proxy.matching.presets import needs_rekeying
from llm_proxy.redaction import has_older_rules
from llm_proxy.shell.library.library import Library, parse_take_path, walk_cassettes

F = TypeVar("F", bound=Callable[..., Any])

_PROGRESS_MIN_FILES: Final = 200
"""How many files take long enough to read for a progress bar."""
_STATUS_FILTER: Final = re.compile(r"[1-9](?:[0-9]{2}|xx)")
_LONG_KEY_PREFIX: Final = re.compile(r"[0-9a-f]{17,64}")
"""The beginning of a key that is longer than the digits in a file's name."""
_KEY_DIGITS_IN_NAME: Final = 16
"""Hex digits of the key in a file's name."""
_MAX_SHOWN_CANDIDATES: Final = 8
"""Candidates that an error message names at most."""


def checked_library_folder(cassettes: Path) -> Path:
    """The folder of --cassettes, unchanged.

    Raises `UsageError` where the user named one that does not exist: it is mistyped more often
    than empty, and a check that found nothing wrong in it would pass.
    """
    parameter_source = click.get_current_context().get_parameter_source("cassettes")
    if parameter_source is not ParameterSource.DEFAULT and not cassettes.exists():
        raise UsageError(f"no such folder: {path_as_unicode_text(cassettes)} (set --cassettes)")
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


def paths_with_progress(paths: Sequence[Path]) -> Iterator[Path]:
    """The paths; shows a progress bar on stderr where they are many and stderr is a terminal."""
    if len(paths) < _PROGRESS_MIN_FILES or not sys.stderr.isatty():
        yield from paths
        return
    from rich.console import Console  # noqa: PLC0415 # only for a terminal
    from rich.progress import track  # noqa: PLC0415 # only for a terminal

    yield from track(paths, "Reading cassettes", console=Console(stderr=True), transient=True)


def count_keyed_by_other_rules(paths: Iterable[Path], rules: RuleSet) -> int:
    """How many of these cassettes `rekey` would change."""
    library, count = Library(Path()), 0
    for path in paths:
        with suppress(CassetteError):
            count += needs_rekeying(library.read_meta(path), rules)
    return count


def other_rules_message(count: int) -> str:
    """The message about cassettes that were keyed by other rules."""
    return (
        f"{count_with_noun(count, 'cassette')} recorded with different --normalise rules; run "
        "llm-proxy rekey to apply the current rules"
    )


def older_rules_message(count: int) -> str:
    """The message about cassettes that older rules redacted."""
    return (
        f"{count_with_noun(count, 'cassette')} redacted by older rules; run "
        "llm-proxy scrub --write to apply the current rules"
    )


def name_in_library(library: Library, path: Path) -> str:
    """The path of a file relative to the library; its path as it is if it is elsewhere."""
    return str(path.relative_to(library.root)) if path.is_relative_to(library.root) else str(path)


@dataclass(frozen=True, slots=True)
class CassetteRow:
    """A cassette, without its body."""

    relative_path: str
    """The path within the library."""
    path: Path
    meta: CassetteMeta
    http_status: int
    outcome: Outcome
    message_count: int
    read_count: int
    response_end: CassetteEnd
    file_size_bytes: int
    """Size of the file on disk."""
    age: timedelta | None
    """Time since it was recorded; None where line 1 has no time."""

    @property
    def has_older_redaction(self) -> bool:
        """Whether it was redacted by rules older than those of this version."""
        return has_older_rules(self.meta.redaction_rules_version)

    def to_document(self) -> dict[str, Any]:
        """The row as `--json` prints it."""
        return {
            "file": self.path,
            "name": path_as_unicode_text(self.relative_path),
            **meta_document(self.meta),
            "older_redaction": self.has_older_redaction,
            "status": self.http_status,
            "outcome": outcome_document(self.outcome),
            "ending": self.response_end.ending.value,
            "messages": self.message_count,
            "reads": self.read_count,
            "bytes": self.response_end.size_bytes,
            "file_bytes": self.file_size_bytes,
            "duration_ms": self.response_end.at_ms,
            "age_days": None if self.age is None else age_in_days(self.age),
            "sha256": self.response_end.sha256,
        }


def age_in_days(age: timedelta) -> float:
    """An age as JSON documents have it."""
    return round(age / timedelta(days=1), 3)


def read_rows(library: Library) -> tuple[list[CassetteRow], list[CassetteError]]:
    """The rows of all files of a library, and the errors of those that cannot be read."""
    rows: list[CassetteRow] = []
    errors: list[CassetteError] = []
    now = datetime.now(UTC)
    for path, cassette in read_cassettes(library, list(walk_cassettes(library.root))):
        if isinstance(cassette, CassetteError):
            errors.append(cassette)
            continue
        with suppress(OSError):  # deleted since it was read
            rows.append(
                CassetteRow(
                    relative_path=name_in_library(library, path),
                    path=path,
                    meta=cassette.meta,
                    http_status=cassette.response_head.status,
                    outcome=cassette_outcome(cassette),
                    message_count=len(cassette.framed_messages),
                    read_count=len(cassette.reads),
                    response_end=cassette.response_end,
                    file_size_bytes=path.stat().st_size,
                    age=ages.cassette_age(cassette.meta.recorded_at, now),
                )
            )
    return rows, errors


def total_file_size_bytes(rows: Iterable[CassetteRow]) -> int:
    """Total size of the files of these rows in bytes."""
    return sum(row.file_size_bytes for row in rows)


@dataclass(frozen=True, slots=True)
class CassetteFilters:
    """The values of the filter options; an empty text or None matches every cassette."""

    partial: bool = False
    of_session: str = ""
    """The session; not called `session`, which in a settings file is that of requests."""
    model: str = ""
    dialect: str = ""
    provider: str = ""
    status: str | None = None
    older_than: timedelta | None = None
    newer_than: timedelta | None = None

    def matches(self, row: CassetteRow) -> bool:
        """Whether a cassette passes all filters; one of unknown age is neither older nor newer."""
        meta = row.meta
        return (
            not (self.partial and row.outcome.is_complete)
            and self.of_session in {"", meta.session}
            and self.model.lower() in meta.model.lower()
            and self.dialect in {"", meta.dialect}
            and self.provider in {"", meta.provider}
            and str(row.http_status).startswith((self.status or "").rstrip("x"))
            and (self.older_than is None or (row.age is not None and row.age > self.older_than))
            and (self.newer_than is None or (row.age is not None and row.age <= self.newer_than))
        )


def _check_status_filter(text: str) -> None:
    if _STATUS_FILTER.fullmatch(text) is None:
        raise UsageError(
            f"'{printable_excerpt(text, 40)}' is not a valid status: use 200, 429, 4xx or 5xx"
        )


def filter_options(function: F) -> F:
    """Decorator: the options whose values are the fields of `CassetteFilters`."""
    filter_option = grouped_option("Filters")
    options = (
        filter_option("--partial", is_flag=True, help="Only partial cassettes."),
        filter_option("--session", "of_session", default="", metavar="NAME",
                     help="Only cassettes of this session."),
        filter_option("--model", default="", metavar="TEXT",
                     help="Only cassettes whose model name contains TEXT."),
        filter_option("--dialect", default="", metavar="NAME", help="Only this dialect."),
        filter_option("--provider", default="", metavar="NAME", help="Only this provider."),
        filter_option("--status", metavar="STATUS",
                     type=CheckedTextType("status", _check_status_filter),
                     help="Only cassettes with this status: 200, 429, 4xx."),
        filter_option("--older-than", metavar="AGE", type=ParsedType("age", ages.parse_age),
                     help="Only cassettes older than AGE: 36h, 90d, 12w, 6m, 1y."),
        filter_option("--newer-than", metavar="AGE", type=ParsedType("age", ages.parse_age),
                     help="Only cassettes newer than AGE."),
    )  # fmt: skip
    return decorate(function, options)


def duplicate_groups(rows: Iterable[CassetteRow]) -> list[list[CassetteRow]]:
    """Groups of cassettes of one request, in any session, with byte for byte the same response."""
    rows_by_response: dict[tuple[object, ...], list[CassetteRow]] = {}
    for row in rows:
        end = row.response_end
        response = (row.meta.key, row.http_status, end.ending, end.sha256)
        rows_by_response.setdefault(response, []).append(row)
    return [same for same in rows_by_response.values() if len(same) > 1]


def group_takes(library: Library, rows: Iterable[CassetteRow]) -> list[list[CassetteRow]]:
    """The takes of each session and key; a file without a take number is a group of its own."""
    rows_by_key: dict[tuple[str, str], list[CassetteRow]] = {}
    for row in rows:
        take = parse_take_path(library.root, row.path)
        group_key = ("", row.relative_path) if take is None else (take.session, take.key_prefix)
        rows_by_key.setdefault(group_key, []).append(row)
    return list(rows_by_key.values())


def load_named_cassette(library: Library, name: str) -> Cassette:
    """The cassette that `name` identifies, as in `find_cassette_path`."""
    return library.load_cassette(find_cassette_path(library, name))


def find_cassette_path(library: Library, name: str) -> Path:
    """The file of the cassette that `name` identifies.

    In order: a path, a file of exactly this name in the library, the only file whose name, path
    within the library, or key begins with it.  Raises `UsageError` that lists the candidates or
    the nearest name.
    """
    for path in (Path(name), library.root / name):
        if path.is_file():
            return path
    if name and Path(name).is_dir():
        shown = display.shell_quoted_path(name)
        raise UsageError(
            f"{shown} is a folder; run llm-proxy ls --cassettes {shown} to list its cassettes"
        )
    names = {path: name_in_library(library, path) for path in walk_cassettes(library.root)}
    if not names:
        raise UsageError(
            f"no cassettes in {display.folder_name(library.root)}; record one with "
            "llm-proxy record, or give the path of a file"
        )
    found = [path for path in names if name in {path.name, path.stem}]
    if not found and _LONG_KEY_PREFIX.fullmatch(name):
        found = [
            path
            for path in names
            if path.name.startswith(name[:_KEY_DIGITS_IN_NAME])
            and _key_of_file(library, path).startswith(name)
        ]
    elif not found and name:
        found = [
            path for path in names if path.name.startswith(name) or names[path].startswith(name)
        ]
    if len(found) == 1:
        return found[0]
    if found:
        shown_names = [path_as_unicode_text(names[path]) for path in found[:_MAX_SHOWN_CANDIDATES]]
        rest = len(found) - len(shown_names)
        raise UsageError(
            f"{name!r} matches {len(found)} cassettes: {', '.join(shown_names)}"
            f"{f', and {rest} more' if rest else ''}; enter a longer part of the name"
        )
    near_names: dict[str, str] = {}
    for path, full_name in names.items():
        near_names |= {path.stem: full_name, path.name: full_name, full_name: full_name}
    near = difflib.get_close_matches(name, near_names, 1, cutoff=0.3)
    hint = "run llm-proxy ls to list the cassettes, or give the path of a file"
    if near:
        hint = f"did you mean {path_as_unicode_text(near_names[near[0]])}?"
    raise UsageError(f"no cassette {name!r} in {display.folder_name(library.root)}; {hint}")


def _key_of_file(library: Library, path: Path) -> str:
    """The key of a file; empty where it cannot be read."""
    try:
        return library.load_cassette(path).meta.key
    except CassetteError:
        return ""
