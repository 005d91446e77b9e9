"""The result of one `doctor` check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckLevel(StrEnum):
    """The severity of a check result."""

    OK = "ok"
    WARNING = "warning"
    """It works, but not as a user may expect."""
    PROBLEM = "problem"
    """It does not work."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check: a line of `doctor`."""

    name: str
    """What was checked, such as `port 4777` or the name of a package."""
    level: CheckLevel
    text: str
    """What was found, and for any level but OK what to do."""
