"""Answers whose content type says another framing than their bytes have: the bytes decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from cassette_builders import FILE, META, written
from dialect_manners import MANNERS, Manner
from in_process_proxy import cassettes, proxy
from llm_proxy import framing
from llm_proxy.cassette import Cassette, StoredRequest, read_cassette
from llm_proxy.cassette_views import cassette_turns
from llm_proxy.dialects.base import Dialect
from llm_proxy.exchange import Headers, Read, Request, ResponseHead
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.framing.eventstream import encode_frame
from llm_proxy.outcome import outcome_of
from llm_proxy.pacing import InstantPace
from llm_proxy.turns import Finish, Text, Turn
from raw_http import ask
from stored_cassettes import DONE, chat, event
from stub_upstream import Connection, Script, upstream

LABELS: Final = (
    "",
    "text/event-stream",
    "application/json",
    "text/plain; charset=utf-8",
    "application/octet-stream",
    "text/html",
    "application/x-ndjson",
    "application/vnd.amazon.eventstream",
)
HELLO: Final = Turn((Text("Hello you there"),), finish=Finish.STOP)
AMBIGUOUS: Final = {
    ("cohere /v2/chat whole", "application/x-ndjson"),
    ("cohere /v1/chat whole", "application/x-ndjson"),
}
"""One line of JSON is a document and a line: the label decides, and version 1 streams lines."""

LINES: Final = b'{"a":1}\n{"a":2}\n'
EVENTS: Final = b'data: {"a":1}\n\n'
FRAME: Final = encode_frame(((":event-type", "x"),), b"{}")


@pytest.mark.parametrize(
    ("label", "body", "name"),
    [
        # what a label says holds unless the bytes are plainly something else
        ("sse", b"", "sse"),
        ("sse", b"<html>", "sse"),
        ("sse", b'error: {"message":"no"}\n', "sse"),
        ("sse", b'{"error":1}\n\ndata: [DONE]\n\n', "sse"),
        ("sse", b'{"error":', "sse"),
        ("whole", b"<html>", "whole"),
        ("whole", b"data", "whole"),
        ("whole", b"metadata: 1\n", "whole"),
        ("whole", b"id: 5\nname: a\n", "whole"),
        ("whole", b": a comment\n\n", "whole"),
        ("whole", b'{"a":1}\n', "whole"),
        ("whole", b'{\n"a":1,\n"b":{\n}}', "whole"),
        ("whole", b'{"a":\n{"b":1}}', "whole"),
        ("whole", b"[1]", "whole"),
        ("json-array", b'[{"a":1}]', "json-array"),
        ("ndjson", b'{"a":1}\n', "ndjson"),
        ("ndjson", b'{"a":1}', "ndjson"),
        ("eventstream", FRAME[:11], "eventstream"),
        # events
        ("whole", EVENTS, "sse"),
        ("whole", b"data:", "sse"),
        ("whole", b"\xef\xbb\xbf\r\n: hi\r\n\r\nevent: a\r\nid:1\r\ndata: x", "sse"),
        ("ndjson", EVENTS, "sse"),
        ("json-array", EVENTS, "sse"),
        ("eventstream", EVENTS, "sse"),
        # lines, documents, arrays, frames
        ("whole", LINES, "ndjson"),
        ("sse", LINES, "ndjson"),
        ("sse", b'{"a":1}\r\n\r\n {"a":', "ndjson"),
        ("sse", b' {"a":\n1}\n', "whole"),
        ("ndjson", b'{"a":\n1}', "whole"),
        ("eventstream", b'{"a":1}', "whole"),
        ("sse", b'[{"a":1}]', "json-array"),
        ("sse", FRAME, "eventstream"),
        ("whole", FRAME[:12], "eventstream"),
        ("whole", b"\0" * 12, "whole"),
    ],
)
def test_the_bytes_choose_the_codec(label: str, body: bytes, name: str) -> None:
    assert framing.codec_of_bytes(label, body) == name


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "body",
    [
        b":\n" * 2_000_000,
        b"\n" * 4_000_000,
        b"{" * 4_000_000,
        b"{\n" * 2_000_000,
        b": " * 2_000_000,
    ],
    ids=["comments", "blank lines", "brackets", "lines of brackets", "a comment"],
)
def test_no_beginning_takes_long(body: bytes) -> None:
    for name in framing.CODECS:
        assert framing.codec_of_bytes(name, body) == name


def answers() -> Iterator[tuple[Manner, bytes, str]]:
    """Each manner of each dialect, what it answers, and a label."""
    by_name = {item.name: item for item in MANNERS if "," not in item.name}
    for name, manner in by_name.items():
        response = manner.dialect.encode(manner.request, (HELLO,), manner.delivery)
        for label in LABELS:
            if label or "stream" in name or "whole" in name:
                yield manner, b"".join(response.messages), label


def kept(manner: Manner, body: bytes, label: str) -> Cassette:
    """Its cassette as a version made it that chose the codec by the label alone."""
    dialect: Dialect = manner.dialect
    request: Request = manner.request
    headers: Headers = (("Content-Type", label),) if label else ()
    head = ResponseHead(200, "OK", headers, "chunked")
    asked = StoredRequest(
        request.method, request.path, request.query, request.headers, request.body
    )
    reads = [Read(20.0, body[:7]), Read(21.0, body[7:])]
    codec, meta = dialect.codec(request, head), replace(META, dialect=dialect.name)
    return read_cassette(FILE, written(reads, codec=codec, head=head, meta=meta, request=asked))


def test_whatever_the_label_says_each_answer_is_read_in_each_dialect() -> None:
    wrong: list[tuple[str, str, str, str]] = []
    count = 0
    for manner, body, label in answers():
        count += 1
        it = kept(manner, body, label)
        found, said = outcome_of(it), "".join(turn.text for turn in cassette_turns(it))
        assert it.body == b"".join(it.messages) == body
        assert [len(read.data) for read in it.reads] == [7, len(body) - 7]
        is_read = "compacted" in manner.name or said == "Hello you there"
        is_whole = found.complete and found.proven
        if not (is_read and is_whole) and (manner.name, label) not in AMBIGUOUS:
            wrong.append((manner.name, label, it.codec, str(found)))
    assert count > 250
    assert not wrong


def sends(pieces: Sequence[bytes], label: str) -> Script:
    async def script(connection: Connection) -> None:
        await connection.begin(content_type=label)
        for piece in pieces:
            await connection.chunk(piece)
        await connection.finish()

    return script


PIECES: Final = [event("The")[:30], event("The")[30:] + event(" quick"), event(" fox"), DONE]


@pytest.mark.parametrize("label", [item for item in LABELS if item])
async def test_a_mislabelled_stream_is_kept_by_its_events_and_replayed_under_its_label(
    tmp_path: Path, label: str
) -> None:
    async with upstream(sends(PIECES, label)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            first = await ask(recording.url, chat())
    [cassette] = cassettes(tmp_path)
    async with proxy("replay", tmp_path, pace=InstantPace(), strict=True) as replaying:
        again = await ask(replaying.url, chat())

    assert first.body == again.body == b"".join(PIECES)
    assert first.header("content-type") == again.header("content-type") == label
    assert cassette.messages == (event("The"), event(" quick"), event(" fox"), DONE)
    assert b'"codec":"sse"' in Path(cassette.file).read_bytes()
    assert b"".join(read.data for read in cassette.reads) == first.body
    assert outcome_of(cassette).reason == "[DONE]"


@pytest.mark.parametrize("label", ["application/json", "text/event-stream"])
@pytest.mark.parametrize(
    ("rule", "gone"),
    [
        ("reset,after=2", b"".join(PIECES[:2])),
        ("drop,after=1", event("The") + event(" fox") + DONE),
        ("truncate", event("The")),
        ("duplicate,after=3", b"".join(PIECES[:3]) + DONE * 2),
    ],
)
async def test_faults_at_events_strike_a_mislabelled_stream_live_and_replayed(
    tmp_path: Path, label: str, rule: str, gone: bytes
) -> None:
    how: dict[str, Any] = {"faults": parse_rules([rule]), "pace": InstantPace()}
    async with upstream(sends(PIECES, label)) as live:
        async with proxy("record", tmp_path, live.url, **how) as recording:
            first = await ask(recording.url, chat())
            entries = recording.journal.entries
    async with proxy("replay", tmp_path, **how) as replaying:
        again = await ask(replaying.url, chat())

    assert first.body == again.body == gone
    assert [fault.skipped for entry in entries for fault in entry.faults] == [""]
    [cassette] = cassettes(tmp_path)
    assert cassette.end.sha256 == sha256(b"".join(PIECES)).hexdigest()  # the truth


@pytest.mark.parametrize("label", ["application/json", "text/event-stream"])
async def test_a_fault_at_events_has_no_meaning_in_a_document_whatever_its_label(
    tmp_path: Path, label: str
) -> None:
    document = b'{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}'
    how: dict[str, Any] = {"faults": parse_rules(["reset,after=2"]), "pace": InstantPace()}
    async with upstream(sends([document], label)) as live:
        async with proxy("record", tmp_path, live.url, **how) as recording:
            got = await ask(recording.url, chat())
            [[injected]] = [entry.faults for entry in recording.journal.entries]

    assert got.body == document
    assert injected.skipped == "the body does not come in messages"
