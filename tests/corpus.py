"""The corpus of real recorded exchanges, for tests marked `corpus`.

It is outside the repository, in the folder that `LLM_PROXY_CORPUS` names.  The recordings do not
keep network reads, so a row is one request and one body.

    pytestmark = [pytest.mark.corpus, pytest.mark.skipif(not available(), reason=REASON)]
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from llm_proxy.exchange import Headers, Request, ResponseHead
from thoroughness import is_thorough

_DEFAULT: Final = Path(__file__).parents[1] / "../shared/corpus"
_FOLDER: Final = Path(os.environ.get("LLM_PROXY_CORPUS", _DEFAULT))
_EXCHANGES_FILE: Final = _FOLDER / "exchanges.jsonl"
_DROPPED_HEADERS: Final = frozenset(
    (
        "connection",
        "content-encoding",
        "content-length",
        "keep-alive",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
"""Headers about one connection, or about the body before content decoding."""

_SHORT_BODY: Final = 4 * 8000 // 3
"""In characters of base64."""

_DAILY_ROWS: Final = 100

RAW: Final = _FOLDER / "raw"
"""The files that the exchanges were taken from, one folder for each repository."""

REASON: Final = f"the corpus of real streams is not at {_FOLDER}: set LLM_PROXY_CORPUS"
"""The skip reason of tests that need the corpus."""


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded exchange."""

    id: str
    repo: str
    path: str
    """The repository's file that it was recorded in; a file may hold several exchanges."""
    index: int
    """Its position in that file, from 0."""
    provider: str
    wire: str
    """API, operation and framing: `openai.chat.sse`."""
    fidelity: str
    """`exact`: the received bytes, after content decoding; else how they were changed."""
    streaming: bool
    method: str
    url: str
    request_headers: Headers
    request_body: bytes | None
    """None where the recording has no request."""
    status: int
    response_headers: Headers
    features: tuple[str, ...]
    oddities: tuple[str, ...]
    body_base64: str

    @property
    def body(self) -> bytes:
        """The body of the response."""
        return base64.b64decode(self.body_base64)

    @property
    def request(self) -> Request:
        """The request as a proxy would receive it; a placeholder for a host counts as a host."""
        url = urlsplit(self.url)
        path = url.path if url.path.startswith("/") else "/" + url.path.partition("/")[2]
        body = self.request_body or b""
        return Request(self.method or "POST", path, url.query, self.request_headers, body)

    @property
    def head(self) -> ResponseHead:
        """The head of the response, without headers that do not fit the decoded `body`."""
        kept = tuple(
            response_header
            for response_header in self.response_headers
            if response_header[0].lower() not in _DROPPED_HEADERS
        )
        return ResponseHead(self.status, "", kept, "chunked")


def available() -> bool:
    """Whether the corpus is on this machine."""
    return _EXCHANGES_FILE.is_file()


@cache
def rows() -> list[Row]:
    """Every exchange in file order; the file is read on the first call only."""
    with _EXCHANGES_FILE.open(encoding="utf-8") as lines:
        return [_row(json.loads(line)) for line in lines]


def short_rows() -> list[Row]:
    """The rows with a body of less than 8 kB, which are five of six; all in the thorough tier."""
    return [row for row in rows() if is_thorough() or len(row.body_base64) < _SHORT_BODY]


def daily_rows(rows: Iterable[Row]) -> list[Row]:
    """At most 100 of these rows, the same on every machine; all of them in a thorough run."""
    chosen = sorted(rows, key=lambda row: row.id)  # an id is a hash
    return chosen if is_thorough() else chosen[:_DAILY_ROWS]


def read_timings() -> list[list[float]]:
    """For each of the few timed real streams, the ms between one network read and the next."""
    timings = json.loads((_FOLDER / "read-timings.json").read_bytes())
    return [stream["ms"] for stream in timings["streams"]]


def _row(document: dict[str, Any]) -> Row:
    return Row(
        id=document["id"],
        repo=document["repo"],
        path=document["path"],
        index=document["i"],
        provider=document["provider"],
        wire=document["wire"],
        fidelity=document["fidelity"],
        streaming=document["streaming"],
        method=document["method"] or "",
        url=document["url"] or "",
        request_headers=_header_pairs(document["request_headers"]),
        request_body=_request_body(document),
        status=document["status"],
        response_headers=_header_pairs(document["response_headers"]),
        features=tuple(document["features"]),
        oddities=tuple(document["oddities"]),
        body_base64=document["body_b64"],
    )


def _header_pairs(pairs: list[list[str]] | None) -> Headers:
    return tuple((name, value) for name, value in pairs or ())


def _request_body(document: dict[str, Any]) -> bytes | None:
    body: str | None = document["request_body"]
    if body is None:
        return None
    return (
        base64.b64decode(body)
        if document.get("request_body_encoding") == "base64"
        else body.encode()
    )
