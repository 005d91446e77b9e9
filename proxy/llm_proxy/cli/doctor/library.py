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
    count_other_keys,
    name_in_library,
    other_rules_message,
    read_cassettes,
)
from llm_proxy.errors import CassetteError, SpoolError, UsageError
from llm_proxy.matching import PLAIN, RuleSet
from llm_proxy.outcome import outcome_of
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.spooling import abandoned_spools, belongs_to, open_spool

_LIBRARY: Final = "library"
_SPOOL: Final = "spool"
_SHOWN: Final = 5
"""Files that a line names."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def library_checks(cassettes: Path, spool: Path, rules: RuleSet = PLAIN) -> Iterator[CheckResult]:
    """All of them."""
    yield from _check_cassettes(cassettes, rules)
    yield _check_writable(_LIBRARY, cassettes)
    yield _check_writable(_SPOOL, spool)
    yield from _check_spool_mode(spool)
    yield from _check_leftovers(cassettes, spool)


def _check_cassettes(root: Path, rules: RuleSet) -> Iterator[CheckResult]:
    """Whether every cassette can be read, which are not complete, and which names are others'."""
    library = Library(root)
    try:
        library.refresh()
    except UsageError as error:
        yield CheckResult(_LIBRARY, CheckLevel.PROBLEM, str(error))
        return
    if not library.files():
        text = f"{root} holds no cassettes yet: llm-proxy record -- COMMAND makes some"
        yield CheckResult(_LIBRARY, CheckLevel.OK, text)
        return
    complete, partial, refused = _assess_completeness(library)
    if complete or partial:
        count = display.count_noun(complete + len(partial), "cassette")
        yield CheckResult(_LIBRARY, CheckLevel.OK, f"{count} in {root}, each of them whole")
    if partial:
        names = _first_names(partial)
        text = f"{len(partial)} partial, which only replay --allow-partial plays: {names}"
        yield CheckResult(_LIBRARY, CheckLevel.WARNING, text)
    if others := count_other_keys(library.files(), rules):
        yield CheckResult(_LIBRARY, CheckLevel.WARNING, other_rules_message(others))
    for refusal in refused[:_SHOWN]:
        yield CheckResult(_LIBRARY, CheckLevel.PROBLEM, f"{refusal}; delete it, or record it again")
    if len(refused) > _SHOWN:
        more = len(refused) - _SHOWN
        yield CheckResult(
            _LIBRARY, CheckLevel.PROBLEM, f"{more} more are unreadable: llm-proxy verify"
        )


def _assess_completeness(library: Library) -> tuple[int, list[str], list[CassetteError]]:
    """How many cassettes are complete, the names of those that are not, and what is unreadable."""
    complete = 0
    partial: list[str] = []
    refused: list[CassetteError] = []
    for path, cassette in read_cassettes(library, library.files()):
        if isinstance(cassette, CassetteError):
            refused.append(cassette)
        elif outcome_of(cassette).complete:
            complete += 1
        else:
            partial.append(name_in_library(library, path))
    return complete, partial, refused


def _first_names(names: list[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _check_writable(name: str, folder: Path) -> CheckResult:
    """Whether files can be made in a folder, or the folder itself where there is none."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        return CheckResult(name, CheckLevel.PROBLEM, f"{there} is not a folder: give another one")
    if not os.access(there, os.W_OK | os.X_OK):
        return CheckResult(
            name, CheckLevel.PROBLEM, f"{there} cannot be written: nothing can be recorded"
        )
    made = "" if there == folder else ", and will be made"
    return CheckResult(name, CheckLevel.OK, f"{folder} can be written{made}")


def _check_spool_mode(spool: Path) -> Iterator[CheckResult]:
    """Whether running recordings are their owner's alone."""
    if not spool.is_dir():
        return
    mode = stat.S_IMODE(spool.stat().st_mode)
    if mode & _OTHERS:
        text = (
            f"{spool} has mode {mode:o}, so others see what is recorded: "
            f"chmod 700 {display.shell_word(spool)}"
        )
        yield CheckResult(_SPOOL, CheckLevel.WARNING, text)
    else:
        yield CheckResult(_SPOOL, CheckLevel.OK, f"mode {mode:o}: its owner's alone")


def _check_leftovers(cassettes: Path, spool: Path) -> Iterator[CheckResult]:
    try:
        paths = abandoned_spools(spool)
    except SpoolError as error:
        yield CheckResult(_SPOOL, CheckLevel.PROBLEM, str(error))
        return
    ours = others = unreadable = 0
    for path in paths:
        try:
            with open_spool(path) as spooled:
                mine = belongs_to(spooled, cassettes)
        except CassetteError:
            unreadable += 1
        else:
            ours, others = ours + mine, others + (not mine)
    yield _leftover_verdict(cassettes, ours, others, unreadable)


def _leftover_verdict(cassettes: Path, ours: int, others: int, unreadable: int) -> CheckResult:
    parts = [
        (ours, f"of {cassettes}: llm-proxy recover --cassettes {display.shell_word(cassettes)}"),
        (others, "of other libraries: llm-proxy recover names them"),
        (unreadable, "that cannot be read: llm-proxy recover names them"),
    ]
    items = [f"{display.count_noun(count, 'recording')} {label}" for count, label in parts if count]
    if not items:
        return CheckResult(_SPOOL, CheckLevel.OK, "no recording was broken off")
    return CheckResult(_SPOOL, CheckLevel.WARNING, f"broken off by a crash: {'; '.join(items)}")
