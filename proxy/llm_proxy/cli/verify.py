"""`verify`: checks that cassettes are intact, and that name and folder match their content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from llm_proxy import display
from llm_proxy.cli.library.cassettes import (
    checked_library_folder,
    count_keyed_by_other_rules,
    other_rules_message,
    read_cassettes,
)
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option, normalise_option
from llm_proxy.cli.output.json_documents import cassette_error_document
from llm_proxy.cli.output.printing import print_json, print_lines, print_note, styled_line
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.integrity import CassetteLocation, integrity_problems
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.shell.library.library import (
    Library,
    parse_take_path,
    session_of_path,
    walk_cassettes,
)


@dataclass(frozen=True, slots=True)
class FileToVerify:
    """A cassette file to be verified."""

    path: Path
    library_root: Path | None
    """The library that contains it; None where it is not known."""

    def library_location(self) -> CassetteLocation:
        """The key prefix and the session that its name and folder give."""
        path = self.path.resolve()
        take = parse_take_path(path.parent, path)
        return CassetteLocation(
            key_prefix=None if take is None else take.key_prefix,
            session=None
            if self.library_root is None
            else session_of_path(self.library_root.resolve(), path),
        )


@click.command
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@cassettes_option
@normalise_option
@CONFIG_OPTION
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
    files_to_verify = _files_to_verify(paths or (checked_library_folder(cassettes),), cassettes)
    problems = list(_find_problems(files_to_verify))
    others = count_keyed_by_other_rules(
        (subject.path for subject in files_to_verify), parse_rules(normalise)
    )
    if as_json:
        print_json({**_verify_document(files_to_verify, problems), "keyed_by_other_rules": others})
    else:
        print_lines(styled_line(str(problem)) for problem in problems)
        print_note(_summary_line(files_to_verify, problems, paths or (cassettes,)))
        if others:
            print_note(other_rules_message(others))
    raise click.exceptions.Exit(1 if problems else 0)


def _files_to_verify(paths: Sequence[Path], cassettes: Path) -> list[FileToVerify]:
    """Every file in these paths, once.  Raises `UsageError` for a path that does not exist."""
    found: dict[Path, FileToVerify] = {}
    for path in paths:
        inside = path.resolve().is_relative_to(cassettes.resolve())
        if not path.exists() and path != cassettes:
            raise UsageError(
                f"there is no file or folder {display.path_as_unicode_text(path)}: give paths of "
                "cassettes, "
                "or none to check the whole library"
            )
        if path.is_file():
            found.setdefault(path.resolve(), FileToVerify(path, cassettes if inside else None))
            continue
        own = path.parent if path.name.startswith("@") else path
        for file in walk_cassettes(path):
            found.setdefault(file.resolve(), FileToVerify(file, cassettes if inside else own))
    return list(found.values())


def _find_problems(files_to_verify: Sequence[FileToVerify]) -> Iterator[CassetteError]:
    library = Library(Path())
    paths_by_take: dict[tuple[Path, str, str, int], Path] = {}
    files_by_path = {subject.path: subject for subject in files_to_verify}
    for path, cassette in read_cassettes(library, list(files_by_path)):
        file = files_by_path[path]
        if (duplicate := _path_of_same_take(file, paths_by_take)) is not None:
            yield CassetteError(
                str(path), None, f"the same take as {duplicate}: delete one of them"
            )
        if isinstance(cassette, CassetteError):
            yield cassette
            continue
        for why in integrity_problems(cassette, file.library_location()):
            yield CassetteError(str(path), 1, why)


def _path_of_same_take(
    file: FileToVerify, paths_by_take: dict[tuple[Path, str, str, int], Path]
) -> Path | None:
    if file.library_root is None:
        return None
    take = parse_take_path(file.library_root.resolve(), file.path.resolve())
    if take is None:
        return None
    first_path = paths_by_take.setdefault(
        (file.library_root, take.session, take.key_prefix, take.number), file.path
    )
    return first_path if first_path != file.path else None


def _summary_line(
    files_to_verify: Sequence[FileToVerify],
    problems: Sequence[CassetteError],
    paths: Sequence[Path],
) -> str:
    if not files_to_verify:
        return (
            f"no cassettes in {', '.join(map(str, paths))}: nothing to verify. "
            "Record some with llm-proxy record."
        )
    checked = f"{display.count_with_noun(len(files_to_verify), 'cassette')} checked"
    if not problems:
        return f"{checked}, all of them whole and consistent"
    files = len({problem.file for problem in problems})
    return f"{checked}, {display.count_with_noun(len(problems), 'problem')} in {files} of them"


def _verify_document(
    files_to_verify: Sequence[FileToVerify], problems: Sequence[CassetteError]
) -> dict[str, Any]:
    return {
        "ok": not problems,
        "checked": len(files_to_verify),
        "problems": [cassette_error_document(problem) for problem in problems],
    }
