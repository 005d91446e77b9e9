"""Findings of validators."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FindingSeverity(Enum):
    """What happens to a document with a finding."""

    REFUSED = "it is not loaded"
    LOADED = "it is loaded with a warning, and `lint` fails"
    WARNING = "it is loaded with a warning"


@dataclass(frozen=True, slots=True)
class StructFinding:
    """An error or a doubtful value in a struct."""

    path: tuple[str | int, ...]
    """Relative to the struct, in canonical names: `("tool_calls", 1)`."""
    message: str
    severity: FindingSeverity = FindingSeverity.REFUSED


def warning_finding(path: tuple[str | int, ...], message: str) -> StructFinding:
    """A finding of severity `WARNING`."""
    return StructFinding(path, message, FindingSeverity.WARNING)
