"""What is changed in a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """`new` takes the place of the characters from `begin` to `end`."""

    begin: int
    end: int
    new: str
