"""Rows of the corpus as exchanges: an upstream that sends them in random pieces, and clients.

The rows of one file of the corpus are one session, requested in order, so repeated requests become
takes.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from itertools import cycle, islice
from random import Random
from typing import Final

from corpus import Row, rows
from llm_proxy.exchange import Request
from llm_proxy.providers import provider_of_request
from llm_proxy.routing import route_request
from raw_http import RawResponse, build_http_request, send_request
from stub_upstream import Connection, Script

_MAX_CONCURRENT_SESSIONS: Final = 24
"""Sessions that run at the same time."""
_MULTIBYTE_CHARACTER: Final = re.compile(rb"[\xc2-\xf4][\x80-\xbf]+")
_SEPARATOR: Final = re.compile(rb"\r\n\r\n|\n\n")
_CONNECTION_HEADERS: Final = frozenset(("connection", "content-length", "expect", "host"))
_AWS_SIGNATURE_PREFIX: Final = "AWS4-"
"""The prefix of an AWS signature: only AWS could check it, so such headers are not sent."""
_ROW_HEADER: Final = "x-corpus-row"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A row to be requested: its session, take and target, and the pieces of its body."""

    row: Row
    session: str
    take: int
    """Its position among the requests with this session and key, from 1."""
    key: str
    target: str
    pieces: tuple[bytes, ...]

    @property
    def is_chunked(self) -> bool:
        """Whether the upstream sends the body chunked; else with its length, as recorded."""
        row = self.row
        header_names = {name.lower() for name, _ in row.response_headers}
        return (
            row.streaming
            or "transfer-encoding" in header_names
            or "content-length" not in header_names
        )

    @property
    def request_bytes(self) -> bytes:
        """The raw request."""
        fields = dict(self.row.request_headers[::-1])  # of two User-Agents, Go sends the first
        headers = [
            f"{name}: {value}"
            for name, value in fields.items()
            if name.lower() not in _CONNECTION_HEADERS
            and not value.startswith(_AWS_SIGNATURE_PREFIX)
        ]
        body = self.row.request_body or b""
        method = self.row.request.method
        return build_http_request(
            self.target, body, f"{_ROW_HEADER}: {self.row.id}", *headers, method=method
        )


@cache
def all_exchanges() -> list[Exchange]:
    """All rows of the corpus as exchanges; each file of the corpus is a session."""
    sessions: dict[tuple[str, str], str] = {}
    counts: Counter[tuple[str, str]] = Counter()
    exchanges: list[Exchange] = []
    for row in rows():
        session = sessions.setdefault((row.repo, row.path), row.id)
        request = row.request
        provider_prefix = (
            "" if provider_of_request(request) == row.provider else f"/~{row.provider}"
        )
        prefixed = Request(
            request.method,
            provider_prefix + request.path,
            request.query,
            request.headers,
            request.body,
        )
        key = route_request(prefixed, 0.0, lambda: 0.0).key
        counts[session, key] += 1
        target = f"/@{session}{prefixed.request_target}"
        exchanges.append(Exchange(row, session, counts[session, key], key, target, split_body(row)))
    return exchanges


def split_body(row: Row) -> tuple[bytes, ...]:
    """The body, split at random, and inside a multibyte character and a separator if it has any."""
    rng, body = Random(row.id), row.body
    cut_points = {rng.randrange(len(body)) for _ in range(rng.choice((1, 4, 16)))}
    for pattern in (_MULTIBYTE_CHARACTER, _SEPARATOR):
        if matches := list(pattern.finditer(body)):
            match = rng.choice(matches)
            cut_points.add(rng.randrange(match.start() + 1, match.end()))
    ends = [*sorted(cut_points - {0}), len(body)]
    return tuple(body[start:end] for start, end in zip([0, *ends], ends, strict=False))


def upstream_script(exchanges: Iterable[Exchange], gaps_s: Sequence[float]) -> Script:
    """The script of an upstream that sends the requested row, its pieces `gaps_s` apart."""
    by_id = {exchange.row.id: exchange for exchange in exchanges}

    async def script(connection: Connection) -> None:
        match = re.search(rb"%b: (\w+)" % _ROW_HEADER.encode(), connection.head)
        assert match is not None
        exchange = by_id[match[1].decode()]
        await connection.send(_response_head(exchange))
        row_gaps = islice(cycle(gaps_s), Random(exchange.row.id).randrange(len(gaps_s)), None)
        for piece, gap in zip(exchange.pieces, row_gaps, strict=False):
            await asyncio.sleep(gap)
            await (connection.chunk if exchange.is_chunked else connection.send)(piece)
        if exchange.is_chunked:
            await connection.finish()

    return script


def _response_head(exchange: Exchange) -> bytes:
    status = HTTPStatus(exchange.row.status)
    framing = (
        "Transfer-Encoding: chunked"
        if exchange.is_chunked
        else f"Content-Length: {len(exchange.row.body)}"
    )
    fields = [f"{name}: {value}" for name, value in exchange.row.head.headers]
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", framing, *fields, "", ""]
    return "\r\n".join(lines).encode("latin-1")


async def send_all(url: str, exchanges: Sequence[Exchange]) -> list[RawResponse]:
    """Send each request and return the responses: sessions in parallel, each in order."""
    responses: dict[str, RawResponse] = {}
    sessions: dict[str, list[Exchange]] = {}
    for exchange in exchanges:
        sessions.setdefault(exchange.session, []).append(exchange)
    limit = asyncio.Semaphore(_MAX_CONCURRENT_SESSIONS)

    async def run_session(session: list[Exchange]) -> None:
        async with limit:
            for exchange in session:
                responses[exchange.row.id] = await send_request(url, exchange.request_bytes)

    async with asyncio.TaskGroup() as group:
        for session in sessions.values():
            group.create_task(run_session(session))
    return [responses[exchange.row.id] for exchange in exchanges]
