"""Reads the fields, bodies and messages of untrusted foreign files."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote, urlsplit

import orjson

from llm_proxy.errors import printable_excerpt
from llm_proxy.exchange import Ending, Headers, Read, Request, header_value
from llm_proxy.importing.source import (
    NO_DATE,
    NO_EVENT_BYTES,
    NO_READ_TIMES,
    NO_TIMES,
    NotImportable,
    SourceExchange,
    SourceMessage,
    UnsupportedYamlObject,
)

_HTTP_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL_CHARS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]+")
_NON_URL_CHARS: Final = re.compile(r"[^\x21-\x7e]+")
"""Characters that a request line must percent-encode."""
_SECRET_URL_PARTS: Final = re.compile(r"[^/@?#]*@|[?#].*", re.DOTALL)
"""Parts of a URL that may hold a secret: user info, query and fragment."""
_MIN_STATUS, _MAX_STATUS = 200, 999
_CODING_HEADERS: Final = ("content-encoding", "content-length")
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_LINE_END: Final = re.compile(r"\r?\n")
"""HTTP's line end: `str.splitlines` would also split at some UTF-8 bytes in Latin-1."""
_CHUNK_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,12})[^\r\n]{0,1000}\r\n")

_TRAILERS: Final = re.compile(rb"(?:[^\r\n:]{1,1000}:[^\r\n]{0,10000}\r\n)*(?:\r\n)?")


def require_object(value: Any, label: str) -> dict[str, Any]:
    """The value if it is an object.  Raises `NotImportable` otherwise; `label` names it."""
    if isinstance(value, UnsupportedYamlObject):
        raise NotImportable(value.reason)
    if not isinstance(value, dict):
        raise NotImportable(f"{label} is missing or not an object")
    return value


def reject_unknown_fields(message: dict[str, Any], known: Collection[str], label: str) -> None:
    """Raises `NotImportable` for an unknown field, which may belong to a body.

    Numbers and empty values cannot; any other unknown field must not be dropped silently.
    """
    for name, value in message.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value and not is_number and name not in known:
            shown_name = printable_excerpt(name, 80)
            raise NotImportable(
                f"unknown field '{shown_name}' in {label}; this field may contain part of the body"
            )


def require_message(exchange: dict[str, Any], name: str, known: Collection[str]) -> dict[str, Any]:
    """The `request` or the `response` of an exchange.

    Raises `NotImportable` if it is no object, or has an unknown field.
    """
    message = require_object(exchange.get(name), f"the {name}")
    reject_unknown_fields(message, known, f"the {name}")
    return message


def build_exchange(
    method: Any,
    url: Any,
    request: SourceMessage,
    status: Any,
    reason_phrase: Any,
    response: SourceMessage,
    *,
    recorded_at: str | None = None,
    reads: tuple[Read, ...] = (),
    head_at_ms: float | None = None,
    end_at_ms: float | None = None,
    ending: Ending = Ending.CLEAN,
) -> SourceExchange:
    """The exchange of two messages, with the losses that its times show.

    Without `recorded_at` the response's `date` counts.  Raises `NotImportable`.
    """
    if not isinstance(method, str) or _HTTP_TOKEN.fullmatch(method) is None:
        raise NotImportable("the request has no valid method")
    if method.upper() == "CONNECT":
        raise NotImportable("the request is a CONNECT request, which cannot be imported")
    host, path, query = _split_url(url)
    if recorded_at is None:
        date = header_value(response.headers, "date")
        recorded_at = normalize_timestamp(date) if date else ""
    if reads:
        time_loss = NO_EVENT_BYTES
    else:
        time_loss = NO_TIMES if head_at_ms is None and end_at_ms is None else NO_READ_TIMES
    date_losses = () if recorded_at else (NO_DATE,)
    return SourceExchange(
        request=Request(method.upper(), path, query, request.headers, request.body),
        host=host,
        status=parse_status(status),
        reason_phrase=str(reason_phrase or ""),
        response_headers=response.headers,
        response_body=response.body,
        reads=reads,
        head_at_ms=head_at_ms,
        end_at_ms=end_at_ms,
        ending=ending,
        recorded_at=recorded_at,
        losses=(time_loss, *request.losses, *response.losses, *date_losses),
    )


def _split_url(url: Any) -> tuple[str, str, str]:
    """Host in lower case, path and query."""
    if not isinstance(url, str) or not url.strip():
        raise NotImportable("the request has no URL")
    text = url.strip()
    try:
        parts = urlsplit(text if "://" in text or text.startswith("/") else "//" + text)
        host = (parts.hostname or "").lower()
    except ValueError:
        shown_url = printable_excerpt(_SECRET_URL_PARTS.sub("", url), 100)
        raise NotImportable(f"'{shown_url}' is not a valid URL") from None
    path, query = (
        _NON_URL_CHARS.sub(lambda match: quote(match[0], errors="replace"), part)
        for part in (parts.path, parts.query)
    )
    return host, path or "/", query


def parse_status(value: Any) -> int:
    """The status code of 200, `200` or `200 OK`.

    Raises `NotImportable` for what is no status of a final response (200 to 999).
    """
    code = value.partition(" ")[0] if isinstance(value, str) else value
    try:
        number = int(code)
    except (TypeError, ValueError, OverflowError):
        raise NotImportable("the response has no valid status") from None
    if not _MIN_STATUS <= number <= _MAX_STATUS:
        raise NotImportable(
            f"the response status is {printable_excerpt(str(number), 20)}; it must be from "
            f"{_MIN_STATUS} to {_MAX_STATUS}"
        )
    return number


def parse_headers(value: Any) -> Headers:
    """Headers from an object of values or lists, or a list of pairs or of name-value objects."""
    pairs: list[tuple[Any, Any]] = []
    match value:
        case dict():
            for name, values in value.items():
                pairs += [
                    (name, item) for item in (values if isinstance(values, list) else [values])
                ]
        case list():
            for pair in value:
                match pair:
                    case [name, item] | {"name": name, "value": item}:
                        pairs.append((name, item))
                    case _:
                        pass
        case _:
            pass
    cleaned = ((clean_header_text(name), clean_header_text(item)) for name, item in pairs)
    return tuple((name, text) for name, text in cleaned if _HTTP_TOKEN.fullmatch(name))


def without_coding_headers(headers: Headers) -> Headers:
    """The headers without those that only fit a compressed body."""
    return tuple(pair for pair in headers if pair[0].lower() not in _CODING_HEADERS)


def media_type(headers: Headers) -> str:
    """The media type in lower case without parameters; empty without a content type."""
    return (header_value(headers, "content-type") or "").partition(";")[0].strip().lower()


def clean_header_text(value: Any) -> str:
    """A header name, value or reason phrase: Latin-1 without control characters."""
    if isinstance(value, bytes):
        text = value.decode("latin-1")
    else:
        text = "" if value is None else str(value)
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode("latin-1")
    return _CONTROL_CHARS.sub(" ", text).strip()


def body_to_bytes(value: Any) -> bytes:
    """The bytes of a body stored as text, bytes or None.  Raises `NotImportable` otherwise."""
    match value:
        case None:
            return b""
        case bytes():
            return value
        case str():
            return value.encode("utf-8", "surrogatepass")
        case _:
            raise NotImportable("a body is neither text nor bytes")


def decode_stored_body(value: Any, encoding: Any) -> bytes:
    """The bytes of a body stored as text in UTF-8 or base64.

    Raises `NotImportable` for another encoding.
    """
    match str(encoding or "").lower():
        case "base64":
            return decode_base64_body(value)
        case "" | "utf-8" | "utf8":
            return body_to_bytes(value)
        case unknown:
            raise NotImportable(
                f"a body has the unknown encoding '{printable_excerpt(unknown, 80)}'"
            )


def dump_json(parsed: Any) -> bytes:
    """The bytes of a body stored parsed.  Raises `NotImportable` for what is not JSON."""
    try:
        return orjson.dumps(parsed)
    except TypeError:
        raise NotImportable(
            "the file contains a parsed body with a value that cannot be serialised as JSON"
        ) from None


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are valid UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def decode_base64_body(value: Any) -> bytes:
    """The bytes of a body stored as base64.  Raises `NotImportable` for what is none."""
    text = body_to_bytes(value)
    try:
        return b64decode(b"".join(text.split()), validate=True)
    except ValueError:
        raise NotImportable("a body is not valid base64") from None


def nonnegative_number(value: Any) -> float | None:
    """A finite number that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if 0 <= number < float("inf") else None


def normalize_timestamp(value: Any) -> str:
    """A time as ISO 8601 in UTC with milliseconds (`meta.recorded`); empty for no valid time.

    The value is ISO 8601, an HTTP date, or seconds since 1970; UTC without a time zone.
    """
    try:
        if isinstance(value, int | float):
            time = datetime.fromtimestamp(value, UTC)
        else:
            text = str(value).strip()
            try:
                time = datetime.fromisoformat(text)
            except ValueError:
                time = parsedate_to_datetime(text)
        time = time.replace(tzinfo=time.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError, OSError, TypeError):
        return ""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_http_message(data: bytes, label: str) -> tuple[list[str], SourceMessage]:
    """The words of the start line, and the message without chunk framing.

    Raises `NotImportable`; `label` names the message.
    """
    head_end = _HEAD_END.search(data)
    if head_end is None:
        raise NotImportable(f"the headers of the {label} are incomplete")
    start_line, *lines = _LINE_END.split(data[: head_end.start()].decode("latin-1"))
    start_words = start_line.split(" ", 2)
    if len(start_words) < 2:
        raise NotImportable(f"the {label} does not begin with an HTTP start line")
    headers = parse_headers([list(line.partition(":")[::2]) for line in lines])
    body = data[head_end.end() :]
    if (header_value(headers, "transfer-encoding") or "").lower().endswith("chunked"):
        body = decode_chunked_body(body, label)
    return start_words, SourceMessage(headers, body)


def decode_chunked_body(data: bytes, label: str) -> bytes:
    """A body without chunk framing.  Raises `NotImportable`; `label` names the message."""
    pieces: list[bytes] = []
    offset = 0
    while True:
        size = _CHUNK_SIZE_LINE.match(data, offset)
        if size is None:
            raise NotImportable(f"the {label} body is truncated: a chunk size is missing")
        length = int(size[1], 16)
        if length == 0:
            if _TRAILERS.fullmatch(data, size.end()) is None:
                raise NotImportable(f"unexpected data after the last chunk of the {label}")
            return b"".join(pieces)
        end = size.end() + length
        if data[end : end + 2] != b"\r\n":
            raise NotImportable(f"the {label} body is truncated inside a chunk")
        pieces.append(data[size.end() : end])
        offset = end + 2
