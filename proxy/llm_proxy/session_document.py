"""What a test runner reads about one session: its calls, and the report at its end.

The proxy sends these documents to the process that started it, never over the network: they hold
whole requests and responses.
"""

from __future__ import annotations

from typing import Final

import msgspec

from llm_proxy.exchange import Headers, Request, ResponseHead
from llm_proxy.journal_document import JournalEntry
from llm_proxy.miss_report import MissReport

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a captured response body; the rest is left out."""


class CallDocument(msgspec.Struct, frozen=True):
    """One request of a session, and what the client received."""

    entry: JournalEntry
    method: str
    path: str
    query: str
    headers: Headers
    """Without credentials."""
    request_body: bytes
    """Without content coding."""
    head: ResponseHead | None = None
    """None if the client received none."""
    response_body: bytes = b""
    """As it was sent, at most `MAX_BODY_BYTES`."""

    @property
    def request(self) -> Request:
        """The request as dialects decode it."""
        return Request(self.method, self.path, self.query, self.headers, self.request_body)


class SessionReport(msgspec.Struct, frozen=True):
    """What happened between the start and the end of a session."""

    session: str
    requests: int = 0
    replayed: int = 0
    """Responses from cassettes."""
    simulated: int = 0
    played_files: tuple[str, ...] = ()
    """The cassettes that were played, each once."""
    recorded_files: tuple[str, ...] = ()
    unplayed_files: tuple[str, ...] = ()
    """The session's own cassettes that were neither played nor recorded."""
    misses: tuple[MissReport, ...] = ()
    scenario_failures: tuple[str, ...] = ()
    """Why requests did not match their scenario, one sentence for each request."""
    lost_recordings: tuple[str, ...] = ()
    """Why recordings were lost, one sentence for each."""
    aborted: int = 0
    """Responses that were cut off at the end of the session."""
