"""`verify`: whether every cassette can be trusted, and is found where it lies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from llm_proxy import display
from llm_proxy.cli.library.cassettes import count_otherwise_keyed, other_rules, read_all, there
from llm_proxy.cli.options import CONFIG, cassettes, normalise
from llm_proxy.cli.output.json_documents import refusal_document
from llm_proxy.cli.output.printing import line, print_json, print_lines, print_note
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.integrity import Place, complaints
from llm_proxy.matching.grammar import rules_of
from llm_proxy.shell.library.library import Library, files_below, named_take, session_of


@dataclass(frozen=True, slots=True)
class Subject:
    """A file that is checked."""

    path: Path
    root: Path | None
    """The library that it lies in; None where nobody said."""

    def place(self) -> Place:
        """What its name and folder say."""
        path = self.path.resolve()
        take = named_take(path.parent, path)
        return Place(
            key16=None if take is None else take.key16,
            session=None if self.root is None else session_of(self.root.resolve(), path),
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
    subjects = _subjects(paths or (there(cassettes),), cassettes)
    problems = list(_problems(subjects))
    others = count_otherwise_keyed((it.path for it in subjects), rules_of(normalise))
    if as_json:
        print_json({**_document(subjects, problems), "keyed_by_other_rules": others})
    else:
        print_lines(line(str(problem)) for problem in problems)
        print_note(_summary(subjects, problems, paths or (cassettes,)))
        if others:
            print_note(other_rules(others))
    raise click.exceptions.Exit(1 if problems else 0)


def _subjects(paths: Sequence[Path], cassettes: Path) -> list[Subject]:
    """Every file that the paths stand for, once.  Raises `UsageError` for a path to nothing."""
    found: dict[Path, Subject] = {}
    for path in paths:
        inside = path.resolve().is_relative_to(cassettes.resolve())
        if not path.exists() and path != cassettes:
            raise UsageError(
                f"there is no file or folder {display.path_text(path)}: give paths of cassettes, "
                "or none to check the whole library"
            )
        if path.is_file():
            found.setdefault(path.resolve(), Subject(path, cassettes if inside else None))
            continue
        own = path.parent if path.name.startswith("@") else path
        for file in files_below(path):
            found.setdefault(file.resolve(), Subject(file, cassettes if inside else own))
    return list(found.values())


def _problems(subjects: Sequence[Subject]) -> Iterator[CassetteError]:
    """Everything that is wrong, file by file."""
    library = Library(Path())
    seen: dict[tuple[Path, str, str, int], Path] = {}
    places = {subject.path: subject for subject in subjects}
    for path, it in read_all(library, list(places)):
        subject = places[path]
        if (twin := _same_take(subject, seen)) is not None:
            yield CassetteError(str(path), None, f"the same take as {twin}: delete one of them")
        if isinstance(it, CassetteError):
            yield it
            continue
        for why in complaints(it, subject.place()):
            yield CassetteError(str(path), 1, why)


def _same_take(subject: Subject, seen: dict[tuple[Path, str, str, int], Path]) -> Path | None:
    """Another file of the same library, session, key and number."""
    if subject.root is None:
        return None
    take = named_take(subject.root.resolve(), subject.path.resolve())
    if take is None:
        return None
    twin = seen.setdefault((subject.root, take.session, take.key16, take.number), subject.path)
    return twin if twin != subject.path else None


def _summary(
    subjects: Sequence[Subject], problems: Sequence[CassetteError], paths: Sequence[Path]
) -> str:
    if not subjects:
        return (
            f"no cassettes in {', '.join(map(str, paths))}: nothing to verify. "
            "Record some with llm-proxy record."
        )
    checked = f"{display.counted(len(subjects), 'cassette')} checked"
    if not problems:
        return f"{checked}, all of them whole and consistent"
    files = len({problem.file for problem in problems})
    return f"{checked}, {display.counted(len(problems), 'problem')} in {files} of them"


def _document(subjects: Sequence[Subject], problems: Sequence[CassetteError]) -> dict[str, Any]:
    return {
        "ok": not problems,
        "checked": len(subjects),
        "problems": [refusal_document(problem) for problem in problems],
    }
