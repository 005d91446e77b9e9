"""HAR 1.2, as browsers, Charles, mitmproxy and libraries write it.

    {"log": {"entries": [{"startedDateTime", "time", "timings": {"send", "wait", "receive"},
       "request": {"method", "url", "headers": [{"name", "value"}], "postData": {"text"}},
       "response": {"status", "statusText", "headers", "content": {"text", "encoding"}}}]}}

Bodies are decoded by convention, whatever the value of `Content-Encoding`.  Polly.JS stores
compressed ones unchanged: `text` is a JSON list of base64 pieces.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from llm_proxy.importing import fields
from llm_proxy.importing.source import (
    FORM_PARAMETERS,
    ForeignFormat,
    NotImportable,
    ParsedFile,
    SourceExchange,
    SourceMessage,
)

_BINARY_CHARS: Final = re.compile(r"[\x00-\x08\x0e-\x1f]")
"""Characters that indicate binary data."""
_REQUEST_FIELDS: Final = frozenset(
    ("method", "url", "httpVersion", "cookies", "headers", "queryString", "postData",
     "headersSize", "bodySize", "comment")
)  # fmt: skip
_RESPONSE_FIELDS: Final = frozenset(
    ("status", "statusText", "httpVersion", "cookies", "headers", "content", "redirectURL",
     "headersSize", "bodySize", "comment")
)  # fmt: skip
_POST_DATA_FIELDS: Final = frozenset(
    ("mimeType", "text", "params", "encoding", "_encoding", "comment")
)
_CONTENT_FIELDS: Final = frozenset(
    ("mimeType", "text", "size", "compression", "encoding", "comment")
)
_CHROME_MESSAGE_FIELDS: Final = ("_eventSourceMessages", "_webSocketMessages")
"""Fields where Chrome stores bodies that are not in `content`."""
_FORM_MEDIA_TYPE: Final = "application/x-www-form-urlencoded"


def _matches_format(parsed_file: ParsedFile) -> bool:
    document = parsed_file.document
    log = document.get("log") if isinstance(document, dict) else None
    return isinstance(log, dict) and isinstance(log.get("entries"), list)


def _list_items(parsed_file: ParsedFile) -> list[Any]:
    entries: list[Any] = parsed_file.document["log"]["entries"]
    return entries


def _parse_exchange(item: Any) -> SourceExchange:
    entry = fields.require_object(item, "the entry")
    request = _require_message(entry, "request", _REQUEST_FIELDS)
    response = _require_message(entry, "response", _RESPONSE_FIELDS)
    request_message = _parse_request(request)
    if response.get("status") == 0:
        raise NotImportable(
            f"no response was recorded: {response.get('_error') or 'the request failed'}"
        )
    response_body = _parse_response_body(response)
    if not response_body and any(entry.get(name) for name in _CHROME_MESSAGE_FIELDS):
        raise NotImportable(
            "the response body is stored only as event or WebSocket messages; llm-proxy import "
            "cannot read these messages"
        )
    head_at_ms, end_at_ms = _head_and_end_ms(entry)
    return fields.build_exchange(
        request.get("method"),
        request.get("url"),
        request_message,
        response.get("status"),
        response.get("statusText"),
        SourceMessage(fields.parse_headers(response.get("headers")), response_body),
        recorded_at=fields.normalize_timestamp(entry.get("startedDateTime")),
        head_at_ms=head_at_ms,
        end_at_ms=end_at_ms,
    )


def _require_message(entry: dict[str, Any], name: str, known: frozenset[str]) -> dict[str, Any]:
    """The request or the response of an entry; `_` begins the name of a tool's own field."""
    message = fields.require_object(entry.get(name), f"the {name}")
    standard_fields = {field: value for field, value in message.items() if field[:1] != "_"}
    fields.reject_unknown_fields(standard_fields, known, f"the {name}")
    return message


def _parse_request(request: dict[str, Any]) -> SourceMessage:
    headers = fields.parse_headers(request.get("headers"))
    post_data = fields.require_object(request.get("postData") or {}, "postData")
    fields.reject_unknown_fields(post_data, _POST_DATA_FIELDS, "postData")
    text = post_data.get("text")
    if not text and post_data.get("params"):
        return SourceMessage(headers, _encode_form_parameters(post_data), (FORM_PARAMETERS,))
    size = fields.nonnegative_number(request.get("bodySize")) or 0
    body = _decode_body_text(text, post_data.get("encoding") or post_data.get("_encoding"), size)
    return SourceMessage(headers, _require_complete_body(body, "request", size))


def _encode_form_parameters(post_data: dict[str, Any]) -> bytes:
    """The URL-encoded form of stored parameters.

    Raises `NotImportable` for a multipart form.
    """
    content_type = str(post_data.get("mimeType") or _FORM_MEDIA_TYPE)
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != _FORM_MEDIA_TYPE or not isinstance(post_data["params"], list):
        raise NotImportable(
            "the request body is stored as form parameters, but the content type is not "
            f"{_FORM_MEDIA_TYPE}"
        )
    pairs: list[tuple[str, str]] = []
    for item in post_data["params"]:
        parameter = fields.require_object(item, "a form parameter")
        fields.reject_unknown_fields(parameter, ("name", "value", "comment"), "a form parameter")
        pairs.append((str(parameter.get("name") or ""), str(parameter.get("value") or "")))
    return urlencode(pairs, errors="surrogatepass").encode()


def _parse_response_body(response: dict[str, Any]) -> bytes:
    content = fields.require_object(response.get("content") or {}, "content")
    fields.reject_unknown_fields(content, _CONTENT_FIELDS, "content")
    size = fields.nonnegative_number(content.get("size"))
    if size is None:
        size = fields.nonnegative_number(response.get("bodySize")) or 0
    saved = content.get("compression")
    saved_bytes = saved if isinstance(saved, int | float) and saved == saved else 0
    sizes = (size, size + saved_bytes)  # some tools count compressed bytes
    body = _decode_body_text(content.get("text"), content.get("encoding"), *sizes)
    return _require_complete_body(body, "response", *sizes)


def _require_complete_body(body: bytes, label: str, *sizes: float) -> bytes:
    """The body if it is not shorter than the smallest size.  Raises `NotImportable`."""
    if len(body) >= min(sizes):
        return body
    if not body:
        raise NotImportable(f"the {label} body was not recorded")
    raise NotImportable(f"the {label} body is incomplete: {len(body)} of {min(sizes):.0f} bytes")


def _decode_body_text(text: Any, encoding: Any, *sizes: float) -> bytes:
    """The bytes of a body stored as text, whose size was one of these.

    Polly.JS stores compressed bytes as a list of base64 pieces.  mitmproxy decodes a body without a
    charset as Latin-1, each byte one character: detected by the number of characters, and by bytes
    that are UTF-8 or binary.
    """
    if encoding == "base64" and isinstance(text, str) and text.startswith("["):
        try:
            pieces = orjson.loads(text)
        except ValueError:
            raise NotImportable("a body is not valid base64") from None
        return b"".join(map(fields.decode_base64_body, pieces))
    plain = fields.decode_stored_body(text, encoding)
    if not isinstance(text, str) or encoding or len(plain) in sizes or len(text) not in sizes:
        return plain
    try:
        latin1_bytes = text.encode("latin-1")
        if _BINARY_CHARS.search(text) is None:
            latin1_bytes.decode("utf-8")
    except UnicodeError:
        return plain
    return latin1_bytes


def _head_and_end_ms(entry: dict[str, Any]) -> tuple[float | None, float | None]:
    """The times of the head and of the end in ms, or None; HAR's -1 means unknown."""
    timings = entry.get("timings")
    if isinstance(timings, dict):
        wait_ms = fields.nonnegative_number(timings.get("wait"))
        receive_ms = fields.nonnegative_number(timings.get("receive"))
        if wait_ms is not None and (wait_ms or receive_ms):
            return wait_ms, wait_ms + (receive_ms or 0)
    return None, fields.nonnegative_number(entry.get("time")) or None


HAR: Final = ForeignFormat("har", "HAR", _matches_format, _list_items, _parse_exchange)
