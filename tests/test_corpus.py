"""Every exchange of the corpus: recorded from an upstream that cuts it anywhere, and replayed.

Nothing of a recording may depend on where the network cut the bytes, so the upstream cuts inside
events, inside characters, and wherever the seed of a row says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

import pytest

from corpus import read_timings, rows
from corpus_exchanges import Exchange, ask_all, exchanges, serving
from in_process_proxy import cassettes, proxy
from llm_proxy import matching
from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Ending, header_value
from llm_proxy.outcome import outcome_of
from llm_proxy.pacing import InstantPace, Pace, RecordedPace
from llm_proxy.shell.library.library import Library
from raw_http import Raw
from stub_upstream import upstream
from thoroughness import is_thorough

pytestmark = pytest.mark.corpus

EXPECTED: Final = Path(__file__).with_name("corpus_partial.json")
"""Which exchanges are not complete, and why: wire, then id, then reason."""

EXCHANGES: Final = 1449
"""Rows of the corpus."""

EARLY: Final = 0.5
"""ms that a replayed read may be early, which is what timers and roundings make of it."""

SPREAD: Final = 100.0
"""ms over which a recording must stretch for its times to say anything."""

_UNSPLIT: Final = 32 * 1024
"""Bytes: the socket buffers take a body of this size whole, so no chunk is cut on its way."""


def answered(it: Exchange, answer: Raw) -> Iterator[str]:
    """What is wrong with an answer that a client got."""
    content_type = header_value(it.row.head.headers, "content-type")
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
    if matching.request_key(cassette.meta.provider, cassette.request) != cassette.meta.key:
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
        judged = outcome_of(cassette)
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
    return [
        library.load_cassette(library.take(item.session, item.key, item.take).path) for item in of
    ]


def some(of: list[Exchange]) -> list[Exchange]:
    """Those of every third session, or all of them where all is wanted."""
    assert len(of) == EXCHANGES
    return [item for item in of if is_thorough() or int(item.session, 16) % 3 == 0]


@pytest.mark.long
async def test_every_exchange_is_recorded_and_replayed_byte_for_byte_and_read_for_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # thousands of times, and no crash is tried
    asked = some(exchanges(rows()))
    live = await record_all(tmp_path, asked, [0])
    played = await replay_all(tmp_path, asked, InstantPace())
    tapes = kept(tmp_path, asked)

    assert complaints(asked, lambda n, it: answered(it, live[n])) == []
    assert complaints(asked, lambda n, it: recorded(it, live[n], tapes[n])) == []
    assert complaints(asked, lambda n, it: answered(it, played[n])) == []
    assert complaints(asked, lambda n, it: replayed(it, played[n], tapes[n])) == []

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {cassette.file for cassette in cassettes(tmp_path)} == set(map(str, files))
    assert len(files) == len(asked)

    found = tmp_path / "corpus_partial.json"
    found.write_text(json.dumps(partial(asked, tapes), indent=1, ensure_ascii=False) + "\n")
    expected = json.loads(EXPECTED.read_bytes())
    rows_asked = {item.row.id for item in asked}
    assert json.loads(found.read_bytes()) == {
        wire: {row: why for row, why in of.items() if row in rows_asked}
        for wire, of in expected.items()
        if of.keys() & rows_asked
    }, f"if it is right, and LLM_PROXY_THOROUGH is set, copy {found} to {EXPECTED}"


def test_the_upstream_cuts_inside_characters_and_inside_the_ends_of_events() -> None:
    cuts = [piece[:1] for exchange in exchanges(rows()) for piece in exchange.pieces[1:]]

    assert sum(b"\x80" <= first < b"\xc0" for first in cuts) > 100
    assert sum(first == b"\n" for first in cuts) > 500


async def test_no_read_of_a_real_stream_is_replayed_before_its_time(
    tmp_path: Path,
) -> None:
    of_a_wire = {
        exchange.row.wire: exchange
        for exchange in exchanges(rows())
        if exchange.row.streaming and exchange.take == 1
    }
    asked = list(of_a_wire.values())
    gaps = [min(gap, 100) / 1000 for timing in read_timings() for gap in timing]
    await record_all(tmp_path, asked, gaps)
    played = await replay_all(tmp_path, asked, RecordedPace())
    tapes = kept(tmp_path, asked)

    assert complaints(asked, lambda n, it: answered(it, played[n])) == []
    assert complaints(asked, lambda n, it: replayed(it, played[n], tapes[n])) == []
    # How late they are is a matter of the machine, and `scripts/bench` tells: here is no limit.
    early = [
        read.at_ms - at
        for answer, tape in zip(played, tapes, strict=True)
        for at, read in zip(answer.times, tape.reads, strict=True)
    ]
    assert max(early) < EARLY
    assert max(read.at_ms for tape in tapes for read in tape.reads) > SPREAD
