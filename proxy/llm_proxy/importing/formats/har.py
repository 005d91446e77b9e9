"""HAR 1.2, as browsers, Charles, mitmproxy and libraries write it.

    {"log": {"entries": [{"startedDateTime", "time", "timings": {"send", "wait", "receive"},
       "request": {"method", "url", "headers": [{"name", "value"}], "postData": {"text"}},
       "response": {"status", "statusText", "headers", "content": {"text", "encoding"}}}]}}

Bodies are decoded by convention, whatever their heads say.  Polly.JS keeps those that are
compressed as they came: `text` is a JSON list of pieces in base64.
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
    NO_READS,
    NO_TIMES,
    ForeignFormat,
    NotImportable,
    OpenedFile,
    SourceExchange,
)

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0e-\x1f]")
"""What stands in bytes, and in no text."""
_REQUEST: Final = frozenset(
    ("method", "url", "httpVersion", "cookies", "headers", "queryString", "postData",
     "headersSize", "bodySize", "comment")
)  # fmt: skip
_RESPONSE: Final = frozenset(
    ("status", "statusText", "httpVersion", "cookies", "headers", "content", "redirectURL",
     "headersSize", "bodySize", "comment")
)  # fmt: skip
_POSTED: Final = frozenset(("mimeType", "text", "params", "encoding", "_encoding", "comment"))
_CONTENT: Final = frozenset(("mimeType", "text", "size", "compression", "encoding", "comment"))
_MESSAGES: Final = ("_eventSourceMessages", "_webSocketMessages")
"""Where Chrome keeps what it does not keep as content."""
_FORM: Final = "application/x-www-form-urlencoded"


def _matches_format(opened: OpenedFile) -> bool:
    document = opened.document
    log = document.get("log") if isinstance(document, dict) else None
    return isinstance(log, dict) and isinstance(log.get("entries"), list)


def _list_items(opened: OpenedFile) -> list[Any]:
    entries: list[Any] = opened.document["log"]["entries"]
    return entries


def _parse_exchange(item: Any) -> SourceExchange:
    document = fields.parse_fields(item, "fields")
    details = fields.parse_fields(document.get("request"), "request")
    answered = fields.parse_fields(document.get("response"), "response")
    for message, known in ((details, _REQUEST), (answered, _RESPONSE)):
        plain = {name: value for name, value in message.items() if not name.startswith("_")}
        fields.check_known_fields(plain, known, "request" if message is details else "response")
    sent, reduced = _parse_request_body(details)
    request, host = fields.parse_request(
        details.get("method"),
        details.get("url"),
        fields.parse_headers(details.get("headers")),
        sent,
    )
    if answered.get("status") == 0:
        raise NotImportable(f"it has no answer: {answered.get('_error') or 'the request failed'}")
    came = _parse_response_body(answered)
    if not came and any(document.get(name) for name in _MESSAGES):
        raise NotImportable("the body of its response was kept as messages alone")
    head_at, end_at = _parse_times(document)
    recorded = fields.parse_time(document.get("startedDateTime"))
    times = NO_TIMES if end_at is None else NO_READS
    losses = (times, *((FORM_PARAMETERS,) if reduced else ()), *(() if recorded else (NO_DATE,)))
    return SourceExchange(
        request=request,
        host=host,
        status=fields.parse_status(answered.get("status")),
        reason=str(answered.get("statusText") or ""),
        headers=fields.parse_headers(answered.get("headers")),
        body=came,
        head_at=head_at,
        end_at=end_at,
        recorded=recorded,
        losses=losses,
    )


def _parse_request_body(request: dict[str, Any]) -> tuple[bytes, bool]:
    posted = fields.parse_fields(request.get("postData") or {}, "object in its postData")
    fields.check_known_fields(posted, _POSTED, "postData")
    text, parameters = posted.get("text"), posted.get("params")
    size = fields.parse_number(request.get("bodySize")) or 0
    if not text and parameters:
        return _parse_form_parameters(posted), True
    encoding = posted.get("encoding") or posted.get("_encoding")
    return _check_complete(_decode_body_text(text, encoding, size), "request", size), False


def _parse_form_parameters(posted: dict[str, Any]) -> bytes:
    """A form of which the parameters were kept.

    Raises `NotImportable` for one of several parts.
    """
    kind = str(posted.get("mimeType") or _FORM).partition(";")[0].strip().lower()
    if kind != _FORM or not isinstance(posted["params"], list):
        raise NotImportable(
            "of the body of its request parameters were kept, and it is no plain form"
        )
    parameters = [
        fields.parse_fields(param, "parameter in a place of its form") for param in posted["params"]
    ]
    for parameter in parameters:
        fields.check_known_fields(parameter, ("name", "value", "comment"), "form")
    pairs = [
        (str(parameter.get("name") or ""), str(parameter.get("value") or ""))
        for parameter in parameters
    ]
    return urlencode(pairs, errors="surrogatepass").encode()


def _parse_response_body(response: dict[str, Any]) -> bytes:
    content = fields.parse_fields(response.get("content") or {}, "object in its content")
    fields.check_known_fields(content, _CONTENT, "content")
    size = fields.parse_number(content.get("size"))
    if size is None:
        size = fields.parse_number(response.get("bodySize")) or 0
    saved = content.get("compression")
    saved = saved if isinstance(saved, int | float) and saved == saved else 0
    sizes = (size, size + saved)  # some count what was compressed
    return _check_complete(
        _decode_body_text(content.get("text"), content.get("encoding"), *sizes), "response", *sizes
    )


def _check_complete(body: bytes, label: str, *sizes: float) -> bytes:
    """A body that is not shorter than its size.  Raises `NotImportable`."""
    if len(body) >= min(sizes):
        return body
    if not body:
        raise NotImportable(f"the body of its {label} was not kept")
    raise NotImportable(
        f"the body of its {label} was not kept whole: {len(body)} bytes of {min(sizes):.0f}"
    )


def _decode_body_text(text: Any, encoding: Any, *sizes: float) -> bytes:
    """A body that was kept as text, and was of one of these sizes.

    mitmproxy takes a body whose head names no charset for Latin-1, so each byte became a character:
    the number of bytes tells, and that they are UTF-8, or no text at all.
    """
    plain = (
        _parse_chunk_list(text)
        if _is_chunk_list(text, encoding)
        else fields.parse_text_body(text, encoding)
    )
    if not isinstance(text, str) or encoding or len(plain) in sizes or len(text) not in sizes:
        return plain
    try:
        single = text.encode("latin-1")
        if _CONTROLS.search(text) is None:
            single.decode("utf-8")
    except UnicodeError:
        return plain
    return single


def _is_chunk_list(text: Any, encoding: Any) -> bool:
    """Whether a text lists pieces in base64, as Polly.JS keeps a body that is compressed."""
    return encoding == "base64" and isinstance(text, str) and text.startswith("[")


def _parse_chunk_list(text: str) -> bytes:
    try:
        pieces = orjson.loads(text)
    except ValueError:
        raise NotImportable("a body is no base64, as it should be") from None
    return b"".join(map(fields.parse_base64, pieces))


def _parse_times(entry: dict[str, Any]) -> tuple[float | None, float | None]:
    """When the head came and when the end, in ms; -1 says that nobody knows."""
    timings = entry.get("timings")
    if isinstance(timings, dict):
        wait, receive = (
            fields.parse_number(timings.get("wait")),
            fields.parse_number(timings.get("receive")),
        )
        if wait is not None and (wait or receive):
            return wait, wait + (receive or 0)
    took = fields.parse_number(entry.get("time"))
    return (None, took) if took else (None, None)


HAR: Final = ForeignFormat("har", "HAR", _matches_format, _list_items, _parse_exchange)
