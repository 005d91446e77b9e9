"""The maximum age of cassettes: parsing, comparing and formatting."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from llm_proxy.errors import UsageError, printable

_DAYS: Final = MappingProxyType({"h": 1 / 24, "d": 1, "w": 7, "m": 30, "y": 365})
_SPAN: Final = re.compile(r"\s*([1-9][0-9]{0,5})\s*([hdwmy])\s*")
_SHOWN: Final = 40
"""Characters of an age in a message."""


@dataclass(frozen=True, slots=True)
class MaxAge:
    """The age from which a cassette is too old."""

    max_age: timedelta
    is_failure: bool
    """Whether it is a failure to play one, rather than worth a warning."""
    text: str
    """The age as it was given: `90d`."""

    def __str__(self) -> str:
        return self.text


def parse_age(text: str) -> timedelta:
    """The span that `36h`, `90d`, `12w`, `6m` (of 30 days) or `1y` (of 365) is.

    Raises `UsageError` for anything else.
    """
    match = _SPAN.fullmatch(text)
    if match is None:
        raise UsageError(
            f"'{printable(text, _SHOWN)}' is no age: write a number and h, d, w, m or y: 90d"
        )
    return timedelta(days=int(match[1]) * _DAYS[match[2]])


def parse_max_age(text: str) -> MaxAge:
    """The limit that `90d`, `90d,warn` or `90d,fail` sets.  Raises `UsageError`."""
    age, comma, then = text.partition(",")
    if comma and then.strip() not in {"warn", "fail"}:
        raise UsageError(
            f"'{printable(text, _SHOWN)}': behind the comma stands warn or fail, such as 90d,fail"
        )
    return MaxAge(parse_age(age), then.strip() == "fail", age.strip())


def cassette_age(recorded: str, now: datetime) -> timedelta | None:
    """How old a cassette is by its line 1; None where that says no time."""
    try:
        then = datetime.fromisoformat(recorded)
    except ValueError:
        return None
    if then.tzinfo is None:
        return None
    return now - then


def format_days(age: timedelta) -> str:
    """An age for people, in days or hours."""
    if age < timedelta(days=2):
        return f"{age // timedelta(hours=1)} h"
    return f"{age.days} days"
