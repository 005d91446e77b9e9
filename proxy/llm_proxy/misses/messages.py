"""The messages of misses: short for exceptions, detailed for logs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.display import count_noun, format_percent
from llm_proxy.errors import CassetteError, Miss, printable
from llm_proxy.miss_report import MissDifference, MissReport, NearestCassette
from llm_proxy.misses.advice import MOST
from llm_proxy.misses.nearest import NearestSearch
from llm_proxy.misses.report import (
    KEPT,
    ReportLimits,
    missed_request,
    nearest_report,
    truncate_differing,
)
from llm_proxy.routing import RoutedRequest

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


def miss_without_cassette(
    routed: RoutedRequest,
    found: NearestSearch | None,
    library: str,
    unplayable: str = "",
    limits: ReportLimits = KEPT,
) -> Miss:
    """The miss of a request that has no cassette.

    `unplayable` says why the nearest one is not played, where nothing differs from it.
    """
    about = missed_request(routed)
    text = request_summary(routed)
    library = printable(library, _FILE)
    if found is None:
        content = f"no cassette for {text}: the library {library} is empty"
        return Miss(
            f"no cassette for {text}: {library} holds none. Record it with llm-proxy record.",
            content,
            MissReport(about, "empty", content),
        )
    if found.match is None:
        nothing = f"nothing like it in {library} ({count_noun(found.candidates_seen, 'cassette')})"
        content = (
            f"no cassette for {text} (key {routed.key[:16]}, session {routed.session}): {nothing}"
        )
        return Miss(
            f"no cassette for {text}: {nothing}. Record it with llm-proxy record.",
            content,
            MissReport(about, "unlike", content, looked_at=found.candidates_seen),
        )
    nearest, rules = nearest_report(found.match, routed.rules, limits)
    if not nearest.differences:
        return _miss_unplayable(routed, nearest, unplayable, found.candidates_seen)
    content = "\n".join(
        [
            f"no cassette for {text} (key {routed.key[:16]}, session {routed.session})",
            *nearest_detail_lines(nearest, rules),
        ]
    )
    short = _short_message(text, nearest, rules)
    return Miss(
        short, content, MissReport(about, "differs", content, nearest, found.candidates_seen, rules)
    )


def _miss_unplayable(
    routed: RoutedRequest, nearest: NearestCassette, why: str, looked_at: int
) -> Miss:
    file = printable(nearest.file, _FILE)
    if nearest.session not in (routed.session, DEFAULT_SESSION):
        session = printable(nearest.session, _NAME)
        why = f"belongs to session {session} (asked: {routed.session})"
    summary = request_summary(routed)
    text = f"no playable cassette for {summary}: {file} answers this very request but {why}"
    missed = MissReport(missed_request(routed), "unplayable", text, nearest, looked_at)
    return Miss(f"{text}.", text, missed)


def miss_used_up(routed: RoutedRequest, takes: int, ordinal: int) -> Miss:
    """The miss of a request that was recorded less often than it is asked."""
    there = count_noun(takes, "take is", "takes are")
    label = f"request {ordinal} for {request_summary(routed)}, of which {there} recorded"
    content = f"no take left: {label}"
    missed = MissReport(missed_request(routed), "used_up", content)
    return Miss(f"no take left: this is {label} (--after-last fail).", content, missed)


def miss_unusable(routed: RoutedRequest, error: CassetteError) -> MissReport:
    """What is told of a request whose cassette cannot be trusted."""
    nearest = NearestCassette(error.file, routed.session, 1.0)
    return MissReport(missed_request(routed), "unusable", str(error), nearest)


def request_summary(routed: RoutedRequest) -> str:
    """What was asked, in a few words."""
    model = printable(routed.model, _NAME)
    path = printable(routed.stored_request.path, _NAME)
    return f"{routed.request.method} {path}" + (f" ({model})" if model else "")


def rule_options(rules: Sequence[str]) -> str:
    """Rules as they are pasted behind a command."""
    return " ".join(f"--normalise {shlex.quote(rule)}" for rule in rules)


def nearest_summary(nearest_cassette: NearestCassette) -> str:
    """The nearest cassette in a few words."""
    similarity = format_percent(nearest_cassette.likeness)
    return f"{printable(nearest_cassette.file, _FILE)} ({similarity} alike)"


def nearest_detail_lines(nearest_cassette: NearestCassette, rules: Sequence[str]) -> list[str]:
    """The nearest cassette, what differs, and what helps, line by line."""
    lines = [f"nearest: {nearest_summary(nearest_cassette)}"]
    advised = (
        len(nearest_cassette.differences) + nearest_cassette.more <= MOST
    )  # with more, it is another request
    for difference in nearest_cassette.differences:
        told_of = _difference_lines(difference) if advised else [difference_line(difference)]
        lines += [f"  {printable(line, _LINE)}" for line in told_of]
    if nearest_cassette.more:
        lines.append(f"  and {nearest_cassette.more} more")
    lines.append(f"it answers with: {rule_options(rules)}" if rules else _RECORD)
    return lines


def _difference_lines(miss_difference: MissDifference) -> list[str]:
    lines = [difference_line(miss_difference)]
    if miss_difference.rule:
        caution = f" ({miss_difference.caution})" if miss_difference.caution else ""
        lines.append(f"  would not count with {rule_options([miss_difference.rule])}{caution}")
    return lines


def difference_line(miss_difference: MissDifference, value: int = _VALUE, diff: int = _LINE) -> str:
    """A difference in one line."""
    path = printable(miss_difference.path, _NAME)
    if not miss_difference.stored:
        return f"{path}: {printable(miss_difference.asked, value)}, not in the cassette"
    if not miss_difference.asked:
        return f"{path}: missing, cassette has {printable(miss_difference.stored, value)}"
    if miss_difference.diff and len(miss_difference.diff) <= diff:
        return f"{path}: {printable(miss_difference.diff, diff)}"
    text, stored = truncate_differing(miss_difference.asked, miss_difference.stored, value)
    return f"{path}: {text}, cassette has {stored}"


def _short_message(text: str, nearest: NearestCassette, rules: Sequence[str]) -> str:
    """What an SDK's exception says."""
    file = printable(nearest.file, _FILE)
    helps = rule_options(rules)
    if not helps or len(helps) > _ADVICE:
        helps = ""
    then = f"or let that not count: {helps}" if helps else "or make the request the same"
    shown = _differences_summary(nearest)
    marks = " ([-cassette-] {+request+})" if any(item in shown for item in ("[-", "{+")) else ""
    return (
        f"no cassette for {text}. Nearest is {file}, which differs at {shown}{marks}. "
        f"Record it with llm-proxy record, {then}."
    )


def _differences_summary(nearest: NearestCassette) -> str:
    """The first few in one line."""
    first, *others = (
        difference_line(difference, diff=_DIFF) for difference in nearest.differences[:_SHOWN]
    )
    shown = [first]
    for other in others:
        if sum(map(len, shown)) + len(other) <= _ROOM:
            shown.append(other)
    more = len(nearest.differences) + nearest.more - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")
