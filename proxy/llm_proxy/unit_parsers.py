"""Parses durations, windows, sizes, rates, counts and shares: `300ms`, `0.5s`, `16kB`.

Each function raises `ValueError` with what it should have been, to stand behind "is not".
"""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = r"(?P<number>[0-9]{1,12}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})"
_SPAN: Final = re.compile(_NUMBER + r"(?P<unit>ms|s|m|h)")
_SIZE: Final = re.compile(_NUMBER + r"(?P<unit>|b|kb|mb|kib|mib)")
_MS: Final = {"ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}
_BYTES: Final = {"": 1, "b": 1, "kb": 1000, "mb": 1_000_000, "kib": 1024, "mib": 1024 * 1024}
_LONGEST: Final = 8760 * 3_600_000.0
"""A year in ms: dates that are told must not leave the calendar."""
_COUNT: Final = re.compile("[0-9]{1,12}")


def parse_milliseconds(text: str) -> float:
    """A span of time, in ms."""
    found = _SPAN.fullmatch(text.strip().lower())
    if found is None and re.fullmatch(_NUMBER, text.strip()):
        raise ValueError(f"a span of time: its unit is missing; write {text}s, or {text}ms")
    if found is None:
        raise ValueError("a span of time such as 300ms, 0.5s or 2m")
    found_ms = float(found["number"]) * _MS[found["unit"]]
    if found_ms > _LONGEST:
        raise ValueError("a span of time up to a year, which is 8760h")
    return found_ms


def parse_window(text: str) -> tuple[float, float]:
    """A window such as `10s..20s`, or `10s` for one that begins at once, in ms."""
    begin, dots, end = text.partition("..")
    found = (
        (parse_milliseconds(begin), parse_milliseconds(end))
        if dots
        else (0.0, parse_milliseconds(text))
    )
    if found[0] >= found[1]:
        raise ValueError("a window that ends after it begins, such as 10s..20s")
    return found


def parse_size(text: str) -> int:
    """A number of bytes."""
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError("a number of bytes such as 7, 16kB or 1MiB")
    return round(float(found["number"]) * _BYTES[found["unit"]])


def parse_rate(text: str) -> int:
    """A number of bytes a second, from 1 on."""
    try:
        found = parse_size(text.strip().lower().removesuffix("/s"))
    except ValueError:
        found = 0
    if found < 1:
        raise ValueError("a number of bytes a second such as 500, 16kB or 1MiB/s")
    return found


def parse_count(text: str) -> int:
    """A whole number."""
    if _COUNT.fullmatch(text.strip()) is None:
        raise ValueError("a whole number")
    return int(text)


def parse_share(text: str) -> float:
    """A number from 0 to 1, or a percentage."""
    stripped = text.strip()
    number, factor = (stripped[:-1], 0.01) if stripped.endswith("%") else (stripped, 1.0)
    if re.fullmatch(_NUMBER, number) is None or not 0 <= float(number) * factor <= 1:
        raise ValueError("a number from 0 to 1, or a percentage such as 20%")
    return float(number) * factor


def parse_bool(text: str) -> bool:
    """Whether something is so."""
    match text.strip().lower():
        case "true" | "yes" | "on":
            return True
        case "false" | "no" | "off":
            return False
        case _:
            raise ValueError("true or false")
