"""Parses durations: `300ms`, `0.3s`, `30..80ms`, `normal(50ms,10ms)`."""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.pacing.distributions import (
    LONGEST,
    Distribution,
    FixedSpan,
    LognormalSpan,
    NormalSpan,
    UniformSpan,
)

NUMBER: Final = r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})"
"""A number, as a regular expression."""

_UNITS: Final = {"ms": 1.0, "s": 1000.0, "m": 60_000.0}
_TIME: Final = re.compile(rf"({NUMBER})(ms|s|m)?")
_RANGE: Final = ".."
_CALL: Final = re.compile(r"([a-z]+)\(([^(),]*),([^(),]*)\)")
_CALLS: Final = "uniform(30ms,80ms), normal(50ms,10ms), lognormal(40ms,0.5)"
_STEEPEST: Final = 5.0
"""Beyond this sigma a lognormal is 0 or a day."""


class InvalidSpan(Exception):
    """What is wrong with a span, and what would be right."""


def parse_distribution(text: str) -> Distribution:
    """The distribution that a span spells.  Raises `InvalidSpan`."""
    least, dots, most = text.partition(_RANGE)
    if dots:
        unit = re.search("[a-z]*$", most)
        assert unit is not None  # noqa: S101 # it may match nothing
        is_bare = re.fullmatch(NUMBER, least) is not None
        return _parse_uniform(least + unit[0] if is_bare else least, most)
    call = _CALL.fullmatch(text)
    match call and call.groups():
        case None:
            return FixedSpan(parse_time_ms(text))
        case ("uniform", first, second):
            return _parse_uniform(first, second)
        case ("normal", first, second):
            return NormalSpan(parse_time_ms(first), parse_time_ms(second))
        case ("lognormal", first, second):
            return LognormalSpan(parse_time_ms(first), _parse_sigma(second))
        case _:
            raise InvalidSpan(f"there is no such distribution; there are {_CALLS}")


def parse_time_ms(text: str) -> float:
    """The time in ms that a text spells.  Raises `InvalidSpan`."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise InvalidSpan(f"this is no time; write 300ms, 0.3s, 30..80ms, {_CALLS}")
    value, unit = found.groups()
    if unit is None:
        raise InvalidSpan(f"the unit is missing; write {value}ms, or {value}s")
    ms = round(float(value) * _UNITS[unit], 6)
    if ms > LONGEST:
        raise InvalidSpan("this is longer than a day, which is the most")
    return ms


def _parse_uniform(first: str, second: str) -> UniformSpan:
    least, most = parse_time_ms(first), parse_time_ms(second)
    if least > most:
        raise InvalidSpan(f"the first is more than the second; write {second}..{first}")
    return UniformSpan(least, most)


def _parse_sigma(text: str) -> float:
    if re.fullmatch(NUMBER, text) is None or float(text) > _STEEPEST:
        raise InvalidSpan(
            f"the second number of a lognormal is its sigma, from 0 to {_STEEPEST:g}, without a "
            "unit; write lognormal(40ms,0.5)"
        )
    return round(float(text), 6)
