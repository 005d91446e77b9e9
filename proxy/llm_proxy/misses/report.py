"""Builds miss reports for pages, journals and CI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from llm_proxy.diff.json_leaves import RequestDifference
from llm_proxy.diff.word_diff import word_diff
from llm_proxy.errors import printable
from llm_proxy.matching import PLAIN, RuleSet
from llm_proxy.miss_report import MissDifference, MissedRequest, NearestCassette
from llm_proxy.misses.advice import DifferenceRemedy, miss_advice
from llm_proxy.misses.nearest import NearestMatch
from llm_proxy.routing import RoutedRequest

_PATH: Final = 200
"""Characters of a path, a model or a file that are told."""
_LONG: Final = 60
"""Characters from which texts are told by their words."""
_LEAD: Final = 3
"""The part of the room for a value that stands before the first difference."""


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """How much is told."""

    differences: int = 20
    value_chars: int = 300
    """Characters of a value."""
    diff_chars: int = 600
    """Characters of a word diff, about."""


KEPT: Final = ReportLimits()
"""What pages and journals tell: a thousand misses are kept."""
FULL: Final = ReportLimits(10_000, 100_000, 100_000)
"""All of it, for one who asks for one."""


def missed_request(routed: RoutedRequest) -> MissedRequest:
    """What a call asks."""
    return MissedRequest(
        method=routed.request.method,
        path=printable(routed.stored_request.path, _PATH),
        model=printable(routed.model, _PATH),
        provider=routed.provider,
        dialect=routed.dialect.name,
        session=routed.session,
        key=routed.key[:16],
    )


def nearest_report(
    near: NearestMatch, rules: RuleSet = PLAIN, limits: ReportLimits = KEPT
) -> tuple[NearestCassette, tuple[str, ...]]:
    """The nearest cassette with its differences, and the rules by which it would answer."""
    found = near.find_differences
    helps = miss_advice(near.requested_document, near.stored, found.differences, rules)
    told_of = tuple(
        _miss_difference(it, remedy, limits)
        for it, remedy in zip(found.differences[: limits.differences], helps.remedies, strict=False)
    )
    more = len(found.differences) + found.further_count - len(told_of)
    cassette_candidate = near.candidate
    nearest = NearestCassette(
        cassette_candidate.file, cassette_candidate.meta.session, near.similarity, told_of, more
    )
    return nearest, helps.rules


def truncate_differing(one: str, other: str, limit: int) -> tuple[str, str]:
    """Two values of at most `limit` characters, cut so that where they first differ is in view."""
    same = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        same += 1
    begin = max(0, same - limit // _LEAD) if max(len(one), len(other)) > limit else 0
    return _truncate(one, begin, limit), _truncate(other, begin, limit)


def _truncate(value: str, begin: int, limit: int) -> str:
    return ("…" if begin else "") + printable(value[begin : begin + limit + 1], limit)


def _miss_difference(
    request_difference: RequestDifference, remedy: DifferenceRemedy, limits: ReportLimits
) -> MissDifference:
    text, stored = truncate_differing(
        request_difference.requested, request_difference.stored, limits.value_chars
    )
    return MissDifference(
        path=printable(request_difference.path, _PATH),
        asked=text,
        stored=stored,
        diff=_word_diff_of(request_difference, limits.diff_chars),
        rule=remedy.rule,
        caution=remedy.warning,
    )


def _word_diff_of(request_difference: RequestDifference, room: int) -> str:
    """The words that differ; empty where one of the values is none, or both are short."""
    if (
        not (request_difference.requested and request_difference.stored)
        or max(len(request_difference.requested), len(request_difference.stored)) <= _LONG
    ):
        return ""
    texts = _text_of_value(request_difference.stored), _text_of_value(request_difference.requested)
    return word_diff(*texts, room)


def _text_of_value(value: str) -> str:
    """The text that a JSON value is, else the value."""
    try:
        text = orjson.loads(value)
    except ValueError:  # what stands beside the body is no JSON
        return value
    return text if isinstance(text, str) else value
