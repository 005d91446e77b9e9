"""`rekey`: cassettes named by the rules that are used by now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import display
from llm_proxy.cli.library.cassettes import name_within, with_progress
from llm_proxy.cli.options import CONFIG, cassettes, normalise
from llm_proxy.cli.output.json_documents import refusal_document
from llm_proxy.cli.output.printing import Line, line, print_json, print_lines, print_note
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.matching.grammar import rules_of
from llm_proxy.shell.library import last_played
from llm_proxy.shell.library.exclusive_access import alone
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.library_keys import collision
from llm_proxy.shell.library.rekeying import Change, Plan, carry_out, plan
from llm_proxy.shell.running.settings import state_folder

_KEPT: Final = "its request held a secret of yours, without which its key cannot be made again"


@click.command
@cassettes
@normalise
@CONFIG
@click.option("--dry-run", is_flag=True, help="Change nothing, and say what would be.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def rekey(cassettes: Path, *, normalise: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    r"""Name cassettes by the rules that you match by now.

    A cassette's name is a hash of its request, by the rules of --normalise (or of the settings
    file) that held when it was recorded. Those of other rules are found all the same, by
    reading them. This gives them the key and the name that they would have today, and changes
    nothing else in them. Nothing is lost when it is interrupted: do it again.

    \b
    Examples:
      llm-proxy rekey --dry-run
      llm-proxy rekey --normalise uuids --normalise 'ignore=$.metadata.trace'
      llm-proxy rekey --cassettes tests/cassettes --normalise claude-code

    Requests that were told apart and have one key by a new rule are named with that rule: they
    become takes that answer one after the other. Exit code 1 where a file cannot be read.
    """
    library = Library(cassettes)
    library.refresh()
    found = plan(library, rules_of(normalise), with_progress(library.files()))
    done: Sequence[Change] = found.changes
    if not dry_run and found.changes:
        done = _carried_out(library, found.changes)
    if as_json:
        print_json(_document(library, found, done, dry_run=dry_run))
    else:
        _print(library, found, done, dry_run=dry_run)
    raise click.exceptions.Exit(1 if found.refused else 0)


def _carried_out(library: Library, changes: Sequence[Change]) -> list[Change]:
    """Those that were made.

    Raises `UsageError` where the library cannot be written, and `LlmProxyError` where nobody could
    remember when what is renamed was last played.
    """
    state = state_folder(os.environ)
    names = {
        name_within(library, it.path): name_within(library, it.target)
        for it in changes
        if it.path != it.target
    }
    last_played.rename(state, library.root, names)
    try:
        with alone(library.root):
            done = list(carry_out(changes))
    except OSError as error:
        raise UsageError(
            f"{library.root} cannot be written: {error.strerror}; what was renamed is whole: do it "
            "again once that is mended"
        ) from None
    with suppress(LlmProxyError):  # what is no more is not asked for
        last_played.forget(state, library.root, names)
    return done


def _print(library: Library, found: Plan, done: Sequence[Change], *, dry_run: bool) -> None:
    print_lines(_renamed(library, it) for it in done if it.path != it.target)
    print_lines(line(collision(it.paths, it.rules)) for it in found.collisions)
    print_lines(
        line(f"{name_within(library, path)} keeps its name: {_KEPT}") for path in found.kept
    )
    print_lines(line(f"unreadable: {error}") for error in found.refused)
    print_note(_summary(library, found, done, dry_run=dry_run))


def _renamed(library: Library, it: Change) -> Line:
    return line(f"{name_within(library, it.path)} -> {it.target.name}")


def _summary(library: Library, found: Plan, done: Sequence[Change], *, dry_run: bool) -> str:
    if not found.looked_at:
        return f"{library.root} holds no cassettes yet: nothing to rekey"
    looked = display.counted(found.looked_at, "cassette")
    if not done:
        return f"{looked}, each of them keyed by these rules" + (
            f" but {len(found.kept) + len(found.refused)}" if found.kept or found.refused else ""
        )
    renamed = sum(it.path != it.target for it in done)
    would = " would be" if dry_run else ""
    hint = "; nothing was changed (--dry-run)" if dry_run else ""
    return f"{looked}: {len(done)}{would} keyed anew, {renamed} of them renamed{hint}"


def _document(
    library: Library, found: Plan, done: Sequence[Change], *, dry_run: bool
) -> dict[str, Any]:
    def name(path: Path) -> str:
        return display.path_text(name_within(library, path))

    return {
        "library": display.path_text(library.root),
        "dry_run": dry_run,
        "cassettes": found.looked_at,
        "keyed": [
            {"name": name(it.path), "new_name": name(it.target), "key": it.meta.key} for it in done
        ],
        "collisions": [
            {"names": [name(path) for path in it.paths], "rules": list(it.rules)}
            for it in found.collisions
        ],
        "kept": [name(path) for path in found.kept],
        "unreadable": [refusal_document(error) for error in found.refused],
    }
