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
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
@json_option
def rekey(cassettes: Path, *, normalise: RuleSet, dry_run: bool, as_json: bool) -> None:
    r"""Rename cassettes to match the current --normalise rules.

    The name of a cassette starts with the key of its request. The key depends on the --normalise
    rules that were set during the recording. Cassettes recorded with other rules still match, but
    llm-proxy must read every file to find these cassettes. This command updates the key and name of
    every cassette. The rest of each cassette is unchanged. If the command is interrupted, no
    cassette is lost; run the command again.

    \b
    Examples:
      llm-proxy rekey --dry-run
      llm-proxy rekey --normalise uuids --normalise 'ignore=$.metadata.trace'
      llm-proxy rekey --cassettes tests/cassettes --normalise claude-code

    If different requests have the same key under the new rules, their cassettes become takes of one
    key. The output lists these cassettes and the rules. The exit code is 1 if a file cannot be
    read.
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
            f"{name_in_library(library, path)}: not rekeyed, because the key depends on a secret "
            "that is not stored; record the cassette again"
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
            f"cannot write {library.root}: {error.strerror}; no cassettes were lost; fix the "
            "problem and run the command again"
        ) from None
    with suppress(LlmProxyError):  # the entry of an old name is never looked up
        last_played.forget_files(state, library.root, names)
    return applied_changes


def _summary_line(
    library: Library, plan: RekeyPlan, changes: Sequence[KeyChange], *, dry_run: bool
) -> str:
    if not plan.file_count:
        return f"no cassettes in {display.folder_name(library.root)}"
    cassettes = display.count_with_noun(plan.file_count, "cassette")
    if not changes:
        skipped_count = len(plan.unkeyable_paths) + len(plan.read_errors)
        skipped = f"; {skipped_count:,} skipped" if skipped_count else ""
        return f"{cassettes} checked, nothing to change{skipped}"
    renamed_count = sum(change.path != change.target for change in changes)
    if dry_run:
        return f"would rekey {len(changes):,} of {cassettes} and rename {renamed_count:,}"
    return f"rekeyed {len(changes):,} of {cassettes} and renamed {renamed_count:,}"


def _rekey_document(
    library: Library, plan: RekeyPlan, changes: Sequence[KeyChange], *, dry_run: bool
) -> dict[str, Any]:
    def name(path: Path) -> str:
        return display.path_as_unicode_text(name_in_library(library, path))

    return {
        "library": library.root,
        "dry_run": dry_run,
        "cassettes": plan.file_count,
        "rekeyed": [
            {"name": name(change.path), "new_name": name(change.target), "key": change.meta.key}
            for change in changes
        ],
        "collisions": [
            {"names": list(map(name, collision.paths)), "rules": list(collision.rules)}
            for collision in plan.collisions
        ],
        "skipped": list(map(name, plan.unkeyable_paths)),
        "unreadable": [cassette_error_document(error) for error in plan.read_errors],
    }
