"""Every exchange of the corpus: recorded from an upstream that splits it anywhere, and replayed.

A recording must not depend on where the network splits the bytes, so the upstream splits inside
events, inside characters, and at positions from the seed of the row.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

import pytest

from corpus import Row, read_timings, rows
from corpus_exchanges import Exchange, all_exchanges, send_all, upstream_script
from in_process_proxy import load_cassettes, proxy
from llm_proxy import matching
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.exchange import Ending, header_value
from llm_proxy.pacing import InstantPace, Pace, RecordedPace
from llm_proxy.redaction import DEFAULT_REDACTION, Redactor, redact_query
from llm_proxy.shell.library.library import Library
from raw_http import RawResponse
from stub_upstream import upstream
from thoroughness import is_thorough

pytestmark = pytest.mark.corpus

EXPECTED: Final = Path(__file__).with_name("corpus_partial.json")
"""Which exchanges are incomplete, and why: wire, then id, then reason."""

REDACTIONS: Final = Path(__file__).with_name("corpus_redactions.json")
"""What the redaction rules touch: rule, then the part of the exchange, then ids.  All were looked
at: they are ids of projects at Google Cloud, and one of an account at AWS."""

EXCHANGE_COUNT: Final = 1449
"""The number of rows in the corpus."""

EARLY_TOLERANCE_MS: Final = 0.5
"""How early a replayed read may be, because of timers and rounding."""

MIN_SPREAD_MS: Final = 100.0
"""The minimum duration of a recording for its times to be meaningful."""

_UNSPLIT_BYTES: Final = 32 * 1024
"""The socket buffers take a body of this size whole, so no chunk is split in transit."""


def stored_body(row: Row) -> bytes:
    """The response of a row after redaction."""
    return Redactor(DEFAULT_REDACTION.finder()).redact(row.body)


def response_errors(
    exchange: Exchange, response: RawResponse, expected_body: bytes
) -> Iterator[str]:
    """What is wrong with the response that a client received."""
    content_type = header_value(exchange.row.head.headers, "content-type")
    if response.status != exchange.row.status:
        yield f"status {response.status}, not {exchange.row.status}"
    if response.body != expected_body:
        yield f"body of {len(response.body)} bytes, not the expected {len(expected_body)}"
    if response.header("content-type") != content_type:
        yield f"content type {response.header('content-type')}, not {content_type}"
    if response.ending != "clean":
        yield f"ended by {response.ending}"
    if (response.header("transfer-encoding") == "chunked") is not exchange.is_chunked:
        yield "framed otherwise"


def cassette_errors(
    exchange: Exchange, passed_on: RawResponse, cassette: Cassette
) -> Iterator[str]:
    """What is wrong with the cassette."""
    reads = tuple(read.received_bytes for read in cassette.reads)
    expected_body = stored_body(exchange.row)
    if cassette.response_body != expected_body:
        yield "another body"
    if cassette.response_end.ending is not Ending.CLEAN:
        yield f"ending {cassette.response_end.ending}"
    is_as_sent = expected_body == exchange.row.body
    if is_as_sent and exchange.is_chunked:
        if reason := _boundary_error(exchange.pieces, reads, len(exchange.row.body)):
            yield reason
        if tuple(passed_on.chunks) != reads:
            yield "the client's chunks are not the reads"
    if matching.request_key(cassette.meta.provider, cassette.request) != cassette.meta.key:
        yield "the stored request does not give the key"
    if (cassette.meta.key, cassette.meta.session) != (exchange.key, exchange.session):
        yield "another key or session"


def _boundary_error(pieces: Sequence[bytes], reads: Sequence[bytes], size: int) -> str:
    """Reads equal pieces, except for a long body, where the network may split a piece."""
    if size <= _UNSPLIT_BYTES:
        return "" if tuple(pieces) == tuple(reads) else f"{len(reads)} reads, {len(pieces)} pieces"
    lost = set(accumulate(map(len, pieces))) - set(accumulate(map(len, reads)))
    return f"{len(lost)} boundaries lost" if lost else ""


def replay_errors(exchange: Exchange, response: RawResponse, cassette: Cassette) -> Iterator[str]:
    """What is wrong with the chunks of a replay."""
    if exchange.is_chunked and response.chunks != [read.received_bytes for read in cassette.reads]:
        yield f"{len(response.chunks)} chunks replayed, {len(cassette.reads)} reads recorded"


def incomplete_exchanges(
    selected: Iterable[Exchange], recorded: Iterable[Cassette]
) -> dict[str, dict[str, str]]:
    """The incomplete exchanges: wire, then id, then reason."""
    reasons: dict[str, dict[str, str]] = {}
    for exchange, cassette in zip(selected, recorded, strict=True):
        outcome = cassette_outcome(cassette)
        if not outcome.is_complete:
            reasons.setdefault(exchange.row.wire, {})[exchange.row.id] = outcome.reason
    return {wire: dict(sorted(reasons[wire].items())) for wire in sorted(reasons)}


def describe_errors(
    selected: Iterable[Exchange], check: Callable[[int, Exchange], Iterator[str]]
) -> list[str]:
    """The errors that `check` finds, each with the row's wire and id in front."""
    return [
        f"{exchange.row.wire} {exchange.row.id}: {error}"
        for number, exchange in enumerate(selected)
        for error in check(number, exchange)
    ]


async def record_all(
    folder: Path, selected: Sequence[Exchange], gaps: Sequence[float]
) -> list[RawResponse]:
    """The responses that the clients received while these were recorded below `folder`."""
    async with upstream(upstream_script(selected, gaps)) as provider:
        async with proxy("record", folder, provider.url) as recording:
            responses = await send_all(recording.url, selected)

    assert recording.journal.recording_failures == []
    return responses


async def replay_all(folder: Path, selected: Sequence[Exchange], pace: Pace) -> list[RawResponse]:
    """The responses that the clients receive when these are replayed."""
    async with proxy("replay", folder, pace=pace, allow_partial=True) as replaying:
        responses = await send_all(replaying.url, selected)

    assert list(replaying.journal.misses) == []
    return responses


def recorded_takes(folder: Path, selected: Iterable[Exchange]) -> list[Cassette]:
    """The cassette of each exchange, found by session, key and take only."""
    library = Library(folder / "cassettes")
    library.refresh()
    return [
        library.load_cassette(library.take_paths(exchange.session, exchange.key)[exchange.take])
        for exchange in selected
    ]


def sampled_exchanges(selected: list[Exchange]) -> list[Exchange]:
    """Those of every fifth session, or all in a thorough run."""
    assert len(selected) == EXCHANGE_COUNT
    return [
        exchange for exchange in selected if is_thorough() or int(exchange.session, 16) % 5 == 0
    ]


def test_the_redaction_rules_touch_no_exchange_but_those_of_the_table() -> None:
    finder = DEFAULT_REDACTION.finder()
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows():
        parts = {
            "path": row.request.path.encode(),
            "query": redact_query(row.request.query)[0].encode(),
            "request body": row.request.body,
            "response body": row.body,
        }
        for part, data in parts.items():
            for rule in {span.rule for span in finder.find(data)}:
                found.setdefault(rule, {}).setdefault(part, []).append(row.id)
    assert found == json.loads(REDACTIONS.read_bytes())


@pytest.mark.long
async def test_every_exchange_is_recorded_and_replayed_byte_for_byte_and_read_for_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # thousands of calls; no crash is tested
    selected = sampled_exchanges(all_exchanges())
    live_responses = await record_all(tmp_path, selected, [0])
    replayed_responses = await replay_all(tmp_path, selected, InstantPace())
    recorded = recorded_takes(tmp_path, selected)

    assert (
        describe_errors(
            selected,
            lambda index, exchange: response_errors(
                exchange, live_responses[index], exchange.row.body
            ),
        )
        == []
    )
    assert (
        describe_errors(
            selected,
            lambda index, exchange: cassette_errors(
                exchange, live_responses[index], recorded[index]
            ),
        )
        == []
    )
    assert (
        describe_errors(
            selected,
            lambda index, exchange: response_errors(
                exchange, replayed_responses[index], stored_body(exchange.row)
            ),
        )
        == []
    )
    assert (
        describe_errors(
            selected,
            lambda index, exchange: replay_errors(
                exchange, replayed_responses[index], recorded[index]
            ),
        )
        == []
    )

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {cassette.file for cassette in load_cassettes(tmp_path)} == set(map(str, files))
    assert len(files) == len(selected)

    found_file = tmp_path / "corpus_partial.json"
    found_file.write_text(
        json.dumps(incomplete_exchanges(selected, recorded), indent=1, ensure_ascii=False) + "\n"
    )
    expected = json.loads(EXPECTED.read_bytes())
    rows_asked = {exchange.row.id for exchange in selected}
    assert json.loads(found_file.read_bytes()) == {
        wire: {row: reason for row, reason in reasons.items() if row in rows_asked}
        for wire, reasons in expected.items()
        if reasons.keys() & rows_asked
    }, f"if it is right, and LLM_PROXY_THOROUGH is set, copy {found_file} to {EXPECTED}"


def test_the_upstream_cuts_inside_characters_and_inside_the_ends_of_events() -> None:
    cuts = [piece[:1] for exchange in all_exchanges() for piece in exchange.pieces[1:]]

    assert sum(b"\x80" <= first < b"\xc0" for first in cuts) > 100
    assert sum(first == b"\n" for first in cuts) > 500


async def test_no_read_of_a_real_stream_is_replayed_before_its_time(
    tmp_path: Path,
) -> None:
    first_by_wire = {
        exchange.row.wire: exchange
        for exchange in all_exchanges()
        if exchange.row.streaming and exchange.take == 1
    }
    selected = list(first_by_wire.values())
    gaps = [min(gap, 100) / 1000 for timing in read_timings() for gap in timing]
    await record_all(tmp_path, selected, gaps)
    replayed_responses = await replay_all(tmp_path, selected, RecordedPace())
    recorded = recorded_takes(tmp_path, selected)

    assert (
        describe_errors(
            selected,
            lambda index, exchange: response_errors(
                exchange, replayed_responses[index], stored_body(exchange.row)
            ),
        )
        == []
    )
    assert (
        describe_errors(
            selected,
            lambda index, exchange: replay_errors(
                exchange, replayed_responses[index], recorded[index]
            ),
        )
        == []
    )
    # How late they are depends on the machine, and `scripts/bench` measures it: no limit here.
    early = [
        read.at_ms - at
        for response, cassette in zip(replayed_responses, recorded, strict=True)
        for at, read in zip(response.times_ms, cassette.reads, strict=True)
    ]
    assert max(early) < EARLY_TOLERANCE_MS
    assert max(read.at_ms for cassette in recorded for read in cassette.reads) > MIN_SPREAD_MS
