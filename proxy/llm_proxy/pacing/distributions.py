"""Distributions of durations: their syntax, and draws by seeded chance.

`300ms`, `0.3s`, `30..80ms` and `normal(50ms,10ms)` are durations.

A draw is the quantile of a distribution at a uniform random number from 0 up to 1 (inverse
transform sampling), so each draw takes exactly one random number.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

MAX_DURATION_MS: Final = 86_400_000.0
"""No duration is longer than a day, neither configured nor drawn."""
_MIN_PROBABILITY: Final = 2.0**-54
"""The least probability for which the normal distributions are evaluated: less than any uniform
draw but 0, and half of the distance of the largest draw to 1."""
_DECIMALS: Final = 6
NUMBER_PATTERN: Final = r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})"
"""A number, as a regular expression."""

_MS_PER_UNIT: Final = {"ms": 1.0, "s": 1000.0, "m": 60_000.0}
_TIME_PATTERN: Final = re.compile(rf"({NUMBER_PATTERN})(ms|s|m)?")
_CALL_PATTERN: Final = re.compile(r"([a-z]+)\(([^(),]*),([^(),]*)\)")
_CALL_EXAMPLES: Final = "uniform(30ms,80ms), normal(50ms,10ms), lognormal(40ms,0.5)"
_MAX_SIGMA: Final = 5.0
"""Beyond this sigma, draws of a lognormal distribution are either about 0 or a day."""


@dataclass(frozen=True, slots=True)
class FixedDistribution:
    """Always the same duration."""

    ms: float

    def __str__(self) -> str:
        return format_duration(self.ms)


@dataclass(frozen=True, slots=True)
class UniformDistribution:
    """A uniform distribution between two durations."""

    min_ms: float
    max_ms: float

    def __str__(self) -> str:
        return f"{format_number(self.min_ms)}..{format_number(self.max_ms)}ms"


@dataclass(frozen=True, slots=True)
class NormalDistribution:
    """A normal distribution; draws below 0 become 0."""

    mean_ms: float
    deviation_ms: float

    def __str__(self) -> str:
        return f"normal({format_duration(self.mean_ms)},{format_duration(self.deviation_ms)})"


@dataclass(frozen=True, slots=True)
class LognormalDistribution:
    """A lognormal distribution: half of the draws are below the median, a few far above it."""

    median_ms: float
    sigma: float
    """The standard deviation of the natural logarithm."""

    def __str__(self) -> str:
        return f"lognormal({format_duration(self.median_ms)},{format_number(self.sigma)})"


@dataclass(frozen=True, slots=True)
class MeasuredDistribution:
    """A measured distribution: quantiles at equal steps from 0 to 1, linearly interpolated."""

    quantiles_ms: tuple[float, ...]
    """At least two, ascending."""

    def __str__(self) -> str:
        return "as measured"


DurationDistribution = (
    FixedDistribution
    | UniformDistribution
    | NormalDistribution
    | LognormalDistribution
    | MeasuredDistribution
)

ZERO_DURATION: Final = FixedDistribution(0.0)
"""Always 0."""


def draw_ms(distribution: DurationDistribution, probability: float) -> float:
    """The quantile in ms at this probability (0 up to 1), limited to 0 up to a day."""
    return min(max(_quantile_ms(distribution, probability), 0.0), MAX_DURATION_MS)


def _quantile_ms(distribution: DurationDistribution, probability: float) -> float:
    match distribution:
        case FixedDistribution(ms):
            return ms
        case UniformDistribution(least, most):
            return min(least + (most - least) * probability, most)
        case NormalDistribution(mean, deviation):
            return mean + deviation * _standard_normal_quantile(probability)
        case LognormalDistribution(median, sigma):
            return median * math.exp(sigma * _standard_normal_quantile(probability))
        case MeasuredDistribution(quantiles):
            position = probability * (len(quantiles) - 1)
            lower_index = min(int(position), len(quantiles) - 2)
            least, most = quantiles[lower_index], quantiles[lower_index + 1]
            return least + (most - least) * (position - lower_index)


def _standard_normal_quantile(probability: float) -> float:
    """The quantile of the normal distribution with mean 0 and deviation 1."""
    from statistics import NormalDist  # noqa: PLC0415 # few paces need it; the import takes 10 ms

    return NormalDist().inv_cdf(min(max(probability, _MIN_PROBABILITY), 1 - 2 * _MIN_PROBABILITY))


def is_random(distribution: DurationDistribution) -> bool:
    """Whether draws may differ."""
    match distribution:
        case FixedDistribution():
            return False
        case UniformDistribution(least, most):
            return least != most
        case NormalDistribution(_, spread) | LognormalDistribution(_, spread):
            return spread > 0
        case MeasuredDistribution(quantiles):
            return quantiles[0] != quantiles[-1]


def format_number(value: float) -> str:
    """A number with at most six decimals and no exponent, which the grammar can parse."""
    return f"{value:.{_DECIMALS}f}".rstrip("0").rstrip(".")


def format_duration(ms: float) -> str:
    """A duration in the grammar's syntax, such as `300ms` or `2s`."""
    is_seconds = ms >= 1000 and ms % 1000 == 0
    return f"{format_number(ms / 1000)}s" if is_seconds else f"{format_number(ms)}ms"


def parse_distribution(text: str) -> DurationDistribution:
    """Parses a fixed duration, a range or a distribution.

    Raises `ValueError` that names the problem and a valid form.
    """
    minimum, separator, maximum = text.partition("..")
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
            if re.fullmatch(NUMBER_PATTERN, second) is None or float(second) > _MAX_SIGMA:
                raise ValueError(
                    f"the sigma of lognormal must be a number from 0 to {_MAX_SIGMA:g} without a "
                    "unit, such as lognormal(40ms,0.5)"
                )
            return LognormalDistribution(parse_time_ms(first), round(float(second), 6))
        case _:
            raise ValueError(f"unknown distribution; use {_CALL_EXAMPLES}")


def parse_time_ms(text: str) -> float:
    """Parses a duration such as `300ms` or `0.3s` to ms.  Raises `ValueError`."""
    time_match = _TIME_PATTERN.fullmatch(text)
    if time_match is None:
        raise ValueError(
            f"not a valid duration; valid examples: 300ms, 0.3s, 30..80ms, {_CALL_EXAMPLES}"
        )
    digits, unit = time_match.groups()
    if unit is None:
        raise ValueError(f"the unit is missing; use {digits}ms or {digits}s")
    ms = round(float(digits) * _MS_PER_UNIT[unit], 6)
    if ms > MAX_DURATION_MS:
        raise ValueError("longer than the maximum of one day")
    return ms


def _parse_uniform(minimum: str, maximum: str) -> UniformDistribution:
    min_ms, max_ms = parse_time_ms(minimum), parse_time_ms(maximum)
    if min_ms > max_ms:
        raise ValueError(f"the minimum is greater than the maximum; use {maximum}..{minimum}")
    return UniformDistribution(min_ms, max_ms)
