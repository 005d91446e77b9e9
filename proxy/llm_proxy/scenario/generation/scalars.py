"""Generates numbers and strings for a JSON Schema, and checks their keywords."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from hashlib import sha256
from math import ceil, floor, isfinite
from operator import ge, gt, le, lt
from typing import Final
from uuid import UUID

from llm_proxy.chance import seeded_int_below
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.scenario.generation.patterns import make_matching_text
from llm_proxy.scenario.generation.schema_budget import SchemaBudget

_LOWER_BOUNDS: Final = {"minimum": ge, "exclusiveMinimum": gt}
_UPPER_BOUNDS: Final = {"maximum": le, "exclusiveMaximum": lt}
_DEFAULT_SPAN: Final = 100
"""Width of the range if a schema has at most one bound."""
_DEFAULT_STEP: Final = Fraction(1, 100)
"""Non-integers without `multipleOf` are multiples of it."""
_MAX_CANDIDATES: Final = 500
_WORDS: Final = (
    *("alder", "birch", "cedar", "elm", "fir", "hazel", "juniper", "larch"),
    *("linden", "maple", "oak", "pine", "poplar", "rowan", "spruce", "willow"),
)
_MAX_CHARS: Final = 1_000_000
"""The most characters of a generated string."""
_FIRST_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
_MINUTES_PER_YEAR: Final = 525_600


def make_number(
    fields: Fields, seed: str, budget: SchemaBudget, *, is_integer: bool
) -> int | float:
    """A number valid against the schema; an `int` with `is_integer`.

    Raises `ValueError` with the reason if none is found.
    """
    budget.spend(25)
    with suppress(OverflowError):
        for candidate in _candidates(fields, seed, is_integer=is_integer):
            budget.spend(5)
            if is_valid_number(candidate, fields):
                return candidate
    raise ValueError(f"no {'whole number' if is_integer else 'number'} is known within its bounds")


def is_valid_number(value: float, fields: Fields) -> bool:
    """Whether a number is within the bounds of a schema, and a multiple of its `multipleOf`."""
    for name, is_within in (_LOWER_BOUNDS | _UPPER_BOUNDS).items():
        bound = _number(fields, name)
        if bound is not None and not is_within(value, bound):
            return False
    divisor = _number(fields, "multipleOf")
    return divisor is None or _is_multiple(value, divisor)


def _is_multiple(value: float, divisor: float) -> bool:
    """Whether the value is a multiple, by float division as clients do it."""
    if divisor <= 0 or (isinstance(divisor, int) and isinstance(value, int)):
        return divisor > 0 and value % divisor == 0
    try:
        quotient = value / divisor
    except OverflowError:
        return Fraction(value) % Fraction(divisor) == 0
    return isfinite(quotient) and quotient.is_integer()


def _number(fields: Fields, name: str) -> float | None:
    """The number of a keyword; None for anything else."""
    value = fields.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _candidates(fields: Fields, seed: str, *, is_integer: bool) -> Iterator[int | float]:
    """Numbers that may be valid, the most likely first.  May raise `OverflowError`."""
    low = max(_exact_numbers(fields, *_LOWER_BOUNDS), default=None)
    high = min(_exact_numbers(fields, *_UPPER_BOUNDS), default=None)
    divisor = max(_exact_numbers(fields, "multipleOf"), default=Fraction(0))
    unit = max(Fraction(1), divisor)
    span = max(Fraction(_DEFAULT_SPAN), 2 * unit)
    if low is None:
        low = Fraction(1) if high is None or high > 2 * unit else high - span
    if high is None:
        high = low + span
    step = divisor if divisor > 0 else Fraction(1) if is_integer else _DEFAULT_STEP
    if is_integer:
        step = Fraction(step.numerator)  # the least common multiple with 1
    first = ceil(low / step)
    multiple_count = floor(high / step) - first + 1
    if multiple_count > 0:
        start = seeded_int_below(multiple_count, seed)
        for offset in range(min(multiple_count, _MAX_CANDIDATES)):
            value = step * (first + (start + offset) % multiple_count)
            prefers_int = is_integer or divisor > 0
            yield int(value) if prefers_int and value.denominator == 1 else float(value)
    if not is_integer:
        yield from (float((low + high) / 2), float(low), float(high))


def _exact_numbers(fields: Fields, *names: str) -> list[Fraction]:
    """The exact values of the decimal notation of keywords: 0.1 is one tenth."""
    numbers = (_number(fields, name) for name in names)
    return [Fraction(repr(number)) for number in numbers if number is not None]


def make_text(fields: Fields, seed: str, budget: SchemaBudget) -> str:
    """A string within the lengths of the schema, with its pattern or else in its format.

    Raises `ValueError` with the reason if there is none, and `SchemaTooExpensive`.
    """
    min_chars = lenient_json.first_integer(fields.get("minLength")) or 0
    max_chars = lenient_json.first_integer(fields.get("maxLength"))
    if min_chars > _MAX_CHARS:
        raise ValueError(f"{min_chars} characters are too many")
    if max_chars is not None and max_chars < min_chars:
        raise ValueError(f"no text has at least {min_chars} and at most {max_chars} characters")
    if pattern := lenient_json.str_or_empty(fields.get("pattern")):
        return make_matching_text(pattern, min_chars, max_chars, seed, budget)
    budget.spend(5 + min_chars // 100)
    format_name = lenient_json.str_or_empty(fields.get("format"))
    if format_name in _FORMATS:
        text = _FORMATS[format_name][1](seed)
        if min_chars <= len(text) and (max_chars is None or len(text) <= max_chars):
            return text
    text = f"{make_word(seed)} {make_word(seed + ' ')}"
    text += f" {make_word(seed)}" * (-(-max(min_chars - len(text), 0) // 4))
    text = text[: max(min_chars, len(text) if max_chars is None else min(len(text), max_chars))]
    return f"{text[:-1]}s" if text.endswith(" ") else text


def matches_format(text: str, format_name: str) -> bool:
    """Whether a text matches the regular expression of its format; True for unknown formats."""
    return format_name not in _FORMATS or re.fullmatch(_FORMATS[format_name][0], text) is not None


def make_word(seed: str) -> str:
    """The name of a tree, chosen by the seed."""
    return _WORDS[seeded_int_below(len(_WORDS), seed)]


def _seeded_datetime(seed: str) -> datetime:
    return _FIRST_DAY + timedelta(minutes=seeded_int_below(_MINUTES_PER_YEAR, seed, "moment"))


def _seeded_uuid(seed: str) -> str:
    return str(UUID(bytes=sha256(seed.encode("utf-8", "replace")).digest()[:16], version=4))


_DATE: Final = r"\d{4}-\d\d-\d\d"
_TIME: Final = r"\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)"
_FORMATS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "date": (_DATE, lambda seed: f"{_seeded_datetime(seed):%Y-%m-%d}"),
    "date-time": (
        f"{_DATE}[Tt ]{_TIME}",
        lambda seed: f"{_seeded_datetime(seed):%Y-%m-%dT%H:%M:%SZ}",
    ),
    "time": (_TIME, lambda seed: f"{_seeded_datetime(seed):%H:%M:%SZ}"),
    "duration": ("P.+", lambda seed: f"P{1 + seeded_int_below(30, seed, 'days')}D"),
    "email": ("[^@]+@[^@]+", lambda seed: f"{make_word(seed)}@example.com"),
    "uri": (
        "[A-Za-z][A-Za-z0-9+.-]*:.*",
        lambda seed: f"https://example.com/{make_word(seed)}",
    ),
    "url": ("(?s:.*)", lambda seed: f"https://example.com/{make_word(seed)}"),
    "uuid": ("[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}", _seeded_uuid),
    "hostname": (
        r"[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})*",
        lambda seed: f"{make_word(seed)}.example.com",
    ),
    "ipv4": (
        r"\d{1,3}(?:\.\d{1,3}){3}",
        lambda seed: f"192.0.2.{1 + seeded_int_below(254, seed, 'host')}",
    ),
    "ipv6": (
        "[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*",
        lambda seed: f"2001:db8::{1 + seeded_int_below(0xFFFE, seed, 'host'):x}",
    ),
    "byte": ("(?s:.*)", lambda seed: b64encode(make_word(seed).encode()).decode()),
}
"""By format, a regular expression that its values match as a whole, and what makes one.

They are the formats that structured output allows, Gemini's `byte`, and `url`, which many write for
`uri`.  Addresses and domains are reserved for documentation: nobody owns them.
"""
