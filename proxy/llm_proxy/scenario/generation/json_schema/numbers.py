"""Numbers as a JSON Schema asks for them: within bounds, and multiples of something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import islice
from math import ceil, floor, inf, isfinite, lcm, nextafter
from typing import Final

from llm_proxy.chance import seeded_below
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget
from llm_proxy.turns import Json

_SPAN: Final = 100
"""How far from its one bound a number is at most, and from nought where it has none."""
_FINE: Final = Fraction(1, 100)
"""What numbers that need not be whole are multiples of, where nothing else is said."""
_TRIES: Final = 1000
_LARGEST: Final = 10**308
"""What a float can still be."""
_BITS: Final = 4096
"""Of a multiple that several steps have in common."""


def number(schema: Fields, seed: str, budget: SchemaBudget, *, whole: bool) -> int | float:
    """A number, an `int` where a `whole` one is asked for.

    Raises `ValueError`, with the reason in a few words, where there is none.
    """
    steps = numbers(schema.get("multipleOf"))
    budget.spend(20 + 4 * len(steps))
    for candidate in islice(_candidates(schema, seed, whole=whole), _TRIES):
        budget.spend(4 + len(steps))
        if within(candidate, schema) and all(divides(step, candidate) for step in steps):
            return candidate
    raise ValueError(f"no {'whole number' if whole else 'number'} is known within its bounds")


def within(value: float, schema: Fields) -> bool:
    """Whether a number keeps the bounds of a schema."""
    return (
        all(value >= count for count in numbers(schema.get("minimum")))
        and all(value <= count for count in numbers(schema.get("maximum")))
        and all(value > count for count in numbers(schema.get("exclusiveMinimum")))
        and all(value < count for count in numbers(schema.get("exclusiveMaximum")))
    )


def divides(step: float, value: float) -> bool:
    """Whether the value is a multiple of the step, as clients see it, which divide floats."""
    if step <= 0 or (isinstance(step, int) and isinstance(value, int)):
        return step > 0 and value % step == 0
    try:
        quotient = value / step
    except OverflowError:
        return Fraction(value) % Fraction(step) == 0
    return isfinite(quotient) and quotient.is_integer()


def numbers(value: Json) -> list[float]:
    """The numbers in a list of them; one alone counts as a list, and what is none is left out.

    None is what no float can be: dividing by it would not end well.
    """
    values = value if isinstance(value, list) else [value]
    return [
        content
        for content in values
        if isinstance(content, int | float)
        and not isinstance(content, bool)
        and abs(content) <= _LARGEST
    ]


def _candidates(schema: Fields, seed: str, *, whole: bool) -> Iterator[int | float]:
    """Numbers that may do, the likeliest first."""
    low, high = _bounds(schema)
    steps = [_exact(count) for count in numbers(schema.get("multipleOf")) if count > 0]
    is_round = whole or bool(steps)
    step = _common([*steps, Fraction(1)] if whole else steps or [_FINE])
    first, last = ceil(low / step), floor(high / step)
    if first <= last:
        start = seeded_below(last - first + 1, seed)
        for turn in range(min(last - first + 1, _TRIES // 2)):
            exact = step * (first + (start + turn) % (last - first + 1))
            yield from (int(exact),) if exact.denominator == 1 and is_round else _float(exact)
    if not whole:
        yield from _float((low + high) / 2)
        for bound in (*_float(low), *_float(high)):
            yield from (bound, nextafter(bound, inf), nextafter(bound, -inf))


def _bounds(schema: Fields) -> tuple[Fraction, Fraction]:
    lows = numbers(schema.get("minimum")) + numbers(schema.get("exclusiveMinimum"))
    highs = numbers(schema.get("maximum")) + numbers(schema.get("exclusiveMaximum"))
    steps = [_exact(count) for count in numbers(schema.get("multipleOf")) if count > 0]
    step = max([Fraction(1), *steps])
    span = max(Fraction(_SPAN), 2 * step)
    low = max(map(_exact, lows)) if lows else None
    high = min(map(_exact, highs)) if highs else None
    if low is None:
        low = Fraction(1) if high is None or high > 2 * step else high - span
    return low, low + span if high is None else high


def _exact(value: float) -> Fraction:
    """The number as it is written: a tenth is one."""
    return Fraction(repr(value))


def _common(steps: list[Fraction]) -> Fraction:
    common, *others = steps
    for other in others:
        below_line = common.denominator * other.denominator
        above = lcm(common.numerator * other.denominator, other.numerator * common.denominator)
        common = Fraction(above, below_line)
        if common.numerator.bit_length() > _BITS:
            raise ValueError("no number is known that is a multiple of so many")
    return common


def _float(exact: Fraction) -> Iterator[float]:
    """The nearest float, where there is one."""
    with suppress(OverflowError):
        yield float(exact)
