"""Parses durations, windows, sizes, rates, counts and shares: `300ms`, `0.5s`, `16kB`.

Each function raises `ValueError` with a description of the expected value, to follow "is not".
"""

from __future__ import annotations

import re
from typing import Final, Literal

_NUMBER: Final = r"(?P<number>[0-9]{1,12}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})"
_DURATION: Final = re.compile(_NUMBER + r"(?P<unit>ms|s|m|h)")
_SIZE: Final = re.compile(_NUMBER + r"(?P<unit>|b|kb|mb|kib|mib)")
_MS_PER_UNIT: Final = {"ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}
_BYTES_PER_UNIT: Final = {
    "": 1,
    "b": 1,
    "kb": 1000,
    "mb": 1_000_000,
    "kib": 1024,
    "mib": 1024 * 1024,
}
_MAX_DURATION_MS: Final = 8760 * 3_600_000.0
"""A year: dates computed from a duration must stay within `datetime`'s range."""
_WHOLE_NUMBER: Final = re.compile("[0-9]{1,12}")


def reject_bare_number(text: str) -> None:
    """Raise the error of a duration that lacks its unit if `text` is only a number."""
    if _is_number(text):
        raise ValueError(f"a duration with a unit; write {text}s or {text}ms")


def parse_duration_ms(text: str, default_unit: Literal["", "ms", "s"] = "") -> float:
    """Parse a duration with a unit: `300ms`, `0.5s`, `2m`, `1h`; returns ms.

    `default_unit` is the unit of a number without one; empty if the unit is required.
    """
    if default_unit and _is_number(text):
        text = f"{text.strip()}{default_unit}"
    reject_bare_number(text)
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError("a duration such as 300ms, 0.5s or 2m")
    duration_ms = float(match["number"]) * _MS_PER_UNIT[match["unit"]]
    if duration_ms > _MAX_DURATION_MS:
        raise ValueError("a duration of at most 8760h (one year)")
    return duration_ms


def parse_window_ms(text: str) -> tuple[float, float]:
    """Parse a time window: `10s..20s`, or `10s` for `0s..10s`; returns start and end in ms."""
    begin, dots, end = text.partition("..")
    if dots and (_is_number(begin) or _is_number(end)):
        raise ValueError("a time window with two units, such as 10s..20s")
    window = (
        (parse_duration_ms(begin), parse_duration_ms(end))
        if dots
        else (0.0, parse_duration_ms(text))
    )
    if window[0] >= window[1]:
        raise ValueError("a time window that ends after its start, such as 10s..20s")
    return window


def parse_size_bytes(text: str) -> int:
    """Parse a number of bytes: `7`, `16kB`, `1MiB`."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError("a number of bytes such as 7, 16kB or 1MiB")
    return round(float(match["number"]) * _BYTES_PER_UNIT[match["unit"]])


def parse_bytes_per_second(text: str) -> int:
    """Parse a rate in bytes per second, at least 1: `500`, `16kB`, `1MiB/s`."""
    try:
        rate = parse_size_bytes(text.strip().lower().removesuffix("/s"))
    except ValueError:
        rate = 0
    if rate < 1:
        raise ValueError("a number of bytes per second such as 500, 16kB or 1MiB/s")
    return rate


def parse_count(text: str) -> int:
    """Parse a whole number."""
    if _WHOLE_NUMBER.fullmatch(text.strip()) is None:
        raise ValueError("a non-negative integer")
    return int(text)


def parse_positive_count(text: str) -> int:
    """Parse a whole number from 1 on."""
    if _WHOLE_NUMBER.fullmatch(text.strip()) is None or int(text) == 0:
        raise ValueError("a positive integer")
    return int(text)


def parse_fraction(text: str) -> float:
    """Parse a fraction from 0 to 1, or a percentage: `0.2`, `20%`."""
    stripped = text.strip()
    number, factor = (stripped[:-1], 0.01) if stripped.endswith("%") else (stripped, 1.0)
    if re.fullmatch(_NUMBER, number) is None or not 0 <= float(number) * factor <= 1:
        raise ValueError("a number from 0 to 1, or a percentage such as 20%")
    return float(number) * factor


def parse_bool(text: str) -> bool:
    """Parse `true`, `yes`, `on`, `false`, `no` or `off`, in any case."""
    match text.strip().lower():
        case "true" | "yes" | "on":
            return True
        case "false" | "no" | "off":
            return False
        case _:
            raise ValueError("true or false")


def _is_number(text: str) -> bool:
    return re.fullmatch(_NUMBER, text.strip()) is not None
