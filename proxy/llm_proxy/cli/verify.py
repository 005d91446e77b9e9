"""`verify`: checks that cassettes are intact, and that name and folder match their content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from llm_proxy import display
from llm_proxy.cassette_consistency import consistency_problems
from llm_proxy.cli.json_documents import cassette_error_document
from llm_proxy.cli.library import (
    checked_library_folder,
    count_keyed_by_other_rules,
    other_rules_message,
    read_cassettes,
)
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option, json_option, match_rules_option
from llm_proxy.cli.output import print_json, print_lines, print_note
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.matching import RuleSet
from llm_proxy.shell.library.library import (
    Library,
    parse_take_path,
    session_of_path,
    walk_cassettes,
)


@click.command
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@cassettes_option
@match_rules_option
@CONFIG_OPTION
@json_option
def verify(paths: tuple[Path, ...], cassettes: Path, normalise: RuleSet, *, as_json: bool) -> None:
    r"""Check that cassettes are intact and consistent.

    The command checks the JSON and the schema of each line, the size and the SHA-256 of the body,
    and the order and the times of the reads. The dialect must be known. The key must match the
    stored request, the file name and the folder. PATHS are files and folders; without PATHS,
    the whole library is checked.

    \b
    Examples:
      llm-proxy verify
      llm-proxy verify tests/cassettes
      llm-proxy verify cassettes/openai-chat/gpt-5/dc8593ff1ee7bb84-1.jsonl
      git diff --name-only --diff-filter=d '*.jsonl' | xargs -r llm-proxy verify

    Each problem is printed to stdout as FILE:LINE: PROBLEM. The exit code is 1 if a problem is
    found. Cassettes recorded with other --normalise rules are not problems; the output shows how
    many there are.
    """
    roots_by_file = _files_to_verify(paths or (checked_library_folder(cassettes),), cassettes)
    problems = list(_find_problems(roots_by_file))
    others = count_keyed_by_other_rules(roots_by_file, normalise)
    if as_json:
        document = {
            "ok": not problems,
            "checked": len(roots_by_file),
            "problems": [cassette_error_document(problem) for problem in problems],
            "keyed_by_other_rules": others,
        }
        print_json(document)
    else:
        print_lines(map(str, problems))
        print_note(_summary_line(len(roots_by_file), problems, paths or (cassettes,)))
        if others:
            print_note(other_rules_message(others))
    raise click.exceptions.Exit(1 if problems else 0)


def _files_to_verify(paths: Sequence[Path], cassettes: Path) -> dict[Path, Path | None]:
    """Every file in these paths, once, with the folder of its library; None if that is not known.

    Raises `UsageError` for a path that does not exist.
    """
    found: dict[Path, tuple[Path, Path | None]] = {}
    for path in paths:
        inside = path.resolve().is_relative_to(cassettes.resolve())
        if not path.exists() and path != cassettes:
            raise UsageError(
                f"no such file or folder: {display.path_as_unicode_text(path)} (omit PATHS to "
                "check the whole library)"
            )
        if path.is_file():
            found.setdefault(path.resolve(), (path, cassettes if inside else None))
            continue
        own = path.parent if path.name.startswith("@") else path
        for file in walk_cassettes(path):
            found.setdefault(file.resolve(), (file, cassettes if inside else own))
    return dict(found.values())


def _find_problems(roots_by_file: Mapping[Path, Path | None]) -> Iterator[CassetteError]:
    paths_by_take: dict[tuple[Path, str, str, int], Path] = {}
    for path, cassette in read_cassettes(Library(Path()), list(roots_by_file)):
        root, file = roots_by_file[path], path.resolve()
        if root is not None and (take := parse_take_path(root.resolve(), file)) is not None:
            first_path = paths_by_take.setdefault(
                (root, take.session, take.key_prefix, take.number), path
            )
            if first_path != path:
                yield CassetteError(
                    str(path),
                    None,
                    f"this file has the same key and take number as {first_path}; delete one "
                    "of the two files",
                )
        if isinstance(cassette, CassetteError):
            yield cassette
            continue
        take = parse_take_path(file.parent, file)
        key_prefix = None if take is None else take.key_prefix
        session = None if root is None else session_of_path(root.resolve(), file)
        for why in consistency_problems(cassette, key_prefix, session):
            yield CassetteError(str(path), 1, why)


def _summary_line(file_count: int, problems: Sequence[CassetteError], paths: Sequence[Path]) -> str:
    if not file_count:
        folders = ", ".join(map(display.folder_name, paths))
        return f"no cassettes in {folders}; record some with llm-proxy record"
    checked = f"{display.count_with_noun(file_count, 'cassette')} checked"
    if not problems:
        return f"{checked}, no problems"
    files = display.count_with_noun(len({problem.file for problem in problems}), "file")
    return f"{checked}, {display.count_with_noun(len(problems), 'problem')} in {files}"
