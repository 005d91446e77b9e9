"""Findings of validators."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FindingWeight(Enum):
    """What becomes of a document with a finding."""

    REFUSED = "it is not loaded"
    LOADED = "it is loaded with a warning, and `lint` fails"
    WARNING = "it is loaded with a warning"


@dataclass(frozen=True, slots=True)
class StructFinding:
    """One thing that is wrong or doubtful in a struct."""

    where: tuple[str | int, ...]
    """From the struct on, in canonical names: `("tool_calls", 1)`."""
    message: str
    weight: FindingWeight = FindingWeight.REFUSED


def warning(where: tuple[str | int, ...], message: str) -> StructFinding:
    """What is doubtful."""
    return StructFinding(where, message, FindingWeight.WARNING)
