"""Generates numbers for a JSON Schema: within bounds, and multiples of `multipleOf`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import islice
from math import ceil, floor, inf, isfinite, lcm, nextafter
from typing import Final

from llm_proxy.chance import seeded_int_below
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget
from llm_proxy.turns import Json

_DEFAULT_SPAN: Final = 100
"""Width of the range if a schema has at most one bound."""
_DEFAULT_STEP: Final = Fraction(1, 100)
"""Non-integers without `multipleOf` are multiples of it."""
_MAX_CANDIDATES: Final = 1000
_MAX_FLOAT_INT: Final = 10**308
"""Larger numbers are ignored: this one is within the range of a float."""
_MAX_STEP_BITS: Final = 4096
"""The most bits of the numerator of a common multiple of several `multipleOf`."""


def make_number(
    schema: Fields, seed: str, budget: SchemaBudget, *, is_integer: bool
) -> int | float:
    """A number valid against the schema; an `int` with `is_integer`.

    Raises `ValueError` with the reason if none is found.
    """
    steps = as_numbers(schema.get("multipleOf"))
    budget.spend(20 + 4 * len(steps))
    for candidate in islice(_candidates(schema, seed, is_integer=is_integer), _MAX_CANDIDATES):
        budget.spend(4 + len(steps))
        if is_within_bounds(candidate, schema) and all(divides(step, candidate) for step in steps):
            return candidate
    raise ValueError(f"no {'whole number' if is_integer else 'number'} is known within its bounds")


def is_within_bounds(value: float, schema: Fields) -> bool:
    """Whether a number is within the bounds of a schema."""
    return (
        all(value >= bound for bound in as_numbers(schema.get("minimum")))
        and all(value <= bound for bound in as_numbers(schema.get("maximum")))
        and all(value > bound for bound in as_numbers(schema.get("exclusiveMinimum")))
        and all(value < bound for bound in as_numbers(schema.get("exclusiveMaximum")))
    )


def divides(step: float, value: float) -> bool:
    """Whether the value is a multiple of the step, by float division as clients do it."""
    if step <= 0 or (isinstance(step, int) and isinstance(value, int)):
        return step > 0 and value % step == 0
    try:
        quotient = value / step
    except OverflowError:
        return Fraction(value) % Fraction(step) == 0
    return isfinite(quotient) and quotient.is_integer()


def as_numbers(value: Json) -> list[float]:
    """The numbers in a value, which may be a list or a single one; anything else is dropped.

    Integers beyond the range of floats are dropped too: dividing by them would overflow.
    """
    values = value if isinstance(value, list) else [value]
    return [
        item
        for item in values
        if isinstance(item, int | float)
        and not isinstance(item, bool)
        and abs(item) <= _MAX_FLOAT_INT
    ]


def _candidates(schema: Fields, seed: str, *, is_integer: bool) -> Iterator[int | float]:
    """Numbers that may be valid, the most likely first."""
    low, high = _candidate_range(schema)
    steps = [
        _to_fraction(divisor) for divisor in as_numbers(schema.get("multipleOf")) if divisor > 0
    ]
    prefers_int = is_integer or bool(steps)
    step = _common_multiple([*steps, Fraction(1)] if is_integer else steps or [_DEFAULT_STEP])
    first_multiple, last_multiple = ceil(low / step), floor(high / step)
    if first_multiple <= last_multiple:
        start = seeded_int_below(last_multiple - first_multiple + 1, seed)
        for offset in range(min(last_multiple - first_multiple + 1, _MAX_CANDIDATES // 2)):
            candidate = step * (
                first_multiple + (start + offset) % (last_multiple - first_multiple + 1)
            )
            yield from (
                (int(candidate),)
                if candidate.denominator == 1 and prefers_int
                else _nearest_float(candidate)
            )
    if not is_integer:
        yield from _nearest_float((low + high) / 2)
        for bound in (*_nearest_float(low), *_nearest_float(high)):
            yield from (bound, nextafter(bound, inf), nextafter(bound, -inf))


def _candidate_range(schema: Fields) -> tuple[Fraction, Fraction]:
    lower_bounds = as_numbers(schema.get("minimum")) + as_numbers(schema.get("exclusiveMinimum"))
    upper_bounds = as_numbers(schema.get("maximum")) + as_numbers(schema.get("exclusiveMaximum"))
    steps = [
        _to_fraction(divisor) for divisor in as_numbers(schema.get("multipleOf")) if divisor > 0
    ]
    step = max([Fraction(1), *steps])
    span = max(Fraction(_DEFAULT_SPAN), 2 * step)
    low = max(map(_to_fraction, lower_bounds)) if lower_bounds else None
    high = min(map(_to_fraction, upper_bounds)) if upper_bounds else None
    if low is None:
        low = Fraction(1) if high is None or high > 2 * step else high - span
    return low, low + span if high is None else high


def _to_fraction(value: float) -> Fraction:
    """The exact value of the decimal notation: 0.1 is one tenth."""
    return Fraction(repr(value))


def _common_multiple(steps: list[Fraction]) -> Fraction:
    multiple, *others = steps
    for other in others:
        denominator = multiple.denominator * other.denominator
        numerator = lcm(
            multiple.numerator * other.denominator, other.numerator * multiple.denominator
        )
        multiple = Fraction(numerator, denominator)
        if multiple.numerator.bit_length() > _MAX_STEP_BITS:
            raise ValueError("no number is known that is a multiple of so many")
    return multiple


def _nearest_float(value: Fraction) -> Iterator[float]:
    """Yield the nearest float; nothing on overflow."""
    with suppress(OverflowError):
        yield float(value)
