"""How a pace is written: terms with commas between them, spaces and case as you like.

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
from llm_proxy.pacing.pace import Chunks, Instant, Modelled, Pace, Rate, Recorded
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


class _Wrong(Exception):
    """What is wrong, without the pace that it is wrong in."""


class _Unknown(Exception):
    """A term that is none."""


@dataclass(slots=True)
class _Terms:
    """The terms of a pace, as far as they were read."""

    when: Recorded | Instant | Rate | Modelled | None = None
    word: str = ""
    """How `when` was written."""
    spans: dict[str, Distribution] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    """`max_gap` and `chunks`."""


def parse_pace(text: str) -> Pace:
    """The pace that `text` spells.  Raises `UsageError` for what spells none, or makes no sense."""
    terms = _Terms()
    try:
        if len(text) > _LONGEST:
            _refuse(f"it has more than {_LONGEST} characters")
        written = _COMMA.split(_BLANKS.sub("", text.lower()))
        if len(written) > 1 and "" in written:
            _refuse("it has a comma too many")
        for term in written:
            _take(term, terms)
        return _made(terms)
    except _Unknown as unknown:
        term = str(unknown)
        why = f"{_shown(term)} is none of its terms; " if "," in text else ""
        why += f"use {_TIMES}, or {_OTHERS}"
    except _Wrong as wrong:
        why = str(wrong)
    raise UsageError(f"{printable(text, _SHOWN)!r} is no pace: {why}")


def _take(term: str, terms: _Terms) -> None:
    """Read one term."""
    name, equals, value = term.partition("=")
    if not equals:
        if terms.word:
            _refuse(f"it says {terms.word} and {term}, and one of them must do")
        terms.when, terms.word = _when(term), term
        return
    if name not in _NAMES:
        _refuse(f"there is no {_shown(name)}{_nearest(name, _NAMES)}")
    known = terms.spans if name in _LATENCY else terms.others
    key = name.replace("-", "_")
    if key in known:
        _refuse(f"it says {name} twice")
    try:
        known[key] = _value(name, value)
    except durations.WrongSpan as wrong:
        _refuse(f"{name}={_shown(value)}: {wrong}")


def _when(term: str) -> Recorded | Instant | Rate | Modelled:
    """The term that says when."""
    if term in {"recorded", "instant"}:
        return Recorded() if term == "recorded" else Instant()
    if speed := _SPEED.fullmatch(term):
        return Recorded(_positive(speed[1], term, "a speed"))
    if rate := _RATE.fullmatch(term):
        return Rate(_positive(rate[1], term, "a rate"))
    word, colon, name = term.partition(":")
    if colon and word == "profile":
        if name not in PROFILES:
            _refuse(f"there is no profile {_shown(name)}; there are {', '.join(PROFILES)}")
        return Modelled(profile=PROFILES[name])
    raise _Unknown(term)


def _value(name: str, value: str) -> Any:
    """What a term gives a name."""
    match name:
        case "chunks":
            return _chunks(value)
        case "max-gap":
            longest = durations.time(value)
            if longest == 0:
                raise durations.WrongSpan("no silence at all is instant; write a time, such as 2s")
            return longest
        case _:
            return durations.distribution(value)


def _chunks(value: str) -> Chunks:
    for word in _WORDS:
        if value == word:
            known: Chunks = word
            return known
    if re.fullmatch("[0-9]{1,10}", value) and 0 < int(value) <= _LARGEST:
        return int(value)
    raise durations.WrongSpan(f"use {', '.join(_WORDS)}, or a number of bytes above 0")


def _made(terms: _Terms) -> Pace:
    """The pace that all terms make together."""
    _check(terms)
    latency: dict[str, Any] = {**terms.spans}
    match terms.when:
        case Instant():
            return Instant(**terms.others)
        case Recorded(speed):
            return Recorded(speed, **terms.others)
        case Rate(tps):
            return Rate(tps, **latency, **terms.others)
        case Modelled(profile=profile):
            return Modelled(**latency, profile=profile, **terms.others)
        case None:
            return Modelled(**latency, **terms.others) if latency else Recorded(**terms.others)


def _check(terms: _Terms) -> None:
    """Refuse terms that make no sense together."""
    said = ", ".join(terms.spans)
    match terms.when:
        case Instant() if said or "max_gap" in terms.others:
            name = said or "max-gap"
            _refuse(f"instant waits for nothing, so {name} says nothing: leave one of them out")
        case Recorded() if said:
            _refuse(
                f"{terms.word} keeps the recorded times, and {said} gives others: leave one of "
                "them out"
            )
        case Rate() if "gap" in terms.spans:
            _refuse(f"{terms.word} and gap both say how fast tokens come: leave one of them out")
        case _:
            pass


def _positive(digits: str, term: str, what: str) -> float:
    value = round(float(digits), 6)
    if value == 0:
        _refuse(f"{term} is {what} of nothing; write one above 0")
    return value


def _nearest(name: str, names: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {found[0]}?" if found else f"; there are {', '.join(names)}"


def _shown(text: str) -> str:
    return printable(text, _SHOWN) or "''"


def _refuse(why: str) -> NoReturn:
    raise _Wrong(why)
