"""Parses durations: `300ms`, `0.3s`, `30..80ms`, `normal(50ms,10ms)`."""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.pacing.distributions import (
    MAX_DURATION_MS,
    DurationDistribution,
    FixedDistribution,
    LognormalDistribution,
    NormalDistribution,
    UniformDistribution,
)

NUMBER_PATTERN: Final = r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})"
"""A number, as a regular expression."""

_MS_PER_UNIT: Final = {"ms": 1.0, "s": 1000.0, "m": 60_000.0}
_TIME_PATTERN: Final = re.compile(rf"({NUMBER_PATTERN})(ms|s|m)?")
_RANGE_SEPARATOR: Final = ".."
_CALL_PATTERN: Final = re.compile(r"([a-z]+)\(([^(),]*),([^(),]*)\)")
_CALL_EXAMPLES: Final = "uniform(30ms,80ms), normal(50ms,10ms), lognormal(40ms,0.5)"
_MAX_SIGMA: Final = 5.0
"""Beyond this sigma, draws of a lognormal distribution are either about 0 or a day."""


class InvalidDuration(Exception):
    """The text is no valid duration; the message names the problem and a valid form."""


def parse_distribution(text: str) -> DurationDistribution:
    """Parses a fixed duration, a range or a distribution.  Raises `InvalidDuration`."""
    minimum, separator, maximum = text.partition(_RANGE_SEPARATOR)
    if separator:
        unit = re.search("[a-z]*$", maximum)
        assert unit is not None  # noqa: S101 # it may match nothing
        is_bare = re.fullmatch(NUMBER_PATTERN, minimum) is not None
        return _parse_uniform(minimum + unit[0] if is_bare else minimum, maximum)
    call = _CALL_PATTERN.fullmatch(text)
    match call and call.groups():
        case None:
            return FixedDistribution(parse_time_ms(text))
        case ("uniform", first, second):
            return _parse_uniform(first, second)
        case ("normal", first, second):
            return NormalDistribution(parse_time_ms(first), parse_time_ms(second))
        case ("lognormal", first, second):
            return LognormalDistribution(parse_time_ms(first), _parse_sigma(second))
        case _:
            raise InvalidDuration(f"there is no such distribution; there are {_CALL_EXAMPLES}")


def parse_time_ms(text: str) -> float:
    """Parses a duration such as `300ms` or `0.3s` to ms.  Raises `InvalidDuration`."""
    time_match = _TIME_PATTERN.fullmatch(text)
    if time_match is None:
        raise InvalidDuration(f"this is no time; write 300ms, 0.3s, 30..80ms, {_CALL_EXAMPLES}")
    digits, unit = time_match.groups()
    if unit is None:
        raise InvalidDuration(f"the unit is missing; write {digits}ms, or {digits}s")
    ms = round(float(digits) * _MS_PER_UNIT[unit], 6)
    if ms > MAX_DURATION_MS:
        raise InvalidDuration("this is longer than a day, which is the most")
    return ms


def _parse_uniform(minimum: str, maximum: str) -> UniformDistribution:
    min_ms, max_ms = parse_time_ms(minimum), parse_time_ms(maximum)
    if min_ms > max_ms:
        raise InvalidDuration(f"the first is more than the second; write {maximum}..{minimum}")
    return UniformDistribution(min_ms, max_ms)


def _parse_sigma(text: str) -> float:
    if re.fullmatch(NUMBER_PATTERN, text) is None or float(text) > _MAX_SIGMA:
        raise InvalidDuration(
            f"the second number of a lognormal is its sigma, from 0 to {_MAX_SIGMA:g}, without a "
            "unit; write lognormal(40ms,0.5)"
        )
    return round(float(text), 6)
