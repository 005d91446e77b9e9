"""The corpus of real recorded exchanges, for tests marked `corpus`.

It lies outside the repository, in the folder that `LLM_PROXY_CORPUS` names.  Recordings keep
no network reads, so a row is one request and one body.

    pytestmark = [pytest.mark.corpus, pytest.mark.skipif(not available(), reason=REASON)]
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from llm_proxy.exchange import Headers, Request, ResponseHead

_DEFAULT: Final = Path(__file__).parents[1] / "../shared/corpus"
_FOLDER: Final = Path(os.environ.get("LLM_PROXY_CORPUS", _DEFAULT))
_FILE: Final = _FOLDER / "exchanges.jsonl"
_NOT_OF_THE_BODY: Final = frozenset(
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
"""Headers about one connection, or about a body that was coded otherwise."""

RAW: Final = _FOLDER / "raw"
"""The files that the exchanges were taken from, below a folder for each repository."""

REASON: Final = f"the corpus of real streams is not at {_FOLDER}: set LLM_PROXY_CORPUS"
"""Why a test that needs the corpus is skipped."""


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded exchange."""

    id: str
    repo: str
    path: str
    """The file of the repository that it was recorded in; several may lie in one."""
    index: int
    """Which exchange of that file it is, from 0."""
    provider: str
    wire: str
    """API, operation and framing: `openai.chat.sse`."""
    fidelity: str
    """`exact`: the bytes as they came, after content decoding; else what became of them."""
    streaming: bool
    method: str
    url: str
    request_headers: Headers
    request_body: bytes | None
    """None where the recording kept no request."""
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
        """The request as a proxy would see it; placeholders for a host count as one."""
        url = urlsplit(self.url)
        path = url.path if url.path.startswith("/") else "/" + url.path.partition("/")[2]
        body = self.request_body or b""
        return Request(self.method or "POST", path, url.query, self.request_headers, body)

    @property
    def head(self) -> ResponseHead:
        """The head of the response, fit for `body`, which is stored decoded."""
        kept = tuple(
            response_header
            for response_header in self.response_headers
            if response_header[0].lower() not in _NOT_OF_THE_BODY
        )
        return ResponseHead(self.status, "", kept, "chunked")


def available() -> bool:
    """Whether the corpus is there."""
    return _FILE.is_file()


@cache
def rows() -> list[Row]:
    """Every exchange, in the order of the file, which is read once and when first asked for."""
    with _FILE.open(encoding="utf-8") as lines:
        return [_row(json.loads(line)) for line in lines]


def read_timings() -> list[list[float]]:
    """Of the few real streams that were timed: ms between one network read and the next."""
    timings = json.loads((_FOLDER / "read-timings.json").read_bytes())
    return [stream["ms"] for stream in timings["streams"]]


def _row(raw: dict[str, Any]) -> Row:
    return Row(
        id=raw["id"],
        repo=raw["repo"],
        path=raw["path"],
        index=raw["i"],
        provider=raw["provider"],
        wire=raw["wire"],
        fidelity=raw["fidelity"],
        streaming=raw["streaming"],
        method=raw["method"] or "",
        url=raw["url"] or "",
        request_headers=_headers(raw["request_headers"]),
        request_body=_request_body(raw),
        status=raw["status"],
        response_headers=_headers(raw["response_headers"]),
        features=tuple(raw["features"]),
        oddities=tuple(raw["oddities"]),
        body_base64=raw["body_b64"],
    )


def _headers(pairs: list[list[str]] | None) -> Headers:
    return tuple((name, value) for name, value in pairs or ())


def _request_body(raw: dict[str, Any]) -> bytes | None:
    body: str | None = raw["request_body"]
    if body is None:
        return None
    return base64.b64decode(body) if raw.get("request_body_encoding") == "base64" else body.encode()
