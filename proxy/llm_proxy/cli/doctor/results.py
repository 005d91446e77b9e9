"""The result of one `doctor` check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckLevel(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """It works, but not as somebody may think."""
    PROBLEM = "problem"
    """It does not work."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One finding."""

    name: str
    """What was looked at."""
    level: CheckLevel
    text: str
    """What was found, and for anything but OK what to do."""
