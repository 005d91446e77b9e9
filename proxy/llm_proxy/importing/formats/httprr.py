"""Traces of httprr, of Go's golang.org/x projects: heads and bodies as they stand in HTTP/1.1.

httprr trace v1
616 1261
POST https://api.anthropic.com/v1/messages HTTP/1.1...HTTP/2.0 200 OK...
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from llm_proxy.importing import fields, http_text
from llm_proxy.importing.source import (
    NO_DATE,
    NO_TIMES,
    Format,
    Opened,
    SourceExchange,
    Unreadable,
)

_FIRST: Final = b"httprr trace v1\n"
_SIZES: Final = re.compile(rb"([0-9]{1,12}) ([0-9]{1,12})\n")


def _claims(opened: Opened) -> bool:
    return opened.data.startswith(_FIRST)


def _items(opened: Opened) -> Iterator[tuple[bytes, bytes]]:
    data, at = opened.data, len(_FIRST)
    while at < len(data):
        sizes = _SIZES.match(data, at)
        if sizes is None:
            raise Unreadable(f"byte {at}: two sizes are missing")
        asked = sizes.end() + int(sizes[1])
        end = asked + int(sizes[2])
        if end > len(data):
            raise Unreadable(f"byte {at}: it is cut short")
        yield data[sizes.end() : asked], data[asked:end]
        at = end


def _exchange(item: Any) -> SourceExchange:
    asked, answered = item
    sent = http_text.read(asked, "request")
    came = http_text.read(answered, "response")
    method, url, _ = sent.first
    _, code, reason = came.first
    request, host = fields.request(method, url, sent.headers, sent.body)
    recorded = fields.date_of(came.headers)
    return SourceExchange(
        request=request,
        host=host,
        status=fields.status(code),
        reason=reason,
        headers=came.headers,
        body=came.body,
        recorded=recorded,
        losses=(NO_TIMES, *(() if recorded else (NO_DATE,))),
    )


HTTPRR: Final = Format("httprr", "httprr", _claims, _items, _exchange)
