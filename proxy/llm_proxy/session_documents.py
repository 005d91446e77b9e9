"""What a proxy and the process that started it exchange, such as a test runner.

These documents never cross the network: they hold whole requests and responses.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import msgspec

from llm_proxy.exchange import Headers, Request, ResponseHead
from llm_proxy.journal_document import JournalEntry
from llm_proxy.miss_report import MissReport

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a captured response body; the rest is left out."""
_MAX_READABLE_CHARS: Final = 80
STOP_PATH: Final = "/_proxy/stop"
"""The path of a request to which a proxy in a child process responds by its end."""


def readable_session_name(text: str) -> str:
    """A valid session name for any text, such as a test's id, different for different texts.

    It is the end of the text, at most 80 characters, and a hash of the whole text.
    """
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    readable = re.sub("[^A-Za-z0-9._]+", "-", text)
    if len(readable) > _MAX_READABLE_CHARS:
        readable = readable[-_MAX_READABLE_CHARS:]
        readable = readable.partition("-")[2] or readable
    readable = readable.strip("-._")
    return f"{readable}-{digest}" if readable else f"session-{digest}"


class ServerStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a proxy is started with."""

    mode: str
    options: tuple[tuple[str, str], ...] = ()
    """The options of the run: name without dashes, and value.

    A mode ignores those that its command does not have.
    """
    defaults: dict[str, str] = {}
    """Default values of options; the environment and the settings file take precedence."""
    record_command: str = "llm-proxy record"
    """The command that error messages advise for recording."""
    is_quiet: bool = False
    """Whether only warnings and errors are logged."""


class ReadyDocument(msgspec.Struct, frozen=True):
    """What the parent needs to use the proxy."""

    mode: str = ""
    url: str = ""
    environment: dict[str, str] = {}
    """The variables to set, so that clients use the proxy."""
    error: str = ""
    """Why the proxy cannot run; empty if it runs."""


class SessionStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a session starts."""

    mode: str = ""
    """The mode of its requests; that of the run if empty."""
    options: tuple[tuple[str, str], ...] = ()
    """Further options of its command: name without dashes, and value."""
    pace: str = ""
    faults: tuple[str, ...] = ()
    scenario: str = ""
    """The id of the scenario that responds to all its requests."""
    replaces_session: bool = False
    """Whether recordings replace all older ones of the session, also those of other requests."""
    unfinished_sessions: tuple[str, ...] = ()
    """Ended sessions whose tests have left threads that may still send requests."""
    resume: bool = False
    """Whether it is running, and only becomes the session of requests that name none."""
    change: bool = False
    """Whether it is running, and only its mode and scenario change."""


class SessionFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fault rules of a session."""

    faults: tuple[str, ...]


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
    incomplete_files: tuple[str, ...] = ()
    """The files of incomplete recordings, which are not replayed."""
    unplayed_files: tuple[str, ...] = ()
    """The session's own cassettes that were neither played nor recorded, at its end."""
    misses: tuple[MissReport, ...] = ()
    scenario_failures: tuple[str, ...] = ()
    """Why requests did not match their scenario, one sentence for each request."""
    lost_recordings: tuple[str, ...] = ()
    """Why recordings were lost, one sentence for each."""
    aborted: int = 0
    """Responses that were cut off at the end of the session."""
