"""`scrub`: replaces secrets in cassettes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import display, redaction
from llm_proxy.cli.json_documents import cassette_error_document
from llm_proxy.cli.library import checked_library_folder, paths_with_progress
from llm_proxy.cli.options import (
    CONFIG_OPTION,
    PATH_TYPE,
    cassettes_option,
    json_option,
    redaction_option,
)
from llm_proxy.cli.output import print_json, print_lines, print_note
from llm_proxy.cli.rekey import apply_key_changes
from llm_proxy.errors import UsageError
from llm_proxy.redaction import RedactionRules
from llm_proxy.scanning import is_cassette_content
from llm_proxy.scrubbing import Scrubbing
from llm_proxy.shell.library.library import Library, walk_cassettes
from llm_proxy.shell.library.rekeying import JoinedTakes, KeyChange
from llm_proxy.shell.library.scrubbing import ScrubPlan, plan_scrub, scrubbed_content

_START_BYTES: Final = 64
"""Enough of a file to recognise a cassette."""


@click.command
@click.argument("paths", nargs=-1, type=PATH_TYPE)
@cassettes_option
@redaction_option
@CONFIG_OPTION
@click.option("--write", is_flag=True, help="Write the changes to the files.")
@json_option
def scrub(
    paths: tuple[Path, ...], cassettes: Path, rules: RedactionRules, *, write: bool, as_json: bool
) -> None:
    r"""Replace secrets in existing cassettes.

    PATHS are files and folders. Without PATHS, the library is scrubbed. Without --write, the
    command only lists the changes.

    Secrets are replaced by placeholders. Headers that llm-proxy never records are removed. The key
    is recomputed, so that the cassette still matches its request.

    \b
    Examples:
      llm-proxy scrub
      llm-proxy scrub --write
      llm-proxy scrub --write tests/cassettes

    A committed secret stays in the git history, so revoke the secret.

    Exit code: 1 if a file cannot be scrubbed or, without --write, if a file would change; 2 if
    a path is not a cassette.
    """
    known = redaction.environment_secret_spellings(os.environ)
    scrubbing = Scrubbing(rules, redaction.operator_secrets(known))
    plans: list[ScrubPlan] = []
    for root, files in _files_by_library(paths, cassettes).items():
        library = Library(root)
        plan = plan_scrub(library, scrubbing, paths_with_progress(files))
        if write and plan.changes:
            apply_key_changes(library, plan.changes, partial(scrubbed_content, scrubbing))
        plans.append(plan)
    changes = [(change, plan.counts[change.path]) for plan in plans for change in plan.changes]
    joined = [takes for plan in plans for takes in plan.joined]
    errors = [error for plan in plans for error in plan.errors]
    if as_json:
        print_json(
            {
                "written": write,
                "changed": [_change_document(change, counts) for change, counts in changes],
                "joined": [
                    list(map(display.path_as_unicode_text, takes.paths)) for takes in joined
                ],
                "unchanged": list(map(cassette_error_document, errors)),
            }
        )
    else:
        print_lines(_change_line(change, counts) for change, counts in changes)
        print_lines(map(_joined_line, joined))
        print_lines(f"unchanged: {error}" for error in errors)
        print_note(_summary_line(len(changes), written=write))
        if write and any(counts for _, counts in changes):
            print_note(
                "revoke each secret that other people may have seen, for example in the git history"
            )
    raise click.exceptions.Exit(1 if errors or (changes and not write) else 0)


def _files_by_library(paths: Sequence[Path], cassettes: Path) -> dict[Path, list[Path]]:
    """The files to scrub by the folder of their library.  Raises `UsageError`."""
    found: dict[Path, dict[Path, None]] = {}
    for path in paths or (checked_library_folder(cassettes),):
        if path.is_dir() or path == cassettes:
            own = path.parent if path.name.startswith("@") else path
            files: Iterator[Path] = walk_cassettes(path)
        else:
            _check_cassette(path)
            own, files = path.parent, iter([path])
        for file in files:
            resolved = file.resolve()
            if resolved.is_relative_to(cassettes.resolve()):
                name = cassettes / resolved.relative_to(cassettes.resolve())
                found.setdefault(cassettes, {})[name] = None
            else:
                found.setdefault(own, {})[file] = None
    return {root: list(files) for root, files in found.items()}


def _check_cassette(path: Path) -> None:
    """Raise `UsageError` unless the file begins as a cassette does."""
    shown = display.path_as_unicode_text(path)
    try:
        with path.open("rb") as file:
            start = file.read(_START_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read {shown}: {error.strerror}") from None
    if not is_cassette_content(start):
        raise UsageError(f"{shown} is not a cassette; edit the file to remove its secrets")


def _change_line(change: KeyChange, counts: dict[str, int]) -> str:
    new_name = f" -> {change.target.name}" if change.target != change.path else ""
    replaced = ", ".join(f"{rule} {count}" for rule, count in sorted(counts.items()))
    path = display.path_as_unicode_text(change.path)
    return (
        f"{path}{new_name}: "
        f"{replaced or 'no secrets; only the version of the redaction rules changes'}"
    )


def _change_document(change: KeyChange, counts: dict[str, int]) -> dict[str, Any]:
    return {"file": change.path, "new_file": change.target, "key": change.meta.key,
            "replaced": dict(sorted(counts.items()))}  # fmt: skip


def _joined_line(joined: JoinedTakes) -> str:
    names = ", ".join(map(display.path_as_unicode_text, joined.paths))
    return f"these cassettes become takes of the same request: {names}"


def _summary_line(count: int, *, written: bool) -> str:
    cassettes = display.count_with_noun(count, "cassette")
    if not count:
        return "nothing to scrub"
    if written:
        return f"{cassettes} scrubbed"
    return f"would scrub {cassettes}; run with --write to change the files"
