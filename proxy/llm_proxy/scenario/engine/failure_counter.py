"""Counts simulated failures per session and step.

Nothing here awaits: two requests never get the same number.
"""

from __future__ import annotations

from collections import Counter


class FailureCounter:
    """How often a step has failed on purpose."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, int, str]] = Counter()

    def take_failure(
        self, session: str, scenario: str, turn: int, provider: str, allowed: int
    ) -> int | None:
        """The number of this failure, from 1; None once `allowed` have been."""
        key = (session, scenario, turn, provider)
        if self._counts[key] >= allowed:
            return None
        self._counts[key] += 1
        return self._counts[key]

    def reset_session(self, session: str) -> None:
        """Fail anew in this session."""
        for key in [key for key in self._counts if key[0] == session]:
            del self._counts[key]
