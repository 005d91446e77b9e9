"""The paces of a run: the one that it was started with, and those that were set since."""

from __future__ import annotations

from typing import Final

from llm_proxy.pacing import Pace

_MOST: Final = 10_000
"""Sessions with a pace of their own, the latest."""


class Paces:
    """Which pace holds for which session, by now.

    One that is set for a session alone comes before the one that is set for all.
    """

    def __init__(self, started: Pace, seed: int = 0) -> None:
        self.started = started
        self.seed = seed
        self.sessions: dict[str, Pace] = {}
        """Those that are set for a session alone."""
        self._all: Pace | None = None

    @property
    def pace(self) -> Pace:
        """The pace of sessions without one of their own."""
        return self._all or self.started

    def of(self, session: str) -> Pace:
        """The pace of a session."""
        return self.sessions.get(session) or self.pace

    def set(self, pace: Pace | None, session: str = "") -> None:
        """Set the pace of a session, or of all where none is named; None takes it back."""
        if not session:
            self._all = pace
        elif pace is not None:
            self.sessions.pop(session, None)
            self.sessions[session] = pace
            if len(self.sessions) > _MOST:  # the one that was set first
                del self.sessions[next(iter(self.sessions))]
        else:
            self.sessions.pop(session, None)

    def reset(self, session: str) -> None:
        """Begin a session again: it has no pace of its own."""
        self.set(None, session)
