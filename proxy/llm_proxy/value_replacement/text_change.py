"""A replacement within a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextChange:
    """Replaces the characters from `begin` to `end` by `replacement`."""

    begin: int
    end: int
    replacement: str
