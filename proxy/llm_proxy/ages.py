"""The maximum age of cassettes: parsing, comparing and formatting."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from llm_proxy.errors import UsageError, printable_excerpt

_DAYS_PER_UNIT: Final = MappingProxyType({"h": 1 / 24, "d": 1, "w": 7, "m": 30, "y": 365})
_AGE_PATTERN: Final = re.compile(r"\s*([1-9][0-9]{0,5})\s*([hdwmy])\s*")
_MAX_SHOWN_CHARS: Final = 40
"""The most characters of an age that an error message quotes."""


@dataclass(frozen=True, slots=True)
class MaxAge:
    """The maximum age of cassettes, and whether exceeding it is a failure."""

    max_age: timedelta
    fails_when_exceeded: bool
    """Whether playing an older cassette is a failure rather than a warning."""
    text: str
    """The age as the operator wrote it: `90d`."""

    def __str__(self) -> str:
        return self.text


def parse_age(text: str) -> timedelta:
    """Parse an age: `36h`, `90d`, `12w`, `6m` (months of 30 days) or `1y` (365 days).

    Raises `UsageError` for anything else.
    """
    match = _AGE_PATTERN.fullmatch(text)
    if match is None:
        raise UsageError(
            f"'{printable_excerpt(text, _MAX_SHOWN_CHARS)}' is not a valid age: use a number "
            "followed by h, d, w, m or y, such as 90d"
        )
    return timedelta(days=int(match[1]) * _DAYS_PER_UNIT[match[2]])


def parse_max_age(text: str) -> MaxAge:
    """Parse a maximum age: `90d`, `90d,warn` or `90d,fail`.  Raises `UsageError`."""
    age, comma, policy = text.partition(",")
    if comma and policy.strip() not in {"warn", "fail"}:
        raise UsageError(
            f"'{printable_excerpt(text, _MAX_SHOWN_CHARS)}' is not a valid maximum age: use warn "
            "or fail after the comma, such as 90d,fail"
        )
    return MaxAge(parse_age(age), policy.strip() == "fail", age.strip())


def cassette_age(recorded_at: str, now: datetime) -> timedelta | None:
    """The age of a cassette by the timestamp in its line 1 (ISO 8601 with a UTC offset).

    None if the timestamp is invalid or has no offset.
    """
    try:
        recorded_time = datetime.fromisoformat(recorded_at)
    except ValueError:
        return None
    if recorded_time.tzinfo is None:
        return None
    return now - recorded_time


def format_age(age: timedelta) -> str:
    """Format an age for people: hours below two days, else days."""
    if age < timedelta(days=2):
        return f"{age // timedelta(hours=1)} h"
    return f"{age.days} days"
