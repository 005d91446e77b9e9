"""Distributions of durations, drawn by seeded chance.

A distribution is asked for the time below which a share of all draws lies.  A roll of chance, a
number from 0 up to 1, is such a share, so each draw takes one roll, and no draw needs another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

LONGEST: Final = 86_400_000.0
"""ms: no span is longer than a day, and none that is drawn either."""
_LEAST: Final = 2.0**-54
"""Of the shares for which the normal distributions have a time: less than any roll but 0, and
half of what the largest roll lacks of 1."""
_DECIMALS: Final = 6


@dataclass(frozen=True, slots=True)
class FixedSpan:
    """Always the same."""

    ms: float

    def __str__(self) -> str:
        return format_span(self.ms)


@dataclass(frozen=True, slots=True)
class UniformSpan:
    """Any time between two, each as likely."""

    least: float
    most: float

    def __str__(self) -> str:
        return f"{format_number(self.least)}..{format_number(self.most)}ms"


@dataclass(frozen=True, slots=True)
class NormalSpan:
    """The bell curve; what would be below 0 is 0."""

    mean: float
    deviation: float

    def __str__(self) -> str:
        return f"normal({format_span(self.mean)},{format_span(self.deviation)})"


@dataclass(frozen=True, slots=True)
class LognormalSpan:
    """Its logarithm is normal: half of the draws are below the median, and a few far above it."""

    median: float
    sigma: float
    """The deviation of the logarithm."""

    def __str__(self) -> str:
        return f"lognormal({format_span(self.median)},{format_number(self.sigma)})"


@dataclass(frozen=True, slots=True)
class MeasuredSpan:
    """What was measured: times at equal shares from 0 to 1, straight lines between them."""

    quantiles: tuple[float, ...]
    """At least two, in order."""

    def __str__(self) -> str:
        return "as measured"


Distribution = FixedSpan | UniformSpan | NormalSpan | LognormalSpan | MeasuredSpan

NONE: Final = FixedSpan(0.0)
"""No time at all."""


def draw_ms(distribution: Distribution, share: float) -> float:
    """The time in ms below which this share of all draws lies: from 0 up to a day."""
    return min(max(_quantile_ms(distribution, share), 0.0), LONGEST)


def _quantile_ms(distribution: Distribution, share: float) -> float:
    match distribution:
        case FixedSpan(ms):
            return ms
        case UniformSpan(least, most):
            return min(least + (most - least) * share, most)
        case NormalSpan(mean, deviation):
            return mean + deviation * _standard_normal_quantile(share)
        case LognormalSpan(median, sigma):
            return median * math.exp(sigma * _standard_normal_quantile(share))
        case MeasuredSpan(quantiles):
            place = share * (len(quantiles) - 1)
            below = min(int(place), len(quantiles) - 2)
            least, most = quantiles[below], quantiles[below + 1]
            return least + (most - least) * (place - below)


def _standard_normal_quantile(share: float) -> float:
    """The quantile of the normal distribution around 0 with deviation 1."""
    from statistics import NormalDist  # noqa: PLC0415 # few paces need it, and it takes 10 ms

    return NormalDist().inv_cdf(min(max(share, _LEAST), 1 - 2 * _LEAST))


def is_random(distribution: Distribution) -> bool:
    """Whether draws may differ."""
    match distribution:
        case FixedSpan():
            return False
        case UniformSpan(least, most):
            return least != most
        case NormalSpan(_, spread) | LognormalSpan(_, spread):
            return spread > 0
        case MeasuredSpan(quantiles):
            return quantiles[0] != quantiles[-1]


def format_number(value: float) -> str:
    """A number in digits, with at most six decimals, as the grammar reads it back."""
    return f"{value:.{_DECIMALS}f}".rstrip("0").rstrip(".")


def format_span(ms: float) -> str:
    """A time as the grammar spells it."""
    is_seconds = ms >= 1000 and ms % 1000 == 0
    return f"{format_number(ms / 1000)}s" if is_seconds else f"{format_number(ms)}ms"
