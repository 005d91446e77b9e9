"""Formats misses: one-line messages for exceptions, detailed text for logs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.display import count_with_noun, format_percent
from llm_proxy.errors import CassetteError, Miss, printable_excerpt
from llm_proxy.miss_report import MissDifference, MissReport, NearestCassette
from llm_proxy.misses.advice import MAX_ADVISED_DIFFERENCES
from llm_proxy.misses.nearest import NearestSearchResult
from llm_proxy.misses.report import (
    STORED_LIMITS,
    ReportLimits,
    missed_request,
    nearest_report,
    truncate_differing,
)
from llm_proxy.routing import RoutedRequest

_MAX_SHORT_DIFFERENCES: Final = 3
"""Maximum number of differences in an exception message, if they fit."""
_MAX_DIFFERENCES_CHARS: Final = 280
"""Maximum length of these differences together; the first is always included."""
_MAX_RULES_CHARS: Final = 130
"""Maximum length of the suggested rules in an exception message; longer ones are left out."""
_MAX_VALUE_CHARS: Final = 60
"""Maximum length of a value."""
_MAX_SHORT_DIFF_CHARS: Final = 190
"""Maximum length of a word diff in an exception message."""
_MAX_NAME_CHARS: Final = 100
"""Maximum length of a path, a model name or a session name."""
_MAX_FILE_CHARS: Final = 250
"""Maximum length of a file path."""
_RECORD_ADVICE: Final = "record it with llm-proxy record"
_MAX_LINE_CHARS: Final = 700
"""Approximate maximum length of a line of the detailed text."""


def no_cassette_miss(
    routed: RoutedRequest,
    search_result: NearestSearchResult | None,
    library_path: str,
    unplayable_reason: str = "",
    limits: ReportLimits = STORED_LIMITS,
) -> Miss:
    """The miss of a request that no cassette matches.

    `unplayable_reason` is why the nearest cassette is not played although nothing differs.
    """
    missed = missed_request(routed)
    summary = request_summary(routed)
    library_path = printable_excerpt(library_path, _MAX_FILE_CHARS)
    if search_result is None:
        detail = f"no cassette for {summary}: the library {library_path} is empty"
        return Miss(
            f"no cassette for {summary}: {library_path} holds none. Record it with llm-proxy "
            "record.",
            detail,
            MissReport(missed, "empty", detail),
        )
    if search_result.nearest is None:
        none_similar = (
            f"nothing like it in {library_path} "
            f"({count_with_noun(search_result.candidate_count, 'cassette')})"
        )
        detail = (
            f"no cassette for {summary} (key {routed.key[:16]}, session {routed.session}): "
            f"{none_similar}"
        )
        return Miss(
            f"no cassette for {summary}: {none_similar}. Record it with llm-proxy record.",
            detail,
            MissReport(missed, "unlike", detail, looked_at=search_result.candidate_count),
        )
    nearest, rules = nearest_report(search_result.nearest, routed.match_rules, limits)
    if not nearest.differences:
        return _unplayable_cassette_miss(
            routed, nearest, unplayable_reason, search_result.candidate_count
        )
    detail = "\n".join(
        [
            f"no cassette for {summary} (key {routed.key[:16]}, session {routed.session})",
            *nearest_detail_lines(nearest, rules),
        ]
    )
    message = _exception_message(summary, nearest, rules)
    return Miss(
        message,
        detail,
        MissReport(missed, "differs", detail, nearest, search_result.candidate_count, rules),
    )


def _unplayable_cassette_miss(
    routed: RoutedRequest, nearest: NearestCassette, reason: str, candidate_count: int
) -> Miss:
    file = printable_excerpt(nearest.file, _MAX_FILE_CHARS)
    if nearest.session not in (routed.session, DEFAULT_SESSION):
        session = printable_excerpt(nearest.session, _MAX_NAME_CHARS)
        reason = f"belongs to session {session} (asked: {routed.session})"
    summary = request_summary(routed)
    detail = f"no playable cassette for {summary}: {file} answers this very request but {reason}"
    report = MissReport(missed_request(routed), "unplayable", detail, nearest, candidate_count)
    return Miss(f"{detail}.", detail, report)


def used_up_takes_miss(routed: RoutedRequest, take_count: int, request_number: int) -> Miss:
    """The miss of a request whose takes have all been played."""
    recorded_takes = count_with_noun(take_count, "take is", "takes are")
    label = (
        f"request {request_number} for {request_summary(routed)}, of which {recorded_takes} "
        "recorded"
    )
    detail = f"no take left: {label}"
    report = MissReport(missed_request(routed), "used_up", detail)
    return Miss(f"no take left: this is {label} (--after-last fail).", detail, report)


def unusable_cassette_report(routed: RoutedRequest, error: CassetteError) -> MissReport:
    """The report of a request whose cassette is corrupt or invalid."""
    nearest = NearestCassette(error.file, routed.session, 1.0)
    return MissReport(missed_request(routed), "unusable", str(error), nearest)


def request_summary(routed: RoutedRequest) -> str:
    """Method, path and model in one line."""
    model = printable_excerpt(routed.model, _MAX_NAME_CHARS)
    path = printable_excerpt(routed.stored_request.path, _MAX_NAME_CHARS)
    return f"{routed.request.method} {path}" + (f" ({model})" if model else "")


def format_normalise_options(rules: Sequence[str]) -> str:
    """Rules as `--normalise` options, quoted for a shell."""
    return " ".join(f"--normalise {shlex.quote(rule)}" for rule in rules)


def nearest_summary(nearest_cassette: NearestCassette) -> str:
    """The file and similarity of the nearest cassette, in one line."""
    similarity = format_percent(nearest_cassette.likeness)
    return f"{printable_excerpt(nearest_cassette.file, _MAX_FILE_CHARS)} ({similarity} alike)"


def nearest_detail_lines(nearest_cassette: NearestCassette, rules: Sequence[str]) -> list[str]:
    """Lines: the nearest cassette, its differences, and the rules that would make it match."""
    lines = [f"nearest: {nearest_summary(nearest_cassette)}"]
    shows_rules = (
        len(nearest_cassette.differences) + nearest_cassette.more <= MAX_ADVISED_DIFFERENCES
    )  # with more, it is a different request
    for difference in nearest_cassette.differences:
        difference_lines = (
            _difference_lines(difference) if shows_rules else [difference_line(difference)]
        )
        lines += [f"  {printable_excerpt(line, _MAX_LINE_CHARS)}" for line in difference_lines]
    if nearest_cassette.more:
        lines.append(f"  and {nearest_cassette.more} more")
    lines.append(f"it answers with: {format_normalise_options(rules)}" if rules else _RECORD_ADVICE)
    return lines


def _difference_lines(miss_difference: MissDifference) -> list[str]:
    lines = [difference_line(miss_difference)]
    if miss_difference.rule:
        caution = f" ({miss_difference.caution})" if miss_difference.caution else ""
        lines.append(
            f"  would not count with {format_normalise_options([miss_difference.rule])}{caution}"
        )
    return lines


def difference_line(
    miss_difference: MissDifference,
    max_value_chars: int = _MAX_VALUE_CHARS,
    max_diff_chars: int = _MAX_LINE_CHARS,
) -> str:
    """A difference in one line: its path and both values, or their word diff."""
    path = printable_excerpt(miss_difference.path, _MAX_NAME_CHARS)
    if not miss_difference.stored:
        return (
            f"{path}: {printable_excerpt(miss_difference.asked, max_value_chars)}, not in the "
            "cassette"
        )
    if not miss_difference.asked:
        return (
            f"{path}: missing, cassette has "
            f"{printable_excerpt(miss_difference.stored, max_value_chars)}"
        )
    if miss_difference.diff and len(miss_difference.diff) <= max_diff_chars:
        return f"{path}: {printable_excerpt(miss_difference.diff, max_diff_chars)}"
    requested, stored = truncate_differing(
        miss_difference.asked, miss_difference.stored, max_value_chars
    )
    return f"{path}: {requested}, cassette has {stored}"


def _exception_message(summary: str, nearest: NearestCassette, rules: Sequence[str]) -> str:
    """One line, which SDKs show as the message of their exception."""
    file = printable_excerpt(nearest.file, _MAX_FILE_CHARS)
    options = format_normalise_options(rules)
    if not options or len(options) > _MAX_RULES_CHARS:
        options = ""
    alternative = f"or let that not count: {options}" if options else "or make the request the same"
    differences = _differences_summary(nearest)
    legend = (
        " ([-cassette-] {+request+})" if any(mark in differences for mark in ("[-", "{+")) else ""
    )
    return (
        f"no cassette for {summary}. Nearest is {file}, which differs at {differences}{legend}. "
        f"Record it with llm-proxy record, {alternative}."
    )


def _differences_summary(nearest: NearestCassette) -> str:
    """The first few differences in one line."""
    first, *others = (
        difference_line(difference, max_diff_chars=_MAX_SHORT_DIFF_CHARS)
        for difference in nearest.differences[:_MAX_SHORT_DIFFERENCES]
    )
    shown = [first]
    for other in others:
        if sum(map(len, shown)) + len(other) <= _MAX_DIFFERENCES_CHARS:
            shown.append(other)
    more = len(nearest.differences) + nearest.more - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")
