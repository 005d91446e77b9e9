"""Builds miss reports for error pages, journals and CI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from llm_proxy.diff.json_leaves import RequestDifference
from llm_proxy.diff.word_diff import format_word_diff
from llm_proxy.errors import printable_excerpt
from llm_proxy.matching import NO_RULES, RuleSet
from llm_proxy.miss_report import MissDifference, MissedRequest, NearestCassette
from llm_proxy.misses.advice import DifferenceRemedy, miss_advice
from llm_proxy.misses.nearest import RankedCandidate
from llm_proxy.routing import RoutedRequest

_MAX_PATH_CHARS: Final = 200
"""Maximum length of a path or a model name."""
_SHORT_VALUE_MAX_CHARS: Final = 60
"""Up to this length both values are shown in full, without a word diff."""
_LEADING_CONTEXT_DIVISOR: Final = 3
"""A truncated value keeps `max_chars` divided by this before the first difference."""


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


def missed_request(routed: RoutedRequest) -> MissedRequest:
    """The request fields of a miss report."""
    return MissedRequest(
        method=routed.request.method,
        path=printable_excerpt(routed.stored_request.path, _MAX_PATH_CHARS),
        model=printable_excerpt(routed.model, _MAX_PATH_CHARS),
        provider=routed.provider,
        dialect=routed.dialect.name,
        session=routed.session,
        key=routed.key[:16],
    )


def nearest_report(
    candidate: RankedCandidate, rules: RuleSet = NO_RULES, limits: ReportLimits = STORED_LIMITS
) -> tuple[NearestCassette, tuple[str, ...]]:
    """The nearest cassette with its differences, and the rules that would make it match."""
    document_differences = candidate.document_differences
    advice = miss_advice(
        candidate.requested_key_document,
        candidate.stored_key_document,
        document_differences.differences,
        rules,
    )
    shown_differences = tuple(
        _miss_difference(difference, remedy, limits)
        for difference, remedy in zip(
            document_differences.differences[: limits.max_differences],
            advice.remedies,
            strict=False,
        )
    )
    omitted_count = (
        len(document_differences.differences)
        + document_differences.further_count
        - len(shown_differences)
    )
    cassette = candidate.cassette
    nearest = NearestCassette(
        cassette.file, cassette.meta.session, candidate.similarity, shown_differences, omitted_count
    )
    return nearest, advice.rules


def truncate_differing(left: str, right: str, max_chars: int) -> tuple[str, str]:
    """Both values cut to `max_chars`, keeping their first difference visible."""
    common_length = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        common_length += 1
    start = (
        max(0, common_length - max_chars // _LEADING_CONTEXT_DIVISOR)
        if max(len(left), len(right)) > max_chars
        else 0
    )
    return _truncate(left, start, max_chars), _truncate(right, start, max_chars)


def _truncate(value: str, start: int, max_chars: int) -> str:
    return ("…" if start else "") + printable_excerpt(
        value[start : start + max_chars + 1], max_chars
    )


def _miss_difference(
    request_difference: RequestDifference, remedy: DifferenceRemedy, limits: ReportLimits
) -> MissDifference:
    requested, stored = truncate_differing(
        request_difference.requested, request_difference.stored, limits.max_value_chars
    )
    return MissDifference(
        path=printable_excerpt(request_difference.path, _MAX_PATH_CHARS),
        asked=requested,
        stored=stored,
        diff=_diff_long_texts(request_difference, limits.max_diff_chars),
        rule=remedy.rule,
        caution=remedy.warning,
    )


def _diff_long_texts(request_difference: RequestDifference, max_chars: int) -> str:
    """The word diff; empty if one of the values is missing or both are short."""
    if (
        not (request_difference.requested and request_difference.stored)
        or max(len(request_difference.requested), len(request_difference.stored))
        <= _SHORT_VALUE_MAX_CHARS
    ):
        return ""
    texts = (
        _decode_json_string(request_difference.stored),
        _decode_json_string(request_difference.requested),
    )
    return format_word_diff(*texts, max_chars)


def _decode_json_string(value: str) -> str:
    """The content of a JSON string; any other value unchanged."""
    try:
        text = orjson.loads(value)
    except ValueError:  # leaves outside of the body are not JSON
        return value
    return text if isinstance(text, str) else value
