"""The HTTP exchange: one request, and the head, reads and ending of its response.

Heads: forwarded headers, body framing, and validation on output.

Times are offsets in milliseconds from the time the request was read in full.
Header names and values are `str` decoded as Latin-1, which maps every byte to
one character and back without loss.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

Headers = tuple[tuple[str, str], ...]
"""Header pairs in order, names with their original case, repeats kept."""

Framing = Literal["chunked", "length", "close", "none"]
"""How HTTP delimits a body: by chunks, by a declared length, by closing, or no body at all."""

HOP_BY_HOP_HEADERS: Final = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
     "te", "trailer", "transfer-encoding", "upgrade"}
)  # fmt: skip
"""Hop-by-hop header fields, in lower case: they are never forwarded."""

_NOT_FORWARDED: Final = HOP_BY_HOP_HEADERS | {"host", "content-length", "accept-encoding", "expect"}
_BODILESS_STATUSES: Final = {204, 304}
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DECIMAL_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


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
    is_error: bool = False
    """Whether the response is an error: by its status, or by the end of its stream."""

    def __str__(self) -> str:
        if not self.is_complete:
            return f"partial: {self.reason}"
        return "complete" if self.is_proven else f"complete, unproven: {self.reason}"


def forwarded_request_headers(headers: Headers) -> Headers:
    """The headers of a client's request to forward, with `Accept-Encoding: identity`.

    Hop-by-hop headers are dropped; repeats of a name get the case of the first.
    """
    dropped = _NOT_FORWARDED | _connection_header_names(headers)
    first_spelling: dict[str, str] = {}
    kept = tuple(
        (first_spelling.setdefault(name.lower(), name), value)
        for name, value in headers
        if name.lower() not in dropped
    )
    return (*kept, ("Accept-Encoding", "identity"))


def response_head(status: int, reason: str, headers: Headers, method: str) -> ResponseHead:
    """The head of a provider's response to `method`, without hop-by-hop headers."""
    framing, length = _body_framing(headers, status, method)
    dropped = HOP_BY_HOP_HEADERS | {"content-length"} | _connection_header_names(headers)
    kept = tuple(pair for pair in headers if pair[0].lower() not in dropped)
    return ResponseHead(status, reason, kept, framing, length)


def head_lines(head: ResponseHead) -> list[str]:
    """The status line and header lines of a head in HTTP/1.1, without line ends.

    Raises `ValueError` for a head that would allow header injection or response splitting.
    """
    lines = [f"HTTP/1.1 {head.status} {_checked_header_value(head.reason)}"]
    for name, value in head.headers:
        if _HEADER_NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is not a valid header name")
        lines.append(f"{name}: {_checked_header_value(value)}")
    return lines


def retry_after_ms(headers: Headers) -> float | None:
    """The delay of `Retry-After-Ms` or `Retry-After` in ms; None without a number in them."""
    for name, ms_per_unit in (("retry-after-ms", 1), ("retry-after", 1000)):
        text = header_value(headers, name)
        if text is not None and _DECIMAL_NUMBER.fullmatch(text.strip()):
            return float(text) * ms_per_unit
    return None


def _connection_header_names(headers: Headers) -> set[str]:
    """The names, in lower case, that `Connection` lists: these fields are hop-by-hop too."""
    values = (value for name, value in headers if name.lower() == "connection")
    return {name.strip().lower() for value in values for name in value.split(",")}


def _body_framing(headers: Headers, status: int, method: str) -> tuple[Framing, int | None]:
    """RFC 9112, section 6.3."""
    declared = header_value(headers, "content-length")
    length = int(declared) if declared is not None and declared.isdecimal() else None
    if method == "HEAD" or status in _BODILESS_STATUSES:
        return "none", length
    codings = ",".join(value for name, value in headers if name.lower() == "transfer-encoding")
    if codings:  # Content-Length is ignored then
        last = codings.rpartition(",")[2].strip().lower()
        return ("chunked" if last == "chunked" else "close"), None
    return ("close", None) if length is None else ("length", length)


def _checked_header_value(value: str) -> str:
    if _CONTROL_CHARACTER.search(value) is not None:
        raise ValueError(f"{value!r} is not a valid header value")
    return value
