"""Checks of the library, and of the spools where recordings run."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from llm_proxy import display
from llm_proxy.cli.doctor.results import Level, Verdict
from llm_proxy.cli.library.cassettes import (
    count_otherwise_keyed,
    name_within,
    other_rules,
    read_all,
)
from llm_proxy.errors import CassetteError, SpoolError, UsageError
from llm_proxy.matching import PLAIN, Rules
from llm_proxy.outcome import outcome
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.spooling import abandoned, belongs, opened

_LIBRARY: Final = "library"
_SPOOL: Final = "spool"
_SHOWN: Final = 5
"""Files that a line names."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def verdicts(cassettes: Path, spool: Path, rules: Rules = PLAIN) -> Iterator[Verdict]:
    """All of them."""
    yield from _library(cassettes, rules)
    yield _writable(_LIBRARY, cassettes)
    yield _writable(_SPOOL, spool)
    yield from _mode(spool)
    yield from _leftovers(cassettes, spool)


def _library(root: Path, rules: Rules) -> Iterator[Verdict]:
    """Whether every cassette can be read, which are not complete, and which names are others'."""
    library = Library(root)
    try:
        library.refresh()
    except UsageError as error:
        yield Verdict(_LIBRARY, Level.PROBLEM, str(error))
        return
    if not library.files():
        text = f"{root} holds no cassettes yet: llm-proxy record -- COMMAND makes some"
        yield Verdict(_LIBRARY, Level.OK, text)
        return
    complete, partial, refused = _judged(library)
    if complete or partial:
        count = display.counted(complete + len(partial), "cassette")
        yield Verdict(_LIBRARY, Level.OK, f"{count} in {root}, each of them whole")
    if partial:
        names = _first_few(partial)
        text = f"{len(partial)} partial, which only replay --allow-partial plays: {names}"
        yield Verdict(_LIBRARY, Level.WARNING, text)
    if others := count_otherwise_keyed(library.files(), rules):
        yield Verdict(_LIBRARY, Level.WARNING, other_rules(others))
    for refusal in refused[:_SHOWN]:
        yield Verdict(_LIBRARY, Level.PROBLEM, f"{refusal}; delete it, or record it again")
    if len(refused) > _SHOWN:
        more = len(refused) - _SHOWN
        yield Verdict(_LIBRARY, Level.PROBLEM, f"{more} more are unreadable: llm-proxy verify")


def _judged(library: Library) -> tuple[int, list[str], list[CassetteError]]:
    """How many cassettes are complete, the names of those that are not, and what is unreadable."""
    complete = 0
    partial: list[str] = []
    refused: list[CassetteError] = []
    for path, it in read_all(library, library.files()):
        if isinstance(it, CassetteError):
            refused.append(it)
        elif outcome(it).complete:
            complete += 1
        else:
            partial.append(name_within(library, path))
    return complete, partial, refused


def _first_few(names: list[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _writable(name: str, folder: Path) -> Verdict:
    """Whether files can be made in a folder, or the folder itself where there is none."""
    there = next(it for it in (folder, *folder.absolute().parents) if it.exists())
    if not there.is_dir():
        return Verdict(name, Level.PROBLEM, f"{there} is not a folder: give another one")
    if not os.access(there, os.W_OK | os.X_OK):
        return Verdict(name, Level.PROBLEM, f"{there} cannot be written: nothing can be recorded")
    made = "" if there == folder else ", and will be made"
    return Verdict(name, Level.OK, f"{folder} can be written{made}")


def _mode(spool: Path) -> Iterator[Verdict]:
    """Whether running recordings are their owner's alone."""
    if not spool.is_dir():
        return
    mode = stat.S_IMODE(spool.stat().st_mode)
    if mode & _OTHERS:
        text = (
            f"{spool} has mode {mode:o}, so others see what is recorded: "
            f"chmod 700 {display.shell_word(spool)}"
        )
        yield Verdict(_SPOOL, Level.WARNING, text)
    else:
        yield Verdict(_SPOOL, Level.OK, f"mode {mode:o}: its owner's alone")


def _leftovers(cassettes: Path, spool: Path) -> Iterator[Verdict]:
    """What a crash left behind."""
    try:
        paths = abandoned(spool)
    except SpoolError as error:
        yield Verdict(_SPOOL, Level.PROBLEM, str(error))
        return
    ours = others = unreadable = 0
    for path in paths:
        try:
            with opened(path) as spooled:
                mine = belongs(spooled, cassettes)
        except CassetteError:
            unreadable += 1
        else:
            ours, others = ours + mine, others + (not mine)
    yield _leftover(cassettes, ours, others, unreadable)


def _leftover(cassettes: Path, ours: int, others: int, unreadable: int) -> Verdict:
    parts = [
        (ours, f"of {cassettes}: llm-proxy recover --cassettes {display.shell_word(cassettes)}"),
        (others, "of other libraries: llm-proxy recover names them"),
        (unreadable, "that cannot be read: llm-proxy recover names them"),
    ]
    said = [f"{display.counted(count, 'recording')} {what}" for count, what in parts if count]
    if not said:
        return Verdict(_SPOOL, Level.OK, "no recording was broken off")
    return Verdict(_SPOOL, Level.WARNING, f"broken off by a crash: {'; '.join(said)}")
