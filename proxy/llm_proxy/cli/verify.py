"""`verify`: whether every cassette can be trusted, and is found where it lies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from llm_proxy import display
from llm_proxy.cli.library.cassettes import (
    count_other_keys,
    existing_folder,
    other_rules_message,
    read_cassettes,
)
from llm_proxy.cli.options import CONFIG, cassettes, normalise
from llm_proxy.cli.output.json_documents import refusal_document
from llm_proxy.cli.output.printing import print_json, print_lines, print_note, styled_line
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.integrity import LibraryLocation, integrity_complaints
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.shell.library.library import Library, cassette_files, session_of_path, take_of_name


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file that is checked."""

    path: Path
    root: Path | None
    """The library that it lies in; None where nobody said."""

    def location(self) -> LibraryLocation:
        """What its name and folder say."""
        path = self.path.resolve()
        take = take_of_name(path.parent, path)
        return LibraryLocation(
            key_prefix=None if take is None else take.key_prefix,
            session=None if self.root is None else session_of_path(self.root.resolve(), path),
        )


@click.command
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@cassettes
@normalise
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def verify(
    paths: tuple[Path, ...], cassettes: Path, normalise: tuple[str, ...], *, as_json: bool
) -> None:
    r"""Check that every cassette is whole and consistent.

    Checked are: JSON and schema of every line, the body's length and SHA-256, the order and the
    times of the reads; and that the key in line 1 is that of the stored request, and the
    dialect a known one; and that name and folder say the same key and session as line 1.
    Without PATHS the whole library is checked; PATHS are files and folders.

    \b
    Examples:
      llm-proxy verify
      llm-proxy verify tests/cassettes
      llm-proxy verify cassettes/openai-chat/gpt-5/dc8593ff1ee7bb84-1.jsonl
      git diff --name-only --diff-filter=d '*.jsonl' | xargs -r llm-proxy verify

    Each problem is one line FILE:LINE: WHY on stdout, and makes the exit code 1. Files that
    were keyed by other rules than those of --normalise are counted: they are found by reading
    them, until llm-proxy rekey.
    """
    subjects = _files_to_check(paths or (existing_folder(cassettes),), cassettes)
    problems = list(_find_problems(subjects))
    others = count_other_keys((subject.path for subject in subjects), parse_rules(normalise))
    if as_json:
        print_json({**_verify_document(subjects, problems), "keyed_by_other_rules": others})
    else:
        print_lines(styled_line(str(problem)) for problem in problems)
        print_note(_summary_line(subjects, problems, paths or (cassettes,)))
        if others:
            print_note(other_rules_message(others))
    raise click.exceptions.Exit(1 if problems else 0)


def _files_to_check(paths: Sequence[Path], cassettes: Path) -> list[CheckedFile]:
    """Every file that the paths stand for, once.  Raises `UsageError` for a path to nothing."""
    found: dict[Path, CheckedFile] = {}
    for path in paths:
        inside = path.resolve().is_relative_to(cassettes.resolve())
        if not path.exists() and path != cassettes:
            raise UsageError(
                f"there is no file or folder {display.escape_path(path)}: give paths of cassettes, "
                "or none to check the whole library"
            )
        if path.is_file():
            found.setdefault(path.resolve(), CheckedFile(path, cassettes if inside else None))
            continue
        own = path.parent if path.name.startswith("@") else path
        for file in cassette_files(path):
            found.setdefault(file.resolve(), CheckedFile(file, cassettes if inside else own))
    return list(found.values())


def _find_problems(subjects: Sequence[CheckedFile]) -> Iterator[CassetteError]:
    library = Library(Path())
    seen: dict[tuple[Path, str, str, int], Path] = {}
    places = {subject.path: subject for subject in subjects}
    for path, cassette in read_cassettes(library, list(places)):
        subject = places[path]
        if (twin := _duplicate_take(subject, seen)) is not None:
            yield CassetteError(str(path), None, f"the same take as {twin}: delete one of them")
        if isinstance(cassette, CassetteError):
            yield cassette
            continue
        for why in integrity_complaints(cassette, subject.location()):
            yield CassetteError(str(path), 1, why)


def _duplicate_take(
    subject: CheckedFile, seen: dict[tuple[Path, str, str, int], Path]
) -> Path | None:
    if subject.root is None:
        return None
    take = take_of_name(subject.root.resolve(), subject.path.resolve())
    if take is None:
        return None
    twin = seen.setdefault((subject.root, take.session, take.key_prefix, take.number), subject.path)
    return twin if twin != subject.path else None


def _summary_line(
    subjects: Sequence[CheckedFile], problems: Sequence[CassetteError], paths: Sequence[Path]
) -> str:
    if not subjects:
        return (
            f"no cassettes in {', '.join(map(str, paths))}: nothing to verify. "
            "Record some with llm-proxy record."
        )
    checked = f"{display.count_noun(len(subjects), 'cassette')} checked"
    if not problems:
        return f"{checked}, all of them whole and consistent"
    files = len({problem.file for problem in problems})
    return f"{checked}, {display.count_noun(len(problems), 'problem')} in {files} of them"


def _verify_document(
    subjects: Sequence[CheckedFile], problems: Sequence[CassetteError]
) -> dict[str, Any]:
    return {
        "ok": not problems,
        "checked": len(subjects),
        "problems": [refusal_document(problem) for problem in problems],
    }
