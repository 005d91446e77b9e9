"""Rows of the corpus as exchanges: an upstream that cuts them anywhere, and clients that ask.

The rows of one file of the corpus are one session, asked in their order, so requests that repeat
become takes.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import cycle, islice
from random import Random
from typing import Final

from corpus import Row
from llm_proxy.exchange import Request
from llm_proxy.providers import provider_of_request
from llm_proxy.routing import route
from raw_http import Raw, ask, post
from stub_upstream import Connection, Script

_AT_ONCE: Final = 24
"""Sessions that run at the same time."""
_CHARACTER: Final = re.compile(rb"[\xc2-\xf4][\x80-\xbf]+")
_SEPARATOR: Final = re.compile(rb"\r\n\r\n|\n\n")
_OF_THE_CONNECTION: Final = frozenset(("connection", "content-length", "expect", "host"))
_SIGNED: Final = "AWS4-"
"""How a signature begins that AWS alone could check: a request with one is not passed on."""
_ROW: Final = "x-corpus-row"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A row on its way: where it is asked for, and the pieces that its body comes in."""

    row: Row
    session: str
    take: int
    """Which request of its session and key it is, from 1."""
    key: str
    target: str
    pieces: tuple[bytes, ...]

    @property
    def chunked(self) -> bool:
        """Whether the upstream sends it in chunks; else it declares the length, as recorded."""
        row = self.row
        named = {name.lower() for name, _ in row.response_headers}
        return row.streaming or "transfer-encoding" in named or "content-length" not in named

    @property
    def question(self) -> bytes:
        """The request on the wire."""
        fields = dict(self.row.request_headers[::-1])  # of two User-Agents, Go sends the first
        headers = [
            f"{name}: {value}"
            for name, value in fields.items()
            if name.lower() not in _OF_THE_CONNECTION and not value.startswith(_SIGNED)
        ]
        body = self.row.request_body or b""
        method = self.row.request.method
        return post(self.target, body, f"{_ROW}: {self.row.id}", *headers, method=method)


def exchanges(of: Iterable[Row]) -> list[Exchange]:
    """The rows as exchanges; each file of the corpus is a session."""
    sessions: dict[tuple[str, str], str] = {}
    counts: Counter[tuple[str, str]] = Counter()
    found: list[Exchange] = []
    for row in of:
        session = sessions.setdefault((row.repo, row.path), row.id)
        plain = row.request
        named = "" if provider_of_request(plain) == row.provider else f"/~{row.provider}"
        prefixed = Request(plain.method, named + plain.path, plain.query, plain.headers, plain.body)
        key = route(prefixed, 0.0, lambda: 0.0).key
        counts[session, key] += 1
        target = f"/@{session}{prefixed.request_target}"
        found.append(Exchange(row, session, counts[session, key], key, target, cut(row)))
    return found


def cut(row: Row) -> tuple[bytes, ...]:
    """The body in pieces: cut at random, and inside a character and a separator if it has any."""
    chance, body = Random(row.id), row.body
    places = {chance.randrange(len(body)) for _ in range(chance.choice((1, 4, 16)))}
    for pattern in (_CHARACTER, _SEPARATOR):
        if found := list(pattern.finditer(body)):
            chosen = chance.choice(found)
            places.add(chance.randrange(chosen.start() + 1, chosen.end()))
    ends = [*sorted(places - {0}), len(body)]
    return tuple(body[start:end] for start, end in zip([0, *ends], ends, strict=False))


def serving(of: Iterable[Exchange], gaps: Sequence[float]) -> Script:
    """An upstream that answers with the row asked for, its pieces some of these seconds apart."""
    by_id = {item.row.id: item for item in of}

    async def script(connection: Connection) -> None:
        named = re.search(rb"%b: (\w+)" % _ROW.encode(), connection.head)
        assert named is not None
        it = by_id[named[1].decode()]
        await connection.send(_head(it))
        own_gaps = islice(cycle(gaps), Random(it.row.id).randrange(len(gaps)), None)
        for piece, gap in zip(it.pieces, own_gaps, strict=False):
            await asyncio.sleep(gap)
            await (connection.chunk if it.chunked else connection.send)(piece)
        if it.chunked:
            await connection.finish()

    return script


def _head(it: Exchange) -> bytes:
    status = HTTPStatus(it.row.status)
    framing = "Transfer-Encoding: chunked" if it.chunked else f"Content-Length: {len(it.row.body)}"
    fields = [f"{name}: {value}" for name, value in it.row.head.headers]
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", framing, *fields, "", ""]
    return "\r\n".join(lines).encode("latin-1")


async def ask_all(url: str, of: Sequence[Exchange]) -> list[Raw]:
    """The answer to each: sessions side by side, what is in a session one after another."""
    answers: dict[str, Raw] = {}
    sessions: dict[str, list[Exchange]] = {}
    for it in of:
        sessions.setdefault(it.session, []).append(it)
    limit = asyncio.Semaphore(_AT_ONCE)

    async def converse(session: list[Exchange]) -> None:
        async with limit:
            for it in session:
                answers[it.row.id] = await ask(url, it.question)

    async with asyncio.TaskGroup() as group:
        for session in sessions.values():
            group.create_task(converse(session))
    return [answers[item.row.id] for item in of]
