"""`rekey`: renames cassettes by the current matching rules."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from llm_proxy import display
from llm_proxy.cli.json_documents import cassette_error_document
from llm_proxy.cli.library import name_in_library, paths_with_progress
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option, json_option, match_rules_option
from llm_proxy.cli.output import print_json, print_lines, print_note
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.matching import RuleSet
from llm_proxy.shell.library import last_played
from llm_proxy.shell.library.library import Library, locked_folder
from llm_proxy.shell.library.library_takes import collision_message
from llm_proxy.shell.library.rekeying import (
    KeyChange,
    MakeContent,
    RekeyPlan,
    apply_changes,
    plan_rekey,
    with_first_line,
)
from llm_proxy.shell.running.settings import state_folder


@click.command
@cassettes_option
@match_rules_option
@CONFIG_OPTION
@click.option("--dry-run", is_flag=True, help="Change nothing, and say what would be.")
@json_option
def rekey(cassettes: Path, *, normalise: RuleSet, dry_run: bool, as_json: bool) -> None:
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
    plan = plan_rekey(library, normalise, paths_with_progress(library.cassette_paths()))
    changes: Sequence[KeyChange] = plan.changes
    if not dry_run and plan.changes:
        changes = apply_key_changes(library, plan.changes)
    if as_json:
        print_json(_rekey_document(library, plan, changes, dry_run=dry_run))
    else:
        print_lines(
            f"{name_in_library(library, change.path)} -> {change.target.name}"
            for change in changes
            if change.path != change.target
        )
        print_lines(
            collision_message(collision.paths, collision.rules) for collision in plan.collisions
        )
        print_lines(
            f"{name_in_library(library, path)} keeps its name: its request held a secret of yours, "
            "without which its key cannot be made again"
            for path in plan.unkeyable_paths
        )
        print_lines(f"unreadable: {error}" for error in plan.read_errors)
        print_note(_summary_line(library, plan, changes, dry_run=dry_run))
    raise click.exceptions.Exit(1 if plan.read_errors else 0)


def apply_key_changes(
    library: Library, changes: Sequence[KeyChange], make_content: MakeContent = with_first_line
) -> list[KeyChange]:
    """Apply the changes; return those that were made.

    Raises `UsageError` where the library cannot be written, and `LlmProxyError` where the times of
    the last plays cannot be stored under the new names.
    """
    state = state_folder(os.environ)
    names = {
        name_in_library(library, change.path): name_in_library(library, change.target)
        for change in changes
        if change.path != change.target
    }
    last_played.copy_times_to_new_names(state, library.root, names)
    try:
        with locked_folder(library.root):
            applied_changes = list(apply_changes(changes, make_content))
    except OSError as error:
        raise UsageError(
            f"{library.root} cannot be written: {error.strerror}; what was renamed is whole: do it "
            "again once that is mended"
        ) from None
    with suppress(LlmProxyError):  # the entry of an old name is never looked up
        last_played.forget_files(state, library.root, names)
    return applied_changes


def _summary_line(
    library: Library, plan: RekeyPlan, changes: Sequence[KeyChange], *, dry_run: bool
) -> str:
    if not plan.file_count:
        return f"{library.root} holds no cassettes yet: nothing to rekey"
    looked = display.count_with_noun(plan.file_count, "cassette")
    if not changes:
        other_count = len(plan.unkeyable_paths) + len(plan.read_errors)
        rest = f" but {other_count}" if other_count else ""
        return f"{looked}, each of them keyed by these rules{rest}"
    renamed = sum(change.path != change.target for change in changes)
    would = " would be" if dry_run else ""
    hint = "; nothing was changed (--dry-run)" if dry_run else ""
    return f"{looked}: {len(changes)}{would} keyed anew, {renamed} of them renamed{hint}"


def _rekey_document(
    library: Library, plan: RekeyPlan, changes: Sequence[KeyChange], *, dry_run: bool
) -> dict[str, Any]:
    def name(path: Path) -> str:
        return display.path_as_unicode_text(name_in_library(library, path))

    return {
        "library": library.root,
        "dry_run": dry_run,
        "cassettes": plan.file_count,
        "keyed": [
            {"name": name(change.path), "new_name": name(change.target), "key": change.meta.key}
            for change in changes
        ],
        "collisions": [
            {"names": list(map(name, collision.paths)), "rules": list(collision.rules)}
            for collision in plan.collisions
        ],
        "kept": list(map(name, plan.unkeyable_paths)),
        "unreadable": [cassette_error_document(error) for error in plan.read_errors],
    }
