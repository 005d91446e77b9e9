"""Recognises files that hold responses without requests, and refuses them.

A cassette is looked up by its request, so it cannot be made without one.
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

from llm_proxy.importing.source import ForeignFormat, ParsedFile, SourceExchange, UnreadableFile

_SSE_START: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:data|event|id|:)[: ]")
_RESPONSE_NAMES: Final = (
    "candidates", "choices", "error", "content", "output", "totalTokens", "usage", "delta", "type",
    "response", "object", "usageMetadata", "promptFeedback", "predictions", "messageStart",
    "contentBlockStart", "contentBlockDelta", "interaction",
)  # fmt: skip
"""Top-level fields of a response, or of an event of one."""
_REQUEST_NAMES: Final = ("request", "method", "path", "url")
"""Top-level fields of an object that holds a request."""


def _is_response_only(parsed_file: ParsedFile) -> bool:
    match parsed_file.file_type:
        case "json":
            document = parsed_file.document
        case "jsonl":
            document = parsed_file.document[0]
        case "bytes":
            return _SSE_START.match(parsed_file.decompressed_bytes) is not None
        case _:
            return False
    first = document[0] if isinstance(document, list) and document else document
    if not isinstance(first, dict) or any(name in first for name in _REQUEST_NAMES):
        return False
    return any(name in first for name in _RESPONSE_NAMES)


def _raise_response_only(_: ParsedFile) -> NoReturn:
    raise UnreadableFile("the file contains only a response; import also needs the request")


def _raise_no_exchange(_: Any) -> SourceExchange:
    raise UnreadableFile("the file has no exchanges")


RESPONSE_ONLY: Final = ForeignFormat(
    "response",
    "a response without its request",
    _is_response_only,
    _raise_response_only,
    _raise_no_exchange,
)
