"""Counts simulated failures per session and step.

Nothing here awaits, so two requests never get the same number.
"""

from __future__ import annotations

from collections import Counter


class FailureCounter:
    """Numbers the simulated failures per session, scenario, turn and provider."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, int, str]] = Counter()

    def next_failure_number(
        self, session: str, scenario_id: str, turn: int, provider: str, max_failures: int
    ) -> int | None:
        """Count one failure: its number, from 1; None after `max_failures` of them."""
        key = (session, scenario_id, turn, provider)
        if self._counts[key] >= max_failures:
            return None
        self._counts[key] += 1
        return self._counts[key]

    def reset_session(self, session: str) -> None:
        """Start counting from 1 again in this session."""
        for key in [key for key in self._counts if key[0] == session]:
            del self._counts[key]
