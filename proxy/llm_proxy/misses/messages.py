"""What a miss says: short enough for an exception, long enough to act on in a log."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.display import counted, percent
from llm_proxy.errors import CassetteError, Miss, printable
from llm_proxy.miss_report import Differing, Missed, NearestCassette
from llm_proxy.misses.advice import MOST
from llm_proxy.misses.nearest import Nearest
from llm_proxy.misses.report import KEPT, Limits, asked_of, cut_apart, told
from llm_proxy.routing import Call

_SHOWN: Final = 3
"""Differences that the short message names, where they have room."""
_ROOM: Final = 280
"""Characters that they have, together; the first is named in any case."""
_ADVICE: Final = 130
"""Characters that the rules have."""
_VALUE: Final = 60
"""Characters of a value that are shown."""
_DIFF: Final = 190
"""Characters of a word diff that the short message shows."""
_NAME: Final = 100
"""Characters of a path or a model that are shown."""
_FILE: Final = 250
"""Characters of a file's path that are shown."""
_RECORD: Final = "record it with llm-proxy record"
_LINE: Final = 700
"""Characters of a line of the long message, about."""


def no_cassette(
    call: Call,
    found: Nearest | None,
    library: str,
    unplayable: str = "",
    limits: Limits = KEPT,
) -> Miss:
    """The miss of a request that has no cassette.

    `unplayable` says why the nearest one is not played, where nothing differs from it.
    """
    about = asked_of(call)
    asked = asked_for(call)
    library = printable(library, _FILE)
    if found is None:
        said = f"no cassette for {asked}: the library {library} is empty"
        return Miss(
            f"no cassette for {asked}: {library} holds none. Record it with llm-proxy record.",
            said,
            Missed(about, "empty", said),
        )
    if found.near is None:
        nothing = f"nothing like it in {library} ({counted(found.looked_at, 'cassette')})"
        said = f"no cassette for {asked} (key {call.key[:16]}, session {call.session}): {nothing}"
        return Miss(
            f"no cassette for {asked}: {nothing}. Record it with llm-proxy record.",
            said,
            Missed(about, "unlike", said, looked_at=found.looked_at),
        )
    nearest, rules = told(found.near, call.rules, limits)
    if not nearest.differences:
        return _unplayable(call, nearest, unplayable, found.looked_at)
    said = "\n".join(
        [
            f"no cassette for {asked} (key {call.key[:16]}, session {call.session})",
            *nearest_lines(nearest, rules),
        ]
    )
    short = _short(asked, nearest, rules)
    return Miss(short, said, Missed(about, "differs", said, nearest, found.looked_at, rules))


def _unplayable(call: Call, nearest: NearestCassette, why: str, looked_at: int) -> Miss:
    """The miss of a request that is recorded, in a way that is not played."""
    file = printable(nearest.file, _FILE)
    if nearest.session not in (call.session, DEFAULT_SESSION):
        session = printable(nearest.session, _NAME)
        why = f"belongs to session {session} (asked: {call.session})"
    said = f"no playable cassette for {asked_for(call)}: {file} answers this very request but {why}"
    missed = Missed(asked_of(call), "unplayable", said, nearest, looked_at)
    return Miss(f"{said}.", said, missed)


def used_up(call: Call, takes: int, ordinal: int) -> Miss:
    """The miss of a request that was recorded less often than it is asked."""
    there = counted(takes, "take is", "takes are")
    what = f"request {ordinal} for {asked_for(call)}, of which {there} recorded"
    said = f"no take left: {what}"
    missed = Missed(asked_of(call), "used_up", said)
    return Miss(f"no take left: this is {what} (--after-last fail).", said, missed)


def unusable(call: Call, error: CassetteError) -> Missed:
    """What is told of a request whose cassette cannot be trusted."""
    nearest = NearestCassette(error.file, call.session, 1.0)
    return Missed(asked_of(call), "unusable", str(error), nearest)


def asked_for(call: Call) -> str:
    """What was asked, in a few words."""
    model = printable(call.model, _NAME)
    path = printable(call.stored.path, _NAME)
    return f"{call.request.method} {path}" + (f" ({model})" if model else "")


def options(rules: Sequence[str]) -> str:
    """Rules as they are pasted behind a command."""
    return " ".join(f"--normalise {shlex.quote(rule)}" for rule in rules)


def nearest_words(it: NearestCassette) -> str:
    """The nearest cassette in a few words."""
    return f"{printable(it.file, _FILE)} ({percent(it.likeness)} alike)"


def nearest_lines(it: NearestCassette, rules: Sequence[str]) -> list[str]:
    """The nearest cassette, what differs, and what helps, line by line."""
    lines = [f"nearest: {nearest_words(it)}"]
    advised = len(it.differences) + it.more <= MOST  # with more, it is another request
    for each in it.differences:
        told_of = _lines(each) if advised else [difference(each)]
        lines += [f"  {printable(line, _LINE)}" for line in told_of]
    if it.more:
        lines.append(f"  and {it.more} more")
    lines.append(f"it answers with: {options(rules)}" if rules else _RECORD)
    return lines


def _lines(it: Differing) -> list[str]:
    """A difference, and the rule that would make it not count."""
    lines = [difference(it)]
    if it.rule:
        caution = f" ({it.caution})" if it.caution else ""
        lines.append(f"  would not count with {options([it.rule])}{caution}")
    return lines


def difference(it: Differing, value: int = _VALUE, diff: int = _LINE) -> str:
    """A difference in one line."""
    path = printable(it.path, _NAME)
    if not it.stored:
        return f"{path}: {printable(it.asked, value)}, not in the cassette"
    if not it.asked:
        return f"{path}: missing, cassette has {printable(it.stored, value)}"
    if it.diff and len(it.diff) <= diff:
        return f"{path}: {printable(it.diff, diff)}"
    asked, stored = cut_apart(it.asked, it.stored, value)
    return f"{path}: {asked}, cassette has {stored}"


def _short(asked: str, nearest: NearestCassette, rules: Sequence[str]) -> str:
    """What an SDK's exception says."""
    file = printable(nearest.file, _FILE)
    helps = options(rules)
    if not helps or len(helps) > _ADVICE:
        helps = ""
    then = f"or let that not count: {helps}" if helps else "or make the request the same"
    shown = _differences(nearest)
    marks = " ([-cassette-] {+request+})" if any(it in shown for it in ("[-", "{+")) else ""
    return (
        f"no cassette for {asked}. Nearest is {file}, which differs at {shown}{marks}. "
        f"Record it with llm-proxy record, {then}."
    )


def _differences(nearest: NearestCassette) -> str:
    """The first few in one line."""
    first, *others = (difference(it, diff=_DIFF) for it in nearest.differences[:_SHOWN])
    shown = [first]
    for each in others:
        if sum(map(len, shown)) + len(each) <= _ROOM:
            shown.append(each)
    more = len(nearest.differences) + nearest.more - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")
