"""A replacement within a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextChange:
    """`new` takes the place of the characters from `begin` to `end`."""

    begin: int
    end: int
    new: str
