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
    NO_DATE,
    NO_READ_TIMES,
    NO_TIMES,
    ForeignFormat,
    NotImportable,
    ParsedFile,
    SourceExchange,
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
    entry = fields.require_object(item, "fields")
    request_fields = fields.require_object(entry.get("request"), "request")
    response_fields = fields.require_object(entry.get("response"), "response")
    for message, known in ((request_fields, _REQUEST_FIELDS), (response_fields, _RESPONSE_FIELDS)):
        standard_fields = {
            name: value for name, value in message.items() if not name.startswith("_")
        }
        fields.reject_unknown_fields(
            standard_fields, known, "request" if message is request_fields else "response"
        )
    request_body, from_parameters = _parse_request_body(request_fields)
    request, host = fields.build_request_and_host(
        request_fields.get("method"),
        request_fields.get("url"),
        fields.parse_headers(request_fields.get("headers")),
        request_body,
    )
    if response_fields.get("status") == 0:
        raise NotImportable(
            f"it has no answer: {response_fields.get('_error') or 'the request failed'}"
        )
    response_body = _parse_response_body(response_fields)
    if not response_body and any(entry.get(name) for name in _CHROME_MESSAGE_FIELDS):
        raise NotImportable("the body of its response was kept as messages alone")
    head_at_ms, end_at_ms = _head_and_end_ms(entry)
    recorded = fields.normalize_timestamp(entry.get("startedDateTime"))
    time_loss = NO_TIMES if end_at_ms is None else NO_READ_TIMES
    losses = (
        time_loss,
        *((FORM_PARAMETERS,) if from_parameters else ()),
        *(() if recorded else (NO_DATE,)),
    )
    return SourceExchange(
        request=request,
        host=host,
        status=fields.parse_status(response_fields.get("status")),
        reason_phrase=str(response_fields.get("statusText") or ""),
        response_headers=fields.parse_headers(response_fields.get("headers")),
        response_body=response_body,
        head_at_ms=head_at_ms,
        end_at_ms=end_at_ms,
        recorded_at=recorded,
        losses=losses,
    )


def _parse_request_body(request: dict[str, Any]) -> tuple[bytes, bool]:
    post_data = fields.require_object(request.get("postData") or {}, "object in its postData")
    fields.reject_unknown_fields(post_data, _POST_DATA_FIELDS, "postData")
    text, parameters = post_data.get("text"), post_data.get("params")
    size = fields.nonnegative_number(request.get("bodySize")) or 0
    if not text and parameters:
        return _encode_form_parameters(post_data), True
    encoding = post_data.get("encoding") or post_data.get("_encoding")
    return _require_complete_body(_decode_body_text(text, encoding, size), "request", size), False


def _encode_form_parameters(post_data: dict[str, Any]) -> bytes:
    """The URL-encoded form of stored parameters.

    Raises `NotImportable` for a multipart form.
    """
    media_type = (
        str(post_data.get("mimeType") or _FORM_MEDIA_TYPE).partition(";")[0].strip().lower()
    )
    if media_type != _FORM_MEDIA_TYPE or not isinstance(post_data["params"], list):
        raise NotImportable(
            "of the body of its request parameters were kept, and it is no plain form"
        )
    parameters = [
        fields.require_object(param, "parameter in a place of its form")
        for param in post_data["params"]
    ]
    for parameter in parameters:
        fields.reject_unknown_fields(parameter, ("name", "value", "comment"), "form")
    pairs = [
        (str(parameter.get("name") or ""), str(parameter.get("value") or ""))
        for parameter in parameters
    ]
    return urlencode(pairs, errors="surrogatepass").encode()


def _parse_response_body(response: dict[str, Any]) -> bytes:
    content = fields.require_object(response.get("content") or {}, "object in its content")
    fields.reject_unknown_fields(content, _CONTENT_FIELDS, "content")
    size = fields.nonnegative_number(content.get("size"))
    if size is None:
        size = fields.nonnegative_number(response.get("bodySize")) or 0
    saved_bytes = content.get("compression")
    saved_bytes = (
        saved_bytes if isinstance(saved_bytes, int | float) and saved_bytes == saved_bytes else 0
    )
    sizes = (size, size + saved_bytes)  # some tools count compressed bytes
    return _require_complete_body(
        _decode_body_text(content.get("text"), content.get("encoding"), *sizes), "response", *sizes
    )


def _require_complete_body(body: bytes, label: str, *sizes: float) -> bytes:
    """The body if it is not shorter than the smallest size.  Raises `NotImportable`."""
    if len(body) >= min(sizes):
        return body
    if not body:
        raise NotImportable(f"the body of its {label} was not kept")
    raise NotImportable(
        f"the body of its {label} was not kept whole: {len(body)} bytes of {min(sizes):.0f}"
    )


def _decode_body_text(text: Any, encoding: Any, *sizes: float) -> bytes:
    """The bytes of a body stored as text, whose size was one of these.

    mitmproxy decodes a body without a charset as Latin-1, each byte one character: detected by the
    number of characters, and by bytes that are UTF-8 or binary.
    """
    plain = (
        _decode_base64_chunks(text)
        if _is_base64_chunks(text, encoding)
        else fields.decode_stored_body(text, encoding)
    )
    if not isinstance(text, str) or encoding or len(plain) in sizes or len(text) not in sizes:
        return plain
    try:
        latin1_bytes = text.encode("latin-1")
        if _BINARY_CHARS.search(text) is None:
            latin1_bytes.decode("utf-8")
    except UnicodeError:
        return plain
    return latin1_bytes


def _is_base64_chunks(text: Any, encoding: Any) -> bool:
    """Whether a text is a list of base64 pieces, as Polly.JS stores compressed bodies."""
    return encoding == "base64" and isinstance(text, str) and text.startswith("[")


def _decode_base64_chunks(text: str) -> bytes:
    try:
        pieces = orjson.loads(text)
    except ValueError:
        raise NotImportable("a body is no base64, as it should be") from None
    return b"".join(map(fields.decode_base64_body, pieces))


def _head_and_end_ms(entry: dict[str, Any]) -> tuple[float | None, float | None]:
    """The times of the head and of the end in ms, or None; HAR's -1 means unknown."""
    timings = entry.get("timings")
    if isinstance(timings, dict):
        wait_ms, receive_ms = (
            fields.nonnegative_number(timings.get("wait")),
            fields.nonnegative_number(timings.get("receive")),
        )
        if wait_ms is not None and (wait_ms or receive_ms):
            return wait_ms, wait_ms + (receive_ms or 0)
    total_ms = fields.nonnegative_number(entry.get("time"))
    return (None, total_ms) if total_ms else (None, None)


HAR: Final = ForeignFormat("har", "HAR", _matches_format, _list_items, _parse_exchange)
