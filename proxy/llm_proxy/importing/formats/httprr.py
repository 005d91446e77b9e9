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
    ForeignFormat,
    OpenedFile,
    SourceExchange,
    UnreadableFile,
)

_FIRST: Final = b"httprr trace v1\n"
_SIZES: Final = re.compile(rb"([0-9]{1,12}) ([0-9]{1,12})\n")


def _matches_format(opened: OpenedFile) -> bool:
    return opened.data.startswith(_FIRST)


def _list_items(opened: OpenedFile) -> Iterator[tuple[bytes, bytes]]:
    data, at = opened.data, len(_FIRST)
    while at < len(data):
        sizes = _SIZES.match(data, at)
        if sizes is None:
            raise UnreadableFile(f"byte {at}: two sizes are missing")
        number = sizes.end() + int(sizes[1])
        end = number + int(sizes[2])
        if end > len(data):
            raise UnreadableFile(f"byte {at}: it is cut short")
        yield data[sizes.end() : number], data[number:end]
        at = end


def _parse_exchange(item: Any) -> SourceExchange:
    value, answered = item
    sent = http_text.parse_message(value, "request")
    came = http_text.parse_message(answered, "response")
    method, url, _ = sent.start_line
    _, code, reason = came.start_line
    request, host = fields.parse_request(method, url, sent.headers, sent.body)
    recorded = fields.response_date(came.headers)
    return SourceExchange(
        request=request,
        host=host,
        status=fields.parse_status(code),
        reason=reason,
        headers=came.headers,
        body=came.body,
        recorded=recorded,
        losses=(NO_TIMES, *(() if recorded else (NO_DATE,))),
    )


HTTPRR: Final = ForeignFormat("httprr", "httprr", _matches_format, _list_items, _parse_exchange)
