"""HTTP message heads: forwarded headers, body framing, and validation on output.

Header fields are `str` decoded as Latin-1 (see `exchange`).
"""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.exchange import Framing, Headers, ResponseHead, header_value

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
    fields = (
        f"{_checked_header_name(name)}: {_checked_header_value(value)}"
        for name, value in head.headers
    )
    return [f"HTTP/1.1 {head.status} {_checked_header_value(head.reason)}", *fields]


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


def _checked_header_name(name: str) -> str:
    if _HEADER_NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no header name")
    return name


def _checked_header_value(value: str) -> str:
    if _CONTROL_CHARACTER.search(value) is not None:
        raise ValueError(f"{value!r} is no header value")
    return value
