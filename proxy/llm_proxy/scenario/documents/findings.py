"""What the rules of a struct find in it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Weight(Enum):
    """What becomes of a document with a finding."""

    REFUSED = "it is not loaded"
    LOADED = "it is loaded with a warning, and `lint` fails"
    WARNING = "it is loaded with a warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong or doubtful in a struct."""

    where: tuple[str | int, ...]
    """From the struct on, in canonical names: `("tool_calls", 1)`."""
    message: str
    weight: Weight = Weight.REFUSED


def warning(where: tuple[str | int, ...], message: str) -> Finding:
    """What is doubtful."""
    return Finding(where, message, Weight.WARNING)
