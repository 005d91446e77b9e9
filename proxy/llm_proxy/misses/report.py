"""What a miss tells: values for pages, journals and reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from llm_proxy.diff.json_leaves import Difference
from llm_proxy.diff.words import word_diff
from llm_proxy.errors import printable
from llm_proxy.matching import PLAIN, Rules
from llm_proxy.miss_report import Asked, Differing, NearestCassette
from llm_proxy.misses.advice import Remedy, advice
from llm_proxy.misses.nearest import Near
from llm_proxy.routing import Call

_PATH: Final = 200
"""Characters of a path, a model or a file that are told."""
_LONG: Final = 60
"""Characters from which texts are told by their words."""
_LEAD: Final = 3
"""The part of the room for a value that stands before the first difference."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is told."""

    differences: int = 20
    value: int = 300
    """Characters of a value."""
    diff: int = 600
    """Characters of a word diff, about."""


KEPT: Final = Limits()
"""What pages and journals tell: a thousand misses are kept."""
FULL: Final = Limits(10_000, 100_000, 100_000)
"""All of it, for one who asks for one."""


def asked_of(call: Call) -> Asked:
    """What a call asks."""
    return Asked(
        method=call.request.method,
        path=printable(call.stored.path, _PATH),
        model=printable(call.model, _PATH),
        provider=call.provider,
        dialect=call.dialect.name,
        session=call.session,
        key=call.key[:16],
    )


def told(
    near: Near, rules: Rules = PLAIN, limits: Limits = KEPT
) -> tuple[NearestCassette, tuple[str, ...]]:
    """The nearest cassette with its differences, and the rules by which it would answer."""
    found = near.found
    helps = advice(near.asked, near.stored, found.told, rules)
    told_of = tuple(
        _differing(it, remedy, limits)
        for it, remedy in zip(found.told[: limits.differences], helps.remedies, strict=False)
    )
    more = len(found.told) + found.more - len(told_of)
    it = near.candidate
    nearest = NearestCassette(it.file, it.meta.session, near.nearness, told_of, more)
    return nearest, helps.rules


def cut_apart(one: str, other: str, limit: int) -> tuple[str, str]:
    """Two values of at most `limit` characters, cut so that where they first differ is in view."""
    same = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        same += 1
    begin = max(0, same - limit // _LEAD) if max(len(one), len(other)) > limit else 0
    return _cut(one, begin, limit), _cut(other, begin, limit)


def _cut(value: str, begin: int, limit: int) -> str:
    return ("…" if begin else "") + printable(value[begin : begin + limit + 1], limit)


def _differing(it: Difference, remedy: Remedy, limits: Limits) -> Differing:
    asked, stored = cut_apart(it.asked, it.stored, limits.value)
    return Differing(
        path=printable(it.path, _PATH),
        asked=asked,
        stored=stored,
        diff=_diff(it, limits.diff),
        rule=remedy.rule,
        caution=remedy.caution,
    )


def _diff(it: Difference, room: int) -> str:
    """The words that differ; empty where one of the values is none, or both are short."""
    if not (it.asked and it.stored) or max(len(it.asked), len(it.stored)) <= _LONG:
        return ""
    texts = _text(it.stored), _text(it.asked)
    return word_diff(*texts, room)


def _text(value: str) -> str:
    """The text that a JSON value is, else the value."""
    try:
        text = orjson.loads(value)
    except ValueError:  # what stands beside the body is no JSON
        return value
    return text if isinstance(text, str) else value
