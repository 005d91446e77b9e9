"""Recognises files that hold responses without requests, and refuses them.

A cassette is found by its request, so there is nothing to make one of.
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

from llm_proxy.importing.source import ForeignFormat, OpenedFile, SourceExchange, UnreadableFile

_EVENTS: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:data|event|id|:)[: ]")
_ANSWERS: Final = ("candidates", "choices", "error", "content", "output", "totalTokens", "usage")
_MORE: Final = (
    "delta", "type", "response", "object", "usageMetadata", "promptFeedback", "predictions",
    "messageStart", "contentBlockStart", "contentBlockDelta", "interaction",
)  # fmt: skip
"""Names of which one stands at the top of an answer, or of an event of one."""
_REQUESTS: Final = ("request", "method", "path", "url")
"""Names of which one stands at the top of what holds a request."""


def _is_response_only(opened: OpenedFile) -> bool:
    match opened.kind:
        case "json":
            return _response_objects(opened.document)
        case "jsonl":
            return _response_objects(opened.document[0])
        case "bytes":
            return _EVENTS.match(opened.data) is not None
        case _:
            return False


def _response_objects(document: Any) -> bool:
    first = document[0] if isinstance(document, list) and document else document
    if not isinstance(first, dict) or any(name in first for name in _REQUESTS):
        return False
    return any(name in first for name in (*_ANSWERS, *_MORE))


def _refuse_response(_: OpenedFile) -> NoReturn:
    raise UnreadableFile(
        "it holds an answer alone, without the request that it answers: nothing could ask for it"
    )


def _no_exchange(_: Any) -> SourceExchange:
    raise UnreadableFile("it holds no exchange")


ANSWER: Final = ForeignFormat(
    "answer", "an answer alone", _is_response_only, _refuse_response, _no_exchange
)
