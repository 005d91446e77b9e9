"""HTTP message heads: forwarded headers, body framing, and validation on output.

Header fields are `str` decoded as Latin-1 (see `exchange`).
"""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.exchange import Framing, Headers, ResponseHead, header_value

HOP_BY_HOP: Final = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
     "te", "trailer", "transfer-encoding", "upgrade"}
)  # fmt: skip
"""Header fields of one connection, which are never passed on."""

_OURS: Final = HOP_BY_HOP | {"host", "content-length", "accept-encoding", "expect"}
_BODILESS: Final = {204, 304}
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def forwarded_headers(headers: Headers) -> Headers:
    """What a provider is sent of a client's headers; no content coding is asked for.

    Without those of the client's connection, and repeats of a name in the case of the first.
    """
    dropped = _OURS | _connection_header_names(headers)
    spelling: dict[str, str] = {}
    kept = tuple(
        (spelling.setdefault(name.lower(), name), value)
        for name, value in headers
        if name.lower() not in dropped
    )
    return (*kept, ("Accept-Encoding", "identity"))


def response_head(status: int, reason: str, headers: Headers, method: str) -> ResponseHead:
    """The head of a provider's response to `method`, without the fields of its connection."""
    framing, length = _body_framing(headers, status, method)
    dropped = HOP_BY_HOP | {"content-length"} | _connection_header_names(headers)
    kept = tuple(pair for pair in headers if pair[0].lower() not in dropped)
    return ResponseHead(status, reason, kept, framing, length)


def head_lines(head: ResponseHead) -> list[str]:
    """Status line and fields as they are written, HTTP/1.1.

    Raises `ValueError` for a head that could forge another response.
    """
    fields = (f"{_checked_name(name)}: {_checked_value(value)}" for name, value in head.headers)
    return [f"HTTP/1.1 {head.status} {_checked_value(head.reason)}", *fields]


def retry_after_ms(headers: Headers) -> float | None:
    """How long a response tells its client to wait, in ms; None where it tells no number."""
    for name, unit in (("retry-after-ms", 1), ("retry-after", 1000)):
        text = header_value(headers, name)
        if text is not None and _NUMBER.fullmatch(text.strip()):
            return float(text) * unit
    return None


def _connection_header_names(headers: Headers) -> set[str]:
    """The fields that `ClientConnection` names: they are of this connection alone, too."""
    values = (value for name, value in headers if name.lower() == "connection")
    return {name.strip().lower() for value in values for name in value.split(",")}


def _body_framing(headers: Headers, status: int, method: str) -> tuple[Framing, int | None]:
    """RFC 9112, section 6.3."""
    declared = header_value(headers, "content-length")
    length = int(declared) if declared is not None and declared.isdecimal() else None
    if method == "HEAD" or status in _BODILESS:
        return "none", length
    codings = ",".join(value for name, value in headers if name.lower() == "transfer-encoding")
    if codings:  # a length beside it does not count
        last = codings.rpartition(",")[2].strip().lower()
        return ("chunked" if last == "chunked" else "close"), None
    return ("close", None) if length is None else ("length", length)


def _checked_name(name: str) -> str:
    if _TOKEN.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no header name")
    return name


def _checked_value(value: str) -> str:
    if _CONTROLS.search(value) is not None:
        raise ValueError(f"{value!r} is no header value")
    return value
