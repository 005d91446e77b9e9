"""Checks and converts the fields of untrusted foreign files."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote, urlsplit

from llm_proxy.errors import printable_excerpt
from llm_proxy.exchange import Headers, Request, header_value
from llm_proxy.importing.source import NotImportable, UnsupportedYamlObject

_HTTP_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL_CHARS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]+")
_NON_URL_CHARS: Final = re.compile(r"[^\x21-\x7e]+")
"""Characters that a request line must percent-encode."""
_SECRET_URL_PARTS: Final = re.compile(r"[^/@?#]*@|[?#].*", re.DOTALL)
"""Parts of a URL that may hold a secret: user info, query and fragment."""
_MIN_STATUS, _MAX_STATUS = 200, 999


def require_object(value: Any, label: str) -> dict[str, Any]:
    """The value if it is an object.  Raises `NotImportable` otherwise; `label` names it."""
    if isinstance(value, UnsupportedYamlObject):
        raise NotImportable(value.reason)
    if not isinstance(value, dict):
        raise NotImportable(f"it has no {label}")
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
                f"its {label} has a field {shown_name}, which is not known and may be of a body"
            )


def build_request_and_host(
    method: Any, url: Any, headers: Headers, body: bytes
) -> tuple[Request, str]:
    """A request, and its host in lower case, or empty.  Raises `NotImportable`."""
    if not isinstance(method, str) or _HTTP_TOKEN.fullmatch(method) is None:
        raise NotImportable("its request has no method")
    if method.upper() == "CONNECT":
        raise NotImportable("it opens a tunnel, which is no exchange of its own")
    host, path, query = _split_url(url)
    return Request(method.upper(), path, query, headers, body), host


def _split_url(url: Any) -> tuple[str, str, str]:
    if not isinstance(url, str) or not url.strip():
        raise NotImportable("its request has no URL")
    text = url.strip()
    try:
        parts = urlsplit(text if "://" in text or text.startswith("/") else "//" + text)
        host = (parts.hostname or "").lower()
    except ValueError:
        shown_url = printable_excerpt(_SECRET_URL_PARTS.sub("", url), 100)
        raise NotImportable(f"{shown_url} is no URL") from None
    return host, _percent_encode(parts.path) or "/", _percent_encode(parts.query)


def _percent_encode(text: str) -> str:
    return _NON_URL_CHARS.sub(lambda match: quote(match[0], errors="replace"), text)


def parse_status(value: Any) -> int:
    """The status code of 200, `200` or `200 OK`.

    Raises `NotImportable` for what is no status of a final response (200 to 999).
    """
    code = value.partition(" ")[0] if isinstance(value, str) else value
    try:
        number = int(code)
    except (TypeError, ValueError, OverflowError):
        raise NotImportable("its response has no status") from None
    if not _MIN_STATUS <= number <= _MAX_STATUS:
        raise NotImportable(
            f"its status is {printable_excerpt(str(number), 20)}: no answer that is over with "
            "its body"
        )
    return number


def parse_headers(value: Any) -> Headers:
    """Headers from an object of values or lists, or a list of pairs or of name-value objects."""
    pairs = (
        (clean_header_text(name), clean_header_text(content))
        for name, content in _header_pairs(value)
    )
    return tuple((name, text) for name, text in pairs if _HTTP_TOKEN.fullmatch(name))


def _header_pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    match value:
        case dict():
            for name, values in value.items():
                for item in values if isinstance(values, list) else [values]:
                    yield name, item
        case list():
            for pair in value:
                match pair:
                    case [name, item]:
                        yield name, item
                    case {"name": name, "value": item}:
                        yield name, item
                    case _:
                        continue
        case _:
            return


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
                f"a body has the encoding {printable_excerpt(unknown, 80)}, which is not known"
            )


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
        raise NotImportable("a body is no base64, as it should be") from None


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
            time = _parse_time_text(str(value).strip())
        time = time.replace(tzinfo=time.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError, OSError, TypeError):
        return ""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _parse_time_text(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return parsedate_to_datetime(text)


def response_date(headers: Headers) -> str:
    """The `date` of response headers, as `normalize_timestamp` returns it; empty without one."""
    text = header_value(headers, "date")
    return normalize_timestamp(text) if text else ""
