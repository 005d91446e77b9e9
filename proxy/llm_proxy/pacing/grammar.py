"""Parses the pace grammar: comma-separated terms.

recorded | instant | 4x | 50tps | profile:NAME       when, at most one of them
ttft=SPAN   prefill=SPAN   gap=SPAN                   a model of latency
max-gap=2s                                            the longest silence
chunks=recorded | event | token | coalesced | N       in which pieces

SPAN: 300ms | 30..80ms | uniform(30ms,80ms) | normal(50ms,10ms) | lognormal(40ms,0.5)
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, get_args

from llm_proxy.errors import UsageError, printable
from llm_proxy.pacing import durations
from llm_proxy.pacing.distributions import Distribution
from llm_proxy.pacing.durations import NUMBER
from llm_proxy.pacing.pace import (
    Chunks,
    InstantPace,
    ModelledPace,
    Pace,
    RecordedPace,
    TokenRatePace,
)
from llm_proxy.pacing.profiles import PROFILES

_SHOWN: Final = 100
"""Characters of a pace in a message."""
_LONGEST: Final = 1000
"""Characters of a pace."""
_LARGEST: Final = 2**31
"""Bytes of a piece."""
_TIMES: Final = "recorded, instant, a speed such as 4x or 0.5x, a rate such as 50tps, profile:NAME"
_OTHERS: Final = "ttft=300ms, prefill=0.5ms, gap=30..80ms, max-gap=2s, chunks=event"
_LATENCY: Final = ("ttft", "prefill", "gap")
_NAMES: Final = (*_LATENCY, "max-gap", "chunks")
_SPEED: Final = re.compile(rf"({NUMBER})x")
_RATE: Final = re.compile(rf"({NUMBER})tps")
_BLANKS: Final = re.compile(r"\s+(?=\.\.)|(?<=\.\.)\s+|\s+(?![0-9.])|(?<![0-9.])\s+")
"""White space, but for that which keeps two numbers apart."""
_COMMA: Final = re.compile(r",(?![^()]*\))")
"""One that no parentheses hold."""
_WORDS: Final = get_args(get_args(Chunks)[0])
"""What `chunks` may say, beside a number."""


class _InvalidPace(Exception):
    """What is wrong, without the pace that it is wrong in."""


class _UnknownTerm(Exception):
    """A term that is none."""


@dataclass(slots=True)
class _PaceTerms:
    """The terms of a pace, as far as they were read."""

    timing_term: RecordedPace | InstantPace | TokenRatePace | ModelledPace | None = None
    timing_text: str = ""
    """How `when` was written."""
    spans: dict[str, Distribution] = field(default_factory=dict)
    other_terms: dict[str, Any] = field(default_factory=dict)
    """`max_gap` and `chunks`."""


def parse_pace(text: str) -> Pace:
    """The pace that `text` spells.  Raises `UsageError` for what spells none, or makes no sense."""
    terms = _PaceTerms()
    try:
        if len(text) > _LONGEST:
            _raise_refusal(f"it has more than {_LONGEST} characters")
        written = _COMMA.split(_BLANKS.sub("", text.lower()))
        if len(written) > 1 and "" in written:
            _raise_refusal("it has a comma too many")
        for term in written:
            _parse_term(term, terms)
        return _build_pace(terms)
    except _UnknownTerm as unknown:
        term = str(unknown)
        why = f"{_quoted(term)} is none of its terms; " if "," in text else ""
        why += f"use {_TIMES}, or {_OTHERS}"
    except _InvalidPace as wrong:
        why = str(wrong)
    raise UsageError(f"{printable(text, _SHOWN)!r} is no pace: {why}")


def _parse_term(term: str, terms: _PaceTerms) -> None:
    name, equals, value = term.partition("=")
    if not equals:
        if terms.timing_text:
            _raise_refusal(f"it says {terms.timing_text} and {term}, and one of them must do")
        terms.timing_term, terms.timing_text = _parse_timing_term(term), term
        return
    if name not in _NAMES:
        _raise_refusal(f"there is no {_quoted(name)}{_nearest_name(name, _NAMES)}")
    known = terms.spans if name in _LATENCY else terms.other_terms
    key = name.replace("-", "_")
    if key in known:
        _raise_refusal(f"it says {name} twice")
    try:
        known[key] = _parse_value(name, value)
    except durations.InvalidSpan as wrong:
        _raise_refusal(f"{name}={_quoted(value)}: {wrong}")


def _parse_timing_term(term: str) -> RecordedPace | InstantPace | TokenRatePace | ModelledPace:
    if term in {"recorded", "instant"}:
        return RecordedPace() if term == "recorded" else InstantPace()
    if speed := _SPEED.fullmatch(term):
        return RecordedPace(_parse_positive(speed[1], term, "a speed"))
    if rate := _RATE.fullmatch(term):
        return TokenRatePace(_parse_positive(rate[1], term, "a rate"))
    word, colon, name = term.partition(":")
    if colon and word == "profile":
        if name not in PROFILES:
            _raise_refusal(f"there is no profile {_quoted(name)}; there are {', '.join(PROFILES)}")
        return ModelledPace(profile=PROFILES[name])
    raise _UnknownTerm(term)


def _parse_value(name: str, value: str) -> Any:
    match name:
        case "chunks":
            return _parse_chunks(value)
        case "max-gap":
            longest = durations.parse_time_ms(value)
            if longest == 0:
                raise durations.InvalidSpan(
                    "no silence at all is instant; write a time, such as 2s"
                )
            return longest
        case _:
            return durations.parse_distribution(value)


def _parse_chunks(value: str) -> Chunks:
    for word in _WORDS:
        if value == word:
            known: Chunks = word
            return known
    if re.fullmatch("[0-9]{1,10}", value) and 0 < int(value) <= _LARGEST:
        return int(value)
    raise durations.InvalidSpan(f"use {', '.join(_WORDS)}, or a number of bytes above 0")


def _build_pace(terms: _PaceTerms) -> Pace:
    _check_terms(terms)
    latency: dict[str, Any] = {**terms.spans}
    match terms.timing_term:
        case InstantPace():
            return InstantPace(**terms.other_terms)
        case RecordedPace(speed):
            return RecordedPace(speed, **terms.other_terms)
        case TokenRatePace(tps):
            return TokenRatePace(tps, **latency, **terms.other_terms)
        case ModelledPace(profile=profile):
            return ModelledPace(**latency, profile=profile, **terms.other_terms)
        case None:
            return (
                ModelledPace(**latency, **terms.other_terms)
                if latency
                else RecordedPace(**terms.other_terms)
            )


def _check_terms(terms: _PaceTerms) -> None:
    text = ", ".join(terms.spans)
    match terms.timing_term:
        case InstantPace() if text or "max_gap" in terms.other_terms:
            name = text or "max-gap"
            _raise_refusal(
                f"instant waits for nothing, so {name} says nothing: leave one of them out"
            )
        case RecordedPace() if text:
            _raise_refusal(
                f"{terms.timing_text} keeps the recorded times, and {text} gives others: leave "
                f"one of "
                "them out"
            )
        case TokenRatePace() if "gap" in terms.spans:
            _raise_refusal(
                f"{terms.timing_text} and gap both say how fast tokens come: leave one of them out"
            )
        case _:
            pass


def _parse_positive(digits: str, term: str, label: str) -> float:
    value = round(float(digits), 6)
    if value == 0:
        _raise_refusal(f"{term} is {label} of nothing; write one above 0")
    return value


def _nearest_name(name: str, names: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {found[0]}?" if found else f"; there are {', '.join(names)}"


def _quoted(text: str) -> str:
    return printable(text, _SHOWN) or "''"


def _raise_refusal(why: str) -> NoReturn:
    raise _InvalidPace(why)
