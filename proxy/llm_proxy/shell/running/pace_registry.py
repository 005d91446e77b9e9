"""The paces of a run: the one at start, and those set since."""

from __future__ import annotations

from typing import Final

from llm_proxy.pacing import Pace

_MOST: Final = 10_000
"""Sessions with a pace of their own, the latest."""


class PaceRegistry:
    """Which pace holds for which session, by now.

    One that is set for a session alone comes before the one that is set for all.
    """

    def __init__(self, started: Pace, seed: int = 0) -> None:
        self.startup_pace = started
        self.seed = seed
        self.session_paces: dict[str, Pace] = {}
        """Those that are set for a session alone."""
        self._override: Pace | None = None

    @property
    def pace(self) -> Pace:
        """The pace of sessions without one of their own."""
        return self._override or self.startup_pace

    def pace_of(self, session: str) -> Pace:
        """The pace of a session."""
        return self.session_paces.get(session) or self.pace

    def set_pace(self, pace: Pace | None, session: str = "") -> None:
        """Set the pace of a session, or of all where none is named; None takes it back."""
        if not session:
            self._override = pace
        elif pace is not None:
            self.session_paces.pop(session, None)
            self.session_paces[session] = pace
            if len(self.session_paces) > _MOST:  # the one that was set first
                del self.session_paces[next(iter(self.session_paces))]
        else:
            self.session_paces.pop(session, None)

    def reset(self, session: str) -> None:
        """Begin a session again: it has no pace of its own."""
        self.set_pace(None, session)
