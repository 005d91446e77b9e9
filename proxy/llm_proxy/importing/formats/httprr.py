"""Traces of httprr, of Go's golang.org/x projects: messages as HTTP/1.1 text.

httprr trace v1
616 1261
POST https://api.anthropic.com/v1/messages HTTP/1.1...HTTP/2.0 200 OK...
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from llm_proxy.importing import fields
from llm_proxy.importing.source import ForeignFormat, ParsedFile, SourceExchange, UnreadableFile

_MAGIC_LINE: Final = b"httprr trace v1\n"
_SIZES_LINE: Final = re.compile(rb"([0-9]{1,12}) ([0-9]{1,12})\n")


def _matches_format(parsed_file: ParsedFile) -> bool:
    return parsed_file.decompressed_bytes.startswith(_MAGIC_LINE)


def _list_items(parsed_file: ParsedFile) -> Iterator[tuple[bytes, bytes]]:
    data, offset = parsed_file.decompressed_bytes, len(_MAGIC_LINE)
    while offset < len(data):
        sizes = _SIZES_LINE.match(data, offset)
        if sizes is None:
            raise UnreadableFile(f"expected the sizes of a request and a response at byte {offset}")
        request_end = sizes.end() + int(sizes[1])
        response_end = request_end + int(sizes[2])
        if response_end > len(data):
            raise UnreadableFile(f"byte {offset}: the file is truncated")
        yield data[sizes.end() : request_end], data[request_end:response_end]
        offset = response_end


def _parse_exchange(item: Any) -> SourceExchange:
    request_data, response_data = item
    (method, url, *_), request = fields.parse_http_message(request_data, "request")
    (_, status, *reason), response = fields.parse_http_message(response_data, "response")
    return fields.build_exchange(method, url, request, status, "".join(reason), response)


HTTPRR: Final = ForeignFormat("httprr", "httprr", _matches_format, _list_items, _parse_exchange)
