"""The HTTP exchange: one request, and the head, reads and ending of its response.

Times are offsets in milliseconds from the moment the request was read in full.
Header names and values are `str` decoded as Latin-1, which maps every byte to
one character and back, so nothing is lost on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Headers = tuple[tuple[str, str], ...]
"""Header pairs in their order, names in their case, repeats kept."""

Framing = Literal["chunked", "length", "close", "none"]
"""How HTTP delimits a body: by chunks, by a declared length, by closing, or no body at all."""


def header_value(headers: Headers, name: str) -> str | None:
    """The first value of `name`, whatever its case, or None."""
    wanted = name.lower()
    return next((value for key, value in headers if key.lower() == wanted), None)


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the client sent it, without our own path prefixes and headers."""

    method: str
    path: str
    """Percent-encoded as it came, without the query."""
    query: str
    """As it came, without the question mark."""
    headers: Headers
    body: bytes

    @property
    def request_target(self) -> str:
        """Path and query as they stand in a request line."""
        return f"{self.path}?{self.query}" if self.query else self.path


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The head of a response."""

    status: int
    reason: str
    headers: Headers
    """Without `Content-Length`, `Transfer-Encoding` and the other hop-by-hop fields."""
    framing: Framing
    length: int | None = None
    """The declared length in bytes, where one was declared (also for an answer to HEAD)."""


@dataclass(frozen=True, slots=True)
class Read:
    """Bytes that arrived together: one piece of one chunk, as the network delivered it."""

    at_ms: float
    """ms since the request was read in full."""
    data: bytes


class Ending(StrEnum):
    """How the bytes stopped: evidence, stored in the cassette."""

    CLEAN = "clean"
    """The body ended as its framing says."""
    FIN = "fin"
    """The upstream closed before the framing's end."""
    RST = "rst"
    """The upstream reset the connection."""
    STALLED = "stalled"
    """The upstream sent nothing for longer than the idle limit."""
    MALFORMED = "malformed"
    """The upstream broke HTTP framing, or its content coding."""
    CLIENT_GONE = "client_gone"
    """The client left, and the upstream was let go."""
    RECORDER_ERROR = "recorder_error"
    """The recording could not be kept up (disk full); the client got everything."""
    KILLED = "killed"
    """The proxy itself was stopped while the stream ran."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an ending means for the exchange: a view, computed on load, never stored."""

    complete: bool
    """Whether everything that the provider meant to say is here."""
    proven: bool
    """Whether the protocol proves it; an opaque body delimited by close does not."""
    reason: str
    """Why, in a few words that fit a table."""

    def __str__(self) -> str:
        if not self.complete:
            return f"partial: {self.reason}"
        return "complete" if self.proven else f"complete, unproven: {self.reason}"
