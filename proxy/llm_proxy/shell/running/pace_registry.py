"""The paces of a run: the one at start, and those set since."""

from __future__ import annotations

from typing import Final

from llm_proxy.pacing import Pace

_MAX_SESSION_PACES: Final = 10_000
"""Maximum number of sessions with their own pace; the latest are kept."""


class PaceRegistry:
    """The current pace of each session.

    A pace that is set for one session takes precedence over the one that is set for all.
    """

    def __init__(self, startup_pace: Pace, seed: int = 0) -> None:
        self.startup_pace = startup_pace
        self.seed = seed
        self.session_paces: dict[str, Pace] = {}
        """Paces that are set for one session, by session."""
        self._override: Pace | None = None

    @property
    def default_pace(self) -> Pace:
        """The pace of sessions without their own."""
        return self._override or self.startup_pace

    def pace_of(self, session: str) -> Pace:
        """The pace of a session."""
        return self.session_paces.get(session) or self.default_pace

    def set_pace(self, pace: Pace | None, session: str = "") -> None:
        """Set the pace of a session, or of all if none is named; None removes it."""
        if not session:
            self._override = pace
        elif pace is not None:
            self.session_paces.pop(session, None)
            self.session_paces[session] = pace
            if len(self.session_paces) > _MAX_SESSION_PACES:  # the one that was set first
                del self.session_paces[next(iter(self.session_paces))]
        else:
            self.session_paces.pop(session, None)

    def remove_session_pace(self, session: str) -> None:
        """Remove a session's own pace."""
        self.set_pace(None, session)
