"""Parses the fields of foreign files, whatever they contain."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote, urlsplit

from llm_proxy.errors import printable
from llm_proxy.exchange import Headers, Request, header_value
from llm_proxy.importing.source import NotImportable, UnsupportedObject

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]+")
_OUTSIDE: Final = re.compile(r"[^\x21-\x7e]+")
"""What cannot stand in a request line as it is."""
_PRIVATE: Final = re.compile(r"[^/@?#]*@|[?#].*", re.DOTALL)
"""What may hold a secret in a URL: a password, and parameters."""
_LEAST_STATUS, _MOST_STATUS = 200, 999


def parse_fields(value: Any, label: str) -> dict[str, Any]:
    """An object.  Raises `NotImportable` for what is none; `what` names it."""
    if isinstance(value, UnsupportedObject):
        raise NotImportable(value.reason)
    if not isinstance(value, dict):
        raise NotImportable(f"it has no {label}")
    return value


def check_known_fields(message: dict[str, Any], known: Collection[str], label: str) -> None:
    """Raises `NotImportable` where a message has a field beyond these that could be of its body.

    Numbers and empty values are of none; what else is not understood must not be left out.
    """
    for name, value in message.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value and not is_number and name not in known:
            named = printable(name, 80)
            raise NotImportable(
                f"its {label} has a field {named}, which is not known and may be of a body"
            )


def parse_request(method: Any, url: Any, headers: Headers, body: bytes) -> tuple[Request, str]:
    """A request, and the host that it went to.  Raises `NotImportable`."""
    if not isinstance(method, str) or _TOKEN.fullmatch(method) is None:
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
        named = printable(_PRIVATE.sub("", url), 100)
        raise NotImportable(f"{named} is no URL") from None
    return host, _percent_encode(parts.path) or "/", _percent_encode(parts.query)


def _percent_encode(text: str) -> str:
    return _OUTSIDE.sub(lambda match: quote(match[0], errors="replace"), text)


def parse_status(value: Any) -> int:
    """The code of a status: 200, `200`, `200 OK`.

    Raises `NotImportable` for none of a final answer.
    """
    code = value.partition(" ")[0] if isinstance(value, str) else value
    try:
        number = int(code)
    except (TypeError, ValueError, OverflowError):
        raise NotImportable("its response has no status") from None
    if not _LEAST_STATUS <= number <= _MOST_STATUS:
        raise NotImportable(
            f"its status is {printable(str(number), 20)}: no answer that is over with its body"
        )
    return number


def parse_headers(value: Any) -> Headers:
    """Headers, as an object of values or lists, or a list of pairs or of names with values."""
    pairs = (
        (parse_header_text(name), parse_header_text(content))
        for name, content in _header_pairs(value)
    )
    return tuple((name, each) for name, each in pairs if _TOKEN.fullmatch(name))


def _header_pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    match value:
        case dict():
            for name, argument in value.items():
                for item in argument if isinstance(argument, list) else [argument]:
                    yield name, item
        case list():
            for content in value:
                match content:
                    case [name, item]:
                        yield name, item
                    case {"name": name, "value": item}:
                        yield name, item
                    case _:
                        continue
        case _:
            return


def parse_header_text(value: Any) -> str:
    """A name, a value or a reason as a head has it: Latin-1, without control characters."""
    if isinstance(value, bytes):
        text = value.decode("latin-1")
    else:
        text = "" if value is None else str(value)
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode("latin-1")
    return _CONTROLS.sub(" ", text).strip()


def parse_content(value: Any) -> bytes:
    """A body that was kept as text or bytes.  Raises `NotImportable` for anything else."""
    match value:
        case None:
            return b""
        case bytes():
            return value
        case str():
            return value.encode("utf-8", "surrogatepass")
        case _:
            raise NotImportable("a body is neither text nor bytes")


def parse_text_body(value: Any, encoding: Any) -> bytes:
    """A body that was kept as text, in base64 where its encoding says so.

    Raises `NotImportable`.
    """
    match str(encoding or "").lower():
        case "base64":
            return parse_base64(value)
        case "" | "utf-8" | "utf8":
            return parse_content(value)
        case unknown:
            raise NotImportable(
                f"a body has the encoding {printable(unknown, 80)}, which is not known"
            )


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def parse_base64(value: Any) -> bytes:
    """A body that was kept in base64.  Raises `NotImportable`."""
    text = parse_content(value)
    try:
        return b64decode(b"".join(text.split()), validate=True)
    except ValueError:
        raise NotImportable("a body is no base64, as it should be") from None


def parse_number(value: Any) -> float | None:
    """A finite number that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if 0 <= found < float("inf") else None


def parse_time(value: Any) -> str:
    """A time as line 1 of a cassette has it; empty where it is none that can be read.

    ISO 8601, as HTTP has it, or in seconds since 1970; UTC where it does not say.
    """
    try:
        if isinstance(value, int | float):
            found = datetime.fromtimestamp(value, UTC)
        else:
            found = _parse_time_text(str(value).strip())
        found = found.replace(tzinfo=found.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError, OSError, TypeError):
        return ""
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _parse_time_text(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return parsedate_to_datetime(text)


def response_date(response: Headers) -> str:
    """When a response says that it was made; empty where it does not."""
    text = header_value(response, "date")
    return parse_time(text) if text else ""
