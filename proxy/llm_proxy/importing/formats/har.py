"""HAR 1.2, as browsers, Charles, mitmproxy and libraries write it.

    {"log": {"entries": [{"startedDateTime", "time", "timings": {"send", "wait", "receive"},
       "request": {"method", "url", "headers": [{"name", "value"}], "postData": {"text"}},
       "response": {"status", "statusText", "headers", "content": {"text", "encoding"}}}]}}

Bodies are decoded by convention, whatever their heads say.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlencode

from llm_proxy.importing import fields
from llm_proxy.importing.source import (
    FORM_PARAMETERS,
    NO_DATE,
    NO_READS,
    NO_TIMES,
    Format,
    Opened,
    SourceExchange,
    Unfit,
)

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0e-\x1f]")
"""What stands in bytes, and in no text."""


def _claims(opened: Opened) -> bool:
    document = opened.document
    log = document.get("log") if isinstance(document, dict) else None
    return isinstance(log, dict) and isinstance(log.get("entries"), list)


def _items(opened: Opened) -> list[Any]:
    entries: list[Any] = opened.document["log"]["entries"]
    return entries


def _exchange(item: Any) -> SourceExchange:
    it = fields.fields(item, "fields")
    asked = fields.fields(it.get("request"), "request")
    answered = fields.fields(it.get("response"), "response")
    sent, reduced = _sent(asked)
    request, host = fields.request(
        asked.get("method"), asked.get("url"), fields.headers(asked.get("headers")), sent
    )
    if answered.get("status") == 0:
        raise Unfit(f"it has no answer: {answered.get('_error') or 'the request failed'}")
    head_at, end_at = _times(it)
    recorded = fields.moment(it.get("startedDateTime"))
    times = NO_TIMES if end_at is None else NO_READS
    losses = (times, *((FORM_PARAMETERS,) if reduced else ()), *(() if recorded else (NO_DATE,)))
    return SourceExchange(
        request=request,
        host=host,
        status=fields.status(answered.get("status")),
        reason=str(answered.get("statusText") or ""),
        headers=fields.headers(answered.get("headers")),
        body=_came(answered.get("content")),
        head_at=head_at,
        end_at=end_at,
        recorded=recorded,
        losses=losses,
    )


def _sent(request: dict[str, Any]) -> tuple[bytes, bool]:
    """The body of a request, and whether it was written anew."""
    posted = request.get("postData")
    if not isinstance(posted, dict):
        if (fields.number(request.get("bodySize")) or 0) > 0:
            raise Unfit("the body of its request was not kept")
        return b"", False
    text, parameters = posted.get("text"), posted.get("params")
    if posted.get("encoding", posted.get("_encoding")) == "base64":
        return fields.unbase64(text), False
    if text is None and isinstance(parameters, list) and parameters:
        return _form(parameters), True
    return _bytes(text, fields.number(request.get("bodySize")) or 0), False


def _form(parameters: list[Any]) -> bytes:
    pairs = [
        (str(it.get("name") or ""), str(it.get("value") or ""))
        for it in parameters
        if isinstance(it, dict)
    ]
    return urlencode(pairs, errors="surrogatepass").encode()


def _came(content: Any) -> bytes:
    if not isinstance(content, dict):
        return b""
    text = content.get("text")
    if text is None and (fields.number(content.get("size")) or 0) > 0:
        raise Unfit("the body of its response was not kept")
    if content.get("encoding") == "base64":
        return fields.unbase64(text)
    size = fields.number(content.get("size")) or 0
    saved = fields.number(content.get("compression")) or 0
    return _bytes(text, size, size + saved)  # some count what was compressed


def _bytes(text: Any, *sizes: float) -> bytes:
    """A body that was kept as text, and was of one of these sizes.

    mitmproxy takes a body whose head names no charset for Latin-1, so each byte became a character:
    the number of bytes tells, and that they are UTF-8, or no text at all.
    """
    plain = fields.content(text)
    if not isinstance(text, str) or len(plain) in sizes or len(text) not in sizes:
        return plain
    try:
        single = text.encode("latin-1")
        if _CONTROLS.search(text) is None:
            single.decode("utf-8")
    except UnicodeError:
        return plain
    return single


def _times(entry: dict[str, Any]) -> tuple[float | None, float | None]:
    """When the head came and when the end, in ms; -1 says that nobody knows."""
    timings = entry.get("timings")
    if isinstance(timings, dict):
        wait, receive = fields.number(timings.get("wait")), fields.number(timings.get("receive"))
        if wait is not None and (wait or receive):
            return wait, wait + (receive or 0)
    took = fields.number(entry.get("time"))
    return (None, took) if took else (None, None)


HAR: Final = Format("har", "HAR", _claims, _items, _exchange)
