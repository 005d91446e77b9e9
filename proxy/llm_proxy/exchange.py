"""The HTTP exchange: one request, and the head, reads and ending of its response.

Times are offsets in milliseconds from the time the request was read in full.
Header names and values are `str` decoded as Latin-1, which maps every byte to
one character and back without loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Headers = tuple[tuple[str, str], ...]
"""Header pairs in order, names with their original case, repeats kept."""

Framing = Literal["chunked", "length", "close", "none"]
"""How HTTP delimits a body: by chunks, by a declared length, by closing, or no body at all."""


def header_value(headers: Headers, name: str) -> str | None:
    """The first value of the header `name`, in any case; None if it is absent."""
    wanted = name.lower()
    return next((value for key, value in headers if key.lower() == wanted), None)


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the client sent it, without this proxy's path prefixes and headers."""

    method: str
    path: str
    """Percent-encoded as received, without the query."""
    query: str
    """As received, without the question mark."""
    headers: Headers
    body: bytes

    @property
    def request_target(self) -> str:
        """Path and query as in a request line."""
        return f"{self.path}?{self.query}" if self.query else self.path


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The head of a response."""

    status: int
    reason: str
    headers: Headers
    """Without `Content-Length`, `Transfer-Encoding` and the other hop-by-hop fields."""
    framing: Framing
    content_length: int | None = None
    """The value of `Content-Length` in bytes, if it was sent (also in a response to HEAD)."""


@dataclass(frozen=True, slots=True)
class Read:
    """Body bytes that one network read delivered, and when: at most one piece of one chunk."""

    at_ms: float
    """ms since the request was read in full."""
    received_bytes: bytes


class Ending(StrEnum):
    """How the response body ended, as observed; stored in the cassette."""

    CLEAN = "clean"
    """The body ended as its framing requires."""
    FIN = "fin"
    """The upstream closed the connection before the end of the body."""
    RST = "rst"
    """The upstream reset the connection."""
    STALLED = "stalled"
    """The upstream sent nothing for longer than the idle limit."""
    MALFORMED = "malformed"
    """The upstream sent invalid HTTP framing or invalid content coding."""
    CLIENT_GONE = "client_gone"
    """The client disconnected, and the upstream connection was released."""
    RECORDER_ERROR = "recorder_error"
    """The recording could not be written (disk full); the client got everything."""
    KILLED = "killed"
    """The proxy itself was stopped during the stream."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether an exchange is complete, from its ending: computed on load, never stored."""

    is_complete: bool
    """Whether the whole response is there."""
    is_proven: bool
    """Whether the protocol proves that; an opaque body delimited by close does not."""
    reason: str
    """Why, in a few words that fit a table cell."""

    def __str__(self) -> str:
        if not self.is_complete:
            return f"partial: {self.reason}"
        return "complete" if self.is_proven else f"complete, unproven: {self.reason}"
