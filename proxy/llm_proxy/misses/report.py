"""Reports misses: values for error pages and journals, text for exceptions and logs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.diff.documents import RequestDifference
from llm_proxy.diff.words import common_prefix_length, format_word_diff
from llm_proxy.display import count_with_noun, format_percent
from llm_proxy.errors import CassetteError, Miss, printable_excerpt
from llm_proxy.matching import RuleSet
from llm_proxy.miss_report import MissDifference, MissedRequest, MissReport, NearestCassette
from llm_proxy.misses.advice import MAX_ADVISED_DIFFERENCES, DifferenceRemedy, miss_advice
from llm_proxy.misses.nearest import NearestSearchResult, RankedCandidate
from llm_proxy.routing import RoutedRequest

_MAX_PATH_CHARS: Final = 200
"""Maximum length of a path or a model name in a report."""
_SHORT_VALUE_MAX_CHARS: Final = 60
"""Up to this length both values are shown in full, without a word diff."""
_LEADING_CONTEXT_DIVISOR: Final = 3
"""A truncated value keeps `max_chars` divided by this before the first difference."""
_MAX_SHORT_DIFFERENCES: Final = 3
"""Maximum number of differences in an exception message, if they fit."""
_MAX_DIFFERENCES_CHARS: Final = 280
"""Maximum length of these differences together; the first is always included."""
_MAX_RULES_CHARS: Final = 130
"""Maximum length of the suggested rules in an exception message; longer ones are left out."""
_MAX_VALUE_CHARS: Final = 60
"""Maximum length of a value in a line of text."""
_MAX_SHORT_DIFF_CHARS: Final = 190
"""Maximum length of a word diff in an exception message."""
_MAX_NAME_CHARS: Final = 100
"""Maximum length of a path, a model name or a session name in a line of text."""
_MAX_FILE_CHARS: Final = 250
"""Maximum length of a file path."""
_MAX_LINE_CHARS: Final = 700
"""Approximate maximum length of a line of the detailed text."""


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """Size limits of a miss report."""

    max_differences: int = 20
    max_value_chars: int = 300
    """Maximum length of one value."""
    max_diff_chars: int = 600
    """Approximate maximum length of one word diff."""


STORED_LIMITS: Final = ReportLimits()
"""Limits for error pages and journals; a journal keeps a thousand misses."""
FULL_LIMITS: Final = ReportLimits(10_000, 100_000, 100_000)
"""Limits for a single miss that is shown in full on demand."""


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
    missed = _missed_request(routed)
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
    count = search_result.candidate_count
    headline = f"no cassette for {summary} (key {routed.key[:16]}, session {routed.session})"
    if search_result.nearest is None:
        none_similar = f"nothing like it in {library_path} ({count_with_noun(count, 'cassette')})"
        detail = f"{headline}: {none_similar}"
        return Miss(
            f"no cassette for {summary}: {none_similar}. Record it with llm-proxy record.",
            detail,
            MissReport(missed, "unlike", detail, looked_at=count),
        )
    nearest, rules = _nearest_report(search_result.nearest, routed.match_rules, limits)
    if not nearest.differences:
        reason = unplayable_reason
        if nearest.session not in (routed.session, DEFAULT_SESSION):
            session = printable_excerpt(nearest.session, _MAX_NAME_CHARS)
            reason = f"belongs to session {session} (asked: {routed.session})"
        file = printable_excerpt(nearest.file, _MAX_FILE_CHARS)
        detail = (
            f"no playable cassette for {summary}: {file} answers this very request but {reason}"
        )
        report = MissReport(missed, "unplayable", detail, nearest, count)
        return Miss(f"{detail}.", detail, report)
    detail = "\n".join([headline, *_nearest_detail_lines(nearest, rules)])
    return Miss(
        _exception_message(summary, nearest, rules),
        detail,
        MissReport(missed, "differs", detail, nearest, count, rules),
    )


def used_up_takes_miss(routed: RoutedRequest, take_count: int, request_number: int) -> Miss:
    """The miss of a request whose takes have all been played."""
    recorded_takes = count_with_noun(take_count, "take is", "takes are")
    label = (
        f"request {request_number} for {request_summary(routed)}, of which {recorded_takes} "
        "recorded"
    )
    detail = f"no take left: {label}"
    report = MissReport(_missed_request(routed), "used_up", detail)
    return Miss(f"no take left: this is {label} (--after-last fail).", detail, report)


def unusable_cassette_report(routed: RoutedRequest, error: CassetteError) -> MissReport:
    """The report of a request whose cassette is corrupt or invalid."""
    nearest = NearestCassette(error.file, routed.session, 1.0)
    return MissReport(_missed_request(routed), "unusable", str(error), nearest)


def _missed_request(routed: RoutedRequest) -> MissedRequest:
    return MissedRequest(
        method=routed.request.method,
        path=printable_excerpt(routed.stored_request.path, _MAX_PATH_CHARS),
        model=printable_excerpt(routed.model, _MAX_PATH_CHARS),
        provider=routed.provider,
        dialect=routed.dialect.name,
        session=routed.session,
        key=routed.key[:16],
    )


def _nearest_report(
    candidate: RankedCandidate, rules: RuleSet, limits: ReportLimits
) -> tuple[NearestCassette, tuple[str, ...]]:
    """The nearest cassette with its differences, and the rules that would make it match."""
    found = candidate.document_differences
    advice = miss_advice(
        candidate.requested_key_document, candidate.stored_key_document, found.differences, rules
    )
    shown = tuple(
        _miss_difference(difference, remedy, limits)
        for difference, remedy in zip(
            found.differences[: limits.max_differences], advice.remedies, strict=False
        )
    )
    omitted_count = len(found.differences) + found.further_count - len(shown)
    cassette = candidate.cassette
    nearest = NearestCassette(
        cassette.file, cassette.meta.session, candidate.similarity, shown, omitted_count
    )
    return nearest, advice.rules


def _miss_difference(
    difference: RequestDifference, remedy: DifferenceRemedy, limits: ReportLimits
) -> MissDifference:
    requested, stored = difference.requested, difference.stored
    shown = _truncate_differing(requested, stored, limits.max_value_chars)
    word_diff = ""
    if requested and stored and max(len(requested), len(stored)) > _SHORT_VALUE_MAX_CHARS:
        word_diff = format_word_diff(
            _decode_json_string(stored), _decode_json_string(requested), limits.max_diff_chars
        )
    path = printable_excerpt(difference.path, _MAX_PATH_CHARS)
    return MissDifference(path, *shown, word_diff, remedy.rule, remedy.warning)


def _truncate_differing(left: str, right: str, max_chars: int) -> tuple[str, str]:
    """Both values cut to `max_chars`, keeping their first difference visible."""
    start = 0
    if max(len(left), len(right)) > max_chars:
        context_chars = max_chars // _LEADING_CONTEXT_DIVISOR
        start = max(0, common_prefix_length(left, right) - context_chars)
    first, second = (
        ("…" if start else "") + printable_excerpt(value[start : start + max_chars + 1], max_chars)
        for value in (left, right)
    )
    return first, second


def _decode_json_string(value: str) -> str:
    """The content of a JSON string; any other value unchanged."""
    try:
        text = orjson.loads(value)
    except ValueError:  # leaves outside of the body are not JSON
        return value
    return text if isinstance(text, str) else value


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


def difference_line(
    difference: MissDifference,
    max_value_chars: int = _MAX_VALUE_CHARS,
    max_diff_chars: int = _MAX_LINE_CHARS,
) -> str:
    """A difference in one line: its path and both values, or their word diff."""
    path = printable_excerpt(difference.path, _MAX_NAME_CHARS)
    if not difference.stored:
        requested = printable_excerpt(difference.asked, max_value_chars)
        return f"{path}: {requested}, not in the cassette"
    if not difference.asked:
        stored = printable_excerpt(difference.stored, max_value_chars)
        return f"{path}: missing, cassette has {stored}"
    if difference.diff and len(difference.diff) <= max_diff_chars:
        return f"{path}: {printable_excerpt(difference.diff, max_diff_chars)}"
    requested, stored = _truncate_differing(difference.asked, difference.stored, max_value_chars)
    return f"{path}: {requested}, cassette has {stored}"


def remedy_line(difference: MissDifference) -> str:
    """The rule that ignores a difference, in one line; empty if there is none."""
    if not difference.rule:
        return ""
    caution = f" ({difference.caution})" if difference.caution else ""
    return f"would not count with {format_normalise_options([difference.rule])}{caution}"


def _nearest_detail_lines(nearest: NearestCassette, rules: Sequence[str]) -> list[str]:
    """Lines: the nearest cassette, its differences, and the rules that would make it match."""
    lines = [f"nearest: {nearest_summary(nearest)}"]
    # With more differences, it is a different request.
    shows_rules = len(nearest.differences) + nearest.more <= MAX_ADVISED_DIFFERENCES
    for difference in nearest.differences:
        lines.append(f"  {printable_excerpt(difference_line(difference), _MAX_LINE_CHARS)}")
        if shows_rules and (remedy := remedy_line(difference)):
            lines.append(f"  {printable_excerpt(f'  {remedy}', _MAX_LINE_CHARS)}")
    if nearest.more:
        lines.append(f"  and {nearest.more} more")
    options = format_normalise_options(rules)
    lines.append(f"it answers with: {options}" if options else "record it with llm-proxy record")
    return lines


def _exception_message(summary: str, nearest: NearestCassette, rules: Sequence[str]) -> str:
    """One line, which SDKs show as the message of their exception."""
    first, *others = (
        difference_line(difference, max_diff_chars=_MAX_SHORT_DIFF_CHARS)
        for difference in nearest.differences[:_MAX_SHORT_DIFFERENCES]
    )
    shown = [first]
    for other in others:
        if sum(map(len, shown)) + len(other) <= _MAX_DIFFERENCES_CHARS:
            shown.append(other)
    differences = "; ".join(shown)
    if more := len(nearest.differences) + nearest.more - len(shown):
        differences += f"; and {more} more"
    if "[-" in differences or "{+" in differences:
        differences += " ([-cassette-] {+request+})"
    file = printable_excerpt(nearest.file, _MAX_FILE_CHARS)
    options = format_normalise_options(rules)
    alternative = "or make the request the same"
    if options and len(options) <= _MAX_RULES_CHARS:
        alternative = f"or let that not count: {options}"
    return (
        f"no cassette for {summary}. Nearest is {file}, which differs at {differences}. "
        f"Record it with llm-proxy record, {alternative}."
    )
