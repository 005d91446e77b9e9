"""Every exchange of the corpus: recorded from an upstream that cuts it anywhere, and replayed.

Nothing of a recording may depend on where the network cut the bytes, so the upstream cuts inside
events, inside characters, and wherever the seed of a row says.  The rows of one file of the
corpus are one session, asked in their order, so requests that repeat become takes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import accumulate, chain, cycle, islice
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import pytest

from corpus import Row, read_timings, rows
from llm_proxy import matching
from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Ending, Request, header
from llm_proxy.outcomes import outcome
from llm_proxy.pacing import Instant, Pace, Recorded
from llm_proxy.providers import provider_of
from llm_proxy.routing import route
from llm_proxy.shell.library import Library
from proxying import cassettes, proxy
from raw import Raw, ask, post
from stub import Connection, Script, upstream

pytestmark = pytest.mark.corpus

EXPECTED: Final = Path(__file__).with_name("corpus_partial.json")
"""Which exchanges are not complete, and why: wire, then id, then reason."""

EXCHANGES: Final = 1449
"""Rows of the corpus."""

LATE: Final = 5.0
"""ms: the median lateness of replayed reads, when the event loop itself is on time."""

_AT_ONCE: Final = 24
"""Sessions that run at the same time."""
_UNSPLIT: Final = 32 * 1024
"""Bytes: the socket buffers take a body of this size whole, so no chunk is cut on its way."""
_CHARACTER: Final = re.compile(rb"[\xc2-\xf4][\x80-\xbf]+")
_SEPARATOR: Final = re.compile(rb"\r\n\r\n|\n\n")
_OF_THE_CONNECTION: Final = frozenset(("connection", "content-length", "expect", "host"))
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
            if name.lower() not in _OF_THE_CONNECTION
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
        named = "" if provider_of(plain) == row.provider else f"/~{row.provider}"
        prefixed = Request(plain.method, named + plain.path, plain.query, plain.headers, plain.body)
        key = route(prefixed, 0.0, lambda: 0.0).key
        counts[session, key] += 1
        target = f"/@{session}{prefixed.target}"
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
    by_id = {it.row.id: it for it in of}

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
    return [answers[it.row.id] for it in of]


def answered(it: Exchange, answer: Raw) -> Iterator[str]:
    """What is wrong with an answer that a client got."""
    content_type = header(it.row.head.headers, "content-type")
    if answer.status != it.row.status:
        yield f"status {answer.status}, not {it.row.status}"
    if answer.body != it.row.body:
        yield f"body of {len(answer.body)} bytes, not the {len(it.row.body)} of the row"
    if answer.header("content-type") != content_type:
        yield f"content type {answer.header('content-type')}, not {content_type}"
    if answer.how != "clean":
        yield f"ended by {answer.how}"
    if (answer.header("transfer-encoding") == "chunked") is not it.chunked:
        yield "framed otherwise"


def recorded(it: Exchange, passed_on: Raw, cassette: Cassette) -> Iterator[str]:
    """What is wrong with the cassette."""
    reads = tuple(read.data for read in cassette.reads)
    if cassette.body != it.row.body:
        yield "another body"
    if cassette.end.ending is not Ending.CLEAN:
        yield f"ending {cassette.end.ending}"
    if it.chunked and (why := _boundaries(it.pieces, reads, len(it.row.body))):
        yield why
    if it.chunked and tuple(passed_on.chunks) != reads:
        yield "the client's chunks are not the reads"
    if matching.key(cassette.meta.provider, cassette.request) != cassette.meta.key:
        yield "the stored request does not give the key"
    if (cassette.meta.key, cassette.meta.session) != (it.key, it.session):
        yield "another key or session"


def _boundaries(pieces: Sequence[bytes], reads: Sequence[bytes], size: int) -> str:
    """Reads are pieces, but for a long body, of which the network may cut a piece in two."""
    if size <= _UNSPLIT:
        return "" if tuple(pieces) == tuple(reads) else f"{len(reads)} reads, {len(pieces)} pieces"
    lost = set(accumulate(map(len, pieces))) - set(accumulate(map(len, reads)))
    return f"{len(lost)} boundaries lost" if lost else ""


def replayed(it: Exchange, answer: Raw, cassette: Cassette) -> Iterator[str]:
    """What is wrong with the pieces of a replay."""
    if it.chunked and answer.chunks != [read.data for read in cassette.reads]:
        yield f"{len(answer.chunks)} chunks replayed, {len(cassette.reads)} reads recorded"


def partial(of: Iterable[Exchange], tapes: Iterable[Cassette]) -> dict[str, dict[str, str]]:
    """What is not complete, and why: wire, then id, then reason."""
    found: dict[str, dict[str, str]] = {}
    for it, cassette in zip(of, tapes, strict=True):
        judged = outcome(cassette)
        if not judged.complete:
            found.setdefault(it.row.wire, {})[it.row.id] = judged.reason
    return {wire: dict(sorted(found[wire].items())) for wire in sorted(found)}


def complaints(
    of: Iterable[Exchange], check: Callable[[int, Exchange], Iterator[str]]
) -> list[str]:
    """What `check` finds, with the row's wire and id in front."""
    return [
        f"{it.row.wire} {it.row.id}: {wrong}"
        for number, it in enumerate(of)
        for wrong in check(number, it)
    ]


async def record_all(folder: Path, of: Sequence[Exchange], gaps: Sequence[float]) -> list[Raw]:
    """What the clients got while these were recorded below `folder`."""
    async with upstream(serving(of, gaps)) as live:
        async with proxy("record", folder, live.url) as recording:
            answers = await ask_all(recording.url, of)

    assert recording.journal.failures == []
    return answers


async def replay_all(folder: Path, of: Sequence[Exchange], pace: Pace) -> list[Raw]:
    """What the clients get when these are replayed."""
    async with proxy("replay", folder, pace=pace, allow_partial=True) as replaying:
        answers = await ask_all(replaying.url, of)

    assert list(replaying.journal.misses) == []
    return answers


def kept(folder: Path, of: Iterable[Exchange]) -> list[Cassette]:
    """The cassette of each, found by its session, key and take alone."""
    library = Library(folder / "cassettes")
    library.refresh()
    return [library.load(library.take(it.session, it.key, it.take).path) for it in of]


async def test_every_exchange_is_recorded_and_replayed_byte_for_byte_and_read_for_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # thousands of times, and no crash is tried
    asked = exchanges(rows())
    live = await record_all(tmp_path, asked, [0])
    played = await replay_all(tmp_path, asked, Instant())
    tapes = kept(tmp_path, asked)

    assert complaints(asked, lambda n, it: answered(it, live[n])) == []
    assert complaints(asked, lambda n, it: recorded(it, live[n], tapes[n])) == []
    assert complaints(asked, lambda n, it: answered(it, played[n])) == []
    assert complaints(asked, lambda n, it: replayed(it, played[n], tapes[n])) == []

    files = [it for it in tmp_path.rglob("*") if it.is_file()]
    assert {it.file for it in cassettes(tmp_path)} == set(map(str, files))
    assert len(files) == len(asked) == EXCHANGES

    found = tmp_path / "corpus_partial.json"
    found.write_text(json.dumps(partial(asked, tapes), indent=1, ensure_ascii=False) + "\n")
    assert found.read_text() == EXPECTED.read_text(), f"if it is right, copy {found} to {EXPECTED}"


def test_the_upstream_cuts_inside_characters_and_inside_the_ends_of_events() -> None:
    cuts = [piece[:1] for it in exchanges(rows()) for piece in it.pieces[1:]]

    assert sum(b"\x80" <= first < b"\xc0" for first in cuts) > 100
    assert sum(first == b"\n" for first in cuts) > 500


async def test_real_streams_are_replayed_at_the_times_that_they_were_recorded_at(
    tmp_path: Path,
) -> None:
    of_a_wire = {it.row.wire: it for it in exchanges(rows()) if it.row.streaming and it.take == 1}
    asked = list(of_a_wire.values())
    gaps = [min(gap, 100) / 1000 for timing in read_timings() for gap in timing]
    await record_all(tmp_path, asked, gaps)
    tapes = kept(tmp_path, asked)
    played, *own = await asyncio.gather(
        replay_all(tmp_path, asked, Recorded()), *(own_lateness(tape) for tape in tapes)
    )

    assert complaints(asked, lambda n, it: answered(it, played[n])) == []
    assert complaints(asked, lambda n, it: replayed(it, played[n], tapes[n])) == []
    late = [
        at - read.at
        for answer, tape in zip(played, tapes, strict=True)
        for at, read in zip(answer.times, tape.reads, strict=True)
    ]
    assert min(late) > -0.5
    assert median(late) < LATE + 4 * median(chain.from_iterable(own))


async def own_lateness(tape: Cassette) -> list[float]:
    """How late the event loop itself is at the times of these reads, in ms."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    late: list[float] = []
    for read in tape.reads:
        due = start + read.at / 1000
        await asyncio.sleep(due - loop.time())
        late.append((loop.time() - due) * 1000)
    return late
