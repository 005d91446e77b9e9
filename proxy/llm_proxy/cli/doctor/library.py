"""`doctor` checks of the library and the spool folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from llm_proxy import display
from llm_proxy.cli.doctor.results import CheckLevel, CheckResult
from llm_proxy.cli.library.cassettes import (
    count_keyed_by_other_rules,
    name_in_library,
    other_rules_message,
    read_cassettes,
)
from llm_proxy.errors import CassetteError, SpoolError, UsageError
from llm_proxy.matching import NO_RULES, RuleSet
from llm_proxy.outcome import cassette_outcome
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.spooling import abandoned_spools, is_for_library, open_spool

_LIBRARY_CHECK: Final = "library"
_SPOOL_CHECK: Final = "spool"
_MAX_SHOWN_FILES: Final = 5
"""Files that one line names at most."""
_GROUP_AND_OTHER_BITS: Final = stat.S_IRWXG | stat.S_IRWXO


def run_library_checks(
    cassettes: Path, spool: Path, rules: RuleSet = NO_RULES
) -> Iterator[CheckResult]:
    """Run all checks of the library and the spool folder."""
    yield from _check_cassettes(cassettes, rules)
    yield _check_writable(_LIBRARY_CHECK, cassettes)
    yield _check_writable(_SPOOL_CHECK, spool)
    yield from _check_spool_permissions(spool)
    yield from _check_abandoned_spools(cassettes, spool)


def _check_cassettes(root: Path, rules: RuleSet) -> Iterator[CheckResult]:
    """Check that cassettes can be read, are complete, and are keyed by these rules."""
    library = Library(root)
    try:
        library.refresh()
    except UsageError as error:
        yield CheckResult(_LIBRARY_CHECK, CheckLevel.PROBLEM, str(error))
        return
    if not library.cassette_paths():
        text = f"{root} holds no cassettes yet: llm-proxy record -- COMMAND makes some"
        yield CheckResult(_LIBRARY_CHECK, CheckLevel.OK, text)
        return
    complete_count, partial_names, errors = _classify_cassettes(library)
    if complete_count or partial_names:
        count = display.count_with_noun(complete_count + len(partial_names), "cassette")
        yield CheckResult(_LIBRARY_CHECK, CheckLevel.OK, f"{count} in {root}, each of them whole")
    if partial_names:
        names = _abbreviated_name_list(partial_names)
        text = f"{len(partial_names)} partial, which only replay --allow-partial plays: {names}"
        yield CheckResult(_LIBRARY_CHECK, CheckLevel.WARNING, text)
    if other_rules_count := count_keyed_by_other_rules(library.cassette_paths(), rules):
        yield CheckResult(
            _LIBRARY_CHECK, CheckLevel.WARNING, other_rules_message(other_rules_count)
        )
    for cassette_error in errors[:_MAX_SHOWN_FILES]:
        yield CheckResult(
            _LIBRARY_CHECK, CheckLevel.PROBLEM, f"{cassette_error}; delete it, or record it again"
        )
    if len(errors) > _MAX_SHOWN_FILES:
        more = len(errors) - _MAX_SHOWN_FILES
        yield CheckResult(
            _LIBRARY_CHECK, CheckLevel.PROBLEM, f"{more} more are unreadable: llm-proxy verify"
        )


def _classify_cassettes(library: Library) -> tuple[int, list[str], list[CassetteError]]:
    """The number of complete cassettes, the names of partial ones, and the errors of reading."""
    complete_count = 0
    partial_names: list[str] = []
    errors: list[CassetteError] = []
    for path, cassette in read_cassettes(library, library.cassette_paths()):
        if isinstance(cassette, CassetteError):
            errors.append(cassette)
        elif cassette_outcome(cassette).is_complete:
            complete_count += 1
        else:
            partial_names.append(name_in_library(library, path))
    return complete_count, partial_names, errors


def _abbreviated_name_list(names: list[str]) -> str:
    more = f", and {len(names) - _MAX_SHOWN_FILES} more" if len(names) > _MAX_SHOWN_FILES else ""
    return ", ".join(names[:_MAX_SHOWN_FILES]) + more


def _check_writable(name: str, folder: Path) -> CheckResult:
    """Check that a folder is writable, or can be created where it does not exist."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        return CheckResult(
            name, CheckLevel.PROBLEM, f"{existing} is not a folder: give another one"
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        return CheckResult(
            name, CheckLevel.PROBLEM, f"{existing} cannot be written: nothing can be recorded"
        )
    made = "" if existing == folder else ", and will be made"
    return CheckResult(name, CheckLevel.OK, f"{folder} can be written{made}")


def _check_spool_permissions(spool: Path) -> Iterator[CheckResult]:
    """Check that only the owner can access running recordings."""
    if not spool.is_dir():
        return
    mode = stat.S_IMODE(spool.stat().st_mode)
    if mode & _GROUP_AND_OTHER_BITS:
        text = (
            f"{spool} has mode {mode:o}, so others see what is recorded: "
            f"chmod 700 {display.shell_quoted_path(spool)}"
        )
        yield CheckResult(_SPOOL_CHECK, CheckLevel.WARNING, text)
    else:
        yield CheckResult(_SPOOL_CHECK, CheckLevel.OK, f"mode {mode:o}: its owner's alone")


def _check_abandoned_spools(cassettes: Path, spool: Path) -> Iterator[CheckResult]:
    try:
        paths = abandoned_spools(spool)
    except SpoolError as error:
        yield CheckResult(_SPOOL_CHECK, CheckLevel.PROBLEM, str(error))
        return
    own_count = other_count = unreadable_count = 0
    for path in paths:
        try:
            with open_spool(path) as spooled:
                is_own = is_for_library(spooled, cassettes)
        except CassetteError:
            unreadable_count += 1
        else:
            own_count, other_count = own_count + is_own, other_count + (not is_own)
    yield _abandoned_spools_result(cassettes, own_count, other_count, unreadable_count)


def _abandoned_spools_result(
    cassettes: Path, own_count: int, other_count: int, unreadable_count: int
) -> CheckResult:
    parts = [
        (
            own_count,
            f"of {cassettes}: llm-proxy recover --cassettes {display.shell_quoted_path(cassettes)}",
        ),
        (other_count, "of other libraries: llm-proxy recover names them"),
        (unreadable_count, "that cannot be read: llm-proxy recover names them"),
    ]
    items = [
        f"{display.count_with_noun(count, 'recording')} {label}" for count, label in parts if count
    ]
    if not items:
        return CheckResult(_SPOOL_CHECK, CheckLevel.OK, "no recording was broken off")
    return CheckResult(
        _SPOOL_CHECK, CheckLevel.WARNING, f"broken off by a crash: {'; '.join(items)}"
    )
