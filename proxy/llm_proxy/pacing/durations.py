"""How spans of time are written: `300ms`, `0.3s`, `30..80ms`, `normal(50ms,10ms)`."""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.pacing.distributions import (
    LONGEST,
    Distribution,
    Fixed,
    Lognormal,
    Normal,
    Uniform,
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


class WrongSpan(Exception):
    """What is wrong with a span, and what would be right."""


def distribution(text: str) -> Distribution:
    """The distribution that a span spells.  Raises `WrongSpan`."""
    least, dots, most = text.partition(_RANGE)
    if dots:
        unit = re.search("[a-z]*$", most)
        assert unit is not None  # noqa: S101 # it may match nothing
        is_bare = re.fullmatch(NUMBER, least) is not None
        return _uniform(least + unit[0] if is_bare else least, most)
    call = _CALL.fullmatch(text)
    match call and call.groups():
        case None:
            return Fixed(time(text))
        case ("uniform", first, second):
            return _uniform(first, second)
        case ("normal", first, second):
            return Normal(time(first), time(second))
        case ("lognormal", first, second):
            return Lognormal(time(first), _sigma(second))
        case _:
            raise WrongSpan(f"there is no such distribution; there are {_CALLS}")


def time(text: str) -> float:
    """The time in ms that a text spells.  Raises `WrongSpan`."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise WrongSpan(f"this is no time; write 300ms, 0.3s, 30..80ms, {_CALLS}")
    value, unit = found.groups()
    if unit is None:
        raise WrongSpan(f"the unit is missing; write {value}ms, or {value}s")
    ms = round(float(value) * _UNITS[unit], 6)
    if ms > LONGEST:
        raise WrongSpan("this is longer than a day, which is the most")
    return ms


def _uniform(first: str, second: str) -> Uniform:
    least, most = time(first), time(second)
    if least > most:
        raise WrongSpan(f"the first is more than the second; write {second}..{first}")
    return Uniform(least, most)


def _sigma(text: str) -> float:
    if re.fullmatch(NUMBER, text) is None or float(text) > _STEEPEST:
        raise WrongSpan(
            f"the second number of a lognormal is its sigma, from 0 to {_STEEPEST:g}, without a "
            "unit; write lognormal(40ms,0.5)"
        )
    return round(float(text), 6)
