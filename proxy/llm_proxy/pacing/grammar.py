"""Parses paces: comma-separated terms.

recorded | instant | 4x | 50tps | profile:NAME          the timing, at most one of them
ttft=DURATION   prefill=DURATION   gap=DURATION          a latency model
max-gap=2s                                               the longest pause
chunks=recorded | event | token | coalesced | N          the pieces; N bytes each

DURATION: 300ms | 30..80ms | uniform(30ms,80ms) | normal(50ms,10ms) | lognormal(40ms,0.5)
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, get_args

from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.pacing import durations
from llm_proxy.pacing.distributions import DurationDistribution
from llm_proxy.pacing.durations import NUMBER_PATTERN
from llm_proxy.pacing.pace import (
    Chunks,
    InstantPace,
    ModelledPace,
    Pace,
    RecordedPace,
    TokenRatePace,
)
from llm_proxy.pacing.profiles import PROFILES

_MAX_SHOWN_CHARS: Final = 100
"""The most characters of a pace that an error message contains."""
_MAX_PACE_CHARS: Final = 1000
_MAX_PIECE_BYTES: Final = 2**31
_TIMING_TERM_EXAMPLES: Final = (
    "recorded, instant, a speed such as 4x or 0.5x, a rate such as 50tps, profile:NAME"
)
_OTHER_TERM_EXAMPLES: Final = "ttft=300ms, prefill=0.5ms, gap=30..80ms, max-gap=2s, chunks=event"
_LATENCY_TERM_NAMES: Final = ("ttft", "prefill", "gap")
_TERM_NAMES: Final = (*_LATENCY_TERM_NAMES, "max-gap", "chunks")
_SPEED_PATTERN: Final = re.compile(rf"({NUMBER_PATTERN})x")
_RATE_PATTERN: Final = re.compile(rf"({NUMBER_PATTERN})tps")
_REMOVABLE_SPACE_PATTERN: Final = re.compile(
    r"\s+(?=\.\.)|(?<=\.\.)\s+|\s+(?![0-9.])|(?<![0-9.])\s+"
)
"""All white space except between two numbers."""
_COMMA_PATTERN: Final = re.compile(r",(?![^()]*\))")
"""A comma outside of parentheses."""
_CHUNK_MODES: Final = get_args(get_args(Chunks)[0])
"""The values of `chunks` other than a number."""


class _InvalidPace(Exception):
    """The problem with a pace, in a message that does not quote the pace."""


class _UnknownTerm(Exception):
    """The term is not part of the grammar; its message is the term."""


@dataclass(slots=True)
class _PaceTerms:
    """The terms of a pace that were parsed by now."""

    timing_pace: RecordedPace | InstantPace | TokenRatePace | ModelledPace | None = None
    timing_text: str = ""
    """The text of `timing_pace`; empty where it is None."""
    latency_terms: dict[str, DurationDistribution] = field(default_factory=dict)
    other_terms: dict[str, Any] = field(default_factory=dict)
    """The values of `max_gap` and `chunks`."""


def parse_pace(text: str) -> Pace:
    """Parses a pace.  Raises `UsageError` for invalid terms, and for terms that exclude others."""
    terms = _PaceTerms()
    try:
        if len(text) > _MAX_PACE_CHARS:
            _raise_invalid(f"it has more than {_MAX_PACE_CHARS} characters")
        raw_terms = _COMMA_PATTERN.split(_REMOVABLE_SPACE_PATTERN.sub("", text.lower()))
        if len(raw_terms) > 1 and "" in raw_terms:
            _raise_invalid("it has a comma too many")
        for term in raw_terms:
            _parse_term(term, terms)
        return _build_pace(terms)
    except _UnknownTerm as unknown:
        term = str(unknown)
        reason = f"{_displayable_excerpt(term)} is none of its terms; " if "," in text else ""
        reason += f"use {_TIMING_TERM_EXAMPLES}, or {_OTHER_TERM_EXAMPLES}"
    except _InvalidPace as invalid:
        reason = str(invalid)
    raise UsageError(f"{printable_excerpt(text, _MAX_SHOWN_CHARS)!r} is no pace: {reason}")


def _parse_term(term: str, terms: _PaceTerms) -> None:
    name, equals, value = term.partition("=")
    if not equals:
        if terms.timing_text:
            _raise_invalid(f"it says {terms.timing_text} and {term}, and one of them must do")
        terms.timing_pace, terms.timing_text = _parse_timing_term(term), term
        return
    if name not in _TERM_NAMES:
        _raise_invalid(
            f"there is no {_displayable_excerpt(name)}{_name_suggestion(name, _TERM_NAMES)}"
        )
    parsed_terms = terms.latency_terms if name in _LATENCY_TERM_NAMES else terms.other_terms
    key = name.replace("-", "_")
    if key in parsed_terms:
        _raise_invalid(f"it says {name} twice")
    try:
        parsed_terms[key] = _parse_value(name, value)
    except durations.InvalidDuration as invalid:
        _raise_invalid(f"{name}={_displayable_excerpt(value)}: {invalid}")


def _parse_timing_term(term: str) -> RecordedPace | InstantPace | TokenRatePace | ModelledPace:
    if term in {"recorded", "instant"}:
        return RecordedPace() if term == "recorded" else InstantPace()
    if speed := _SPEED_PATTERN.fullmatch(term):
        return RecordedPace(_parse_positive(speed[1], term, "a speed"))
    if rate := _RATE_PATTERN.fullmatch(term):
        return TokenRatePace(_parse_positive(rate[1], term, "a rate"))
    prefix, colon, name = term.partition(":")
    if colon and prefix == "profile":
        if name not in PROFILES:
            _raise_invalid(
                f"there is no profile {_displayable_excerpt(name)}; there are {', '.join(PROFILES)}"
            )
        return ModelledPace(profile=PROFILES[name])
    raise _UnknownTerm(term)


def _parse_value(name: str, value: str) -> Any:
    match name:
        case "chunks":
            return _parse_chunk_setting(value)
        case "max-gap":
            max_gap_ms = durations.parse_time_ms(value)
            if max_gap_ms == 0:
                raise durations.InvalidDuration(
                    "no silence at all is instant; write a time, such as 2s"
                )
            return max_gap_ms
        case _:
            return durations.parse_distribution(value)


def _parse_chunk_setting(value: str) -> Chunks:
    for mode in _CHUNK_MODES:
        if value == mode:
            chunks: Chunks = mode
            return chunks
    if re.fullmatch("[0-9]{1,10}", value) and 0 < int(value) <= _MAX_PIECE_BYTES:
        return int(value)
    raise durations.InvalidDuration(f"use {', '.join(_CHUNK_MODES)}, or a number of bytes above 0")


def _build_pace(terms: _PaceTerms) -> Pace:
    _check_terms(terms)
    latency_arguments: dict[str, Any] = {**terms.latency_terms}
    match terms.timing_pace:
        case InstantPace():
            return InstantPace(**terms.other_terms)
        case RecordedPace(speed):
            return RecordedPace(speed, **terms.other_terms)
        case TokenRatePace(tps):
            return TokenRatePace(tps, **latency_arguments, **terms.other_terms)
        case ModelledPace(profile=profile):
            return ModelledPace(**latency_arguments, profile=profile, **terms.other_terms)
        case None:
            return (
                ModelledPace(**latency_arguments, **terms.other_terms)
                if latency_arguments
                else RecordedPace(**terms.other_terms)
            )


def _check_terms(terms: _PaceTerms) -> None:
    latency_names = ", ".join(terms.latency_terms)
    match terms.timing_pace:
        case InstantPace() if latency_names or "max_gap" in terms.other_terms:
            ineffective_names = latency_names or "max-gap"
            _raise_invalid(
                f"instant waits for nothing, so {ineffective_names} says nothing: leave one of "
                "them out"
            )
        case RecordedPace() if latency_names:
            _raise_invalid(
                f"{terms.timing_text} keeps the recorded times, and {latency_names} gives "
                "others: leave "
                f"one of "
                "them out"
            )
        case TokenRatePace() if "gap" in terms.latency_terms:
            _raise_invalid(
                f"{terms.timing_text} and gap both say how fast tokens come: leave one of them out"
            )
        case _:
            pass


def _parse_positive(digits: str, term: str, kind: str) -> float:
    value = round(float(digits), 6)
    if value == 0:
        _raise_invalid(f"{term} is {kind} of nothing; write one above 0")
    return value


def _name_suggestion(name: str, names: Iterable[str]) -> str:
    close_matches = difflib.get_close_matches(name, list(names), 1)
    return (
        f"; did you mean {close_matches[0]}?"
        if close_matches
        else f"; there are {', '.join(names)}"
    )


def _displayable_excerpt(text: str) -> str:
    return printable_excerpt(text, _MAX_SHOWN_CHARS) or "''"


def _raise_invalid(reason: str) -> NoReturn:
    raise _InvalidPace(reason)
