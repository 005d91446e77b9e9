"""Responses whose content type contradicts the framing of their bytes: the bytes decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from case_tables import each_row
from cassette_builders import FILE_NAME, META, encode_cassette
from dialect_manners import MANNERS, Manner
from in_process_proxy import load_cassettes, proxy
from linear_time import assert_linear
from llm_proxy import framing
from llm_proxy.cassette import Cassette, StoredRequest, parse_cassette
from llm_proxy.cassette_views import cassette_outcome, cassette_response_turns
from llm_proxy.dialects.base import Dialect
from llm_proxy.exchange import Headers, Read, Request, ResponseHead
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.framing.eventstream import encode_frame
from llm_proxy.pacing import InstantPace
from llm_proxy.turns import FinishReason, Text, Turn
from raw_http import send_request
from stored_cassettes import DONE_EVENT, chat_event, raw_chat_request
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
HELLO: Final = Turn((Text("Hello you there"),), finish=FinishReason.STOP)
AMBIGUOUS: Final = {("cohere /v2/chat whole", "application/x-ndjson")}
"""One line of JSON is a document and NDJSON: the label decides, and version 1 streams NDJSON."""

LINES: Final = b'{"a":1}\n{"a":2}\n'
EVENTS: Final = b'data: {"a":1}\n\n'
FRAME: Final = encode_frame(((":event-type", "x"),), b"{}")


@each_row(
    ("label", "body", "name"),
    [
        # the label decides unless the bytes are clearly in another framing
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
    assert framing.codec_name_for_body(label, body) == name


@each_row("unit", [b":\n", b"\n", b"{", b"{\n", b": "])
def test_no_beginning_takes_long(unit: bytes) -> None:
    def choose(size: int) -> None:
        for name in framing.CODECS:
            assert framing.codec_name_for_body(name, unit * (size // len(unit))) == name

    assert_linear(choose, 400_000)


def responses() -> Iterator[tuple[Manner, bytes, str]]:
    """Each request and framing of each dialect, its response body, and a label."""
    by_name = {item.name: item for item in MANNERS if "," not in item.name}
    for name, manner in by_name.items():
        response = manner.dialect.encode_response(manner.request, (HELLO,), manner.context)
        for label in LABELS:
            if label or "stream" in name or "whole" in name:
                yield manner, b"".join(response.framed_messages), label


def stored_cassette(manner: Manner, body: bytes, label: str) -> Cassette:
    """The cassette as written by older versions, which chose the codec by the label alone."""
    dialect: Dialect = manner.dialect
    request: Request = manner.request
    headers: Headers = (("Content-Type", label),) if label else ()
    head = ResponseHead(200, "OK", headers, "chunked")
    stored_request = StoredRequest(
        request.method, request.path, request.query, request.headers, request.body
    )
    reads = [Read(20.0, body[:7]), Read(21.0, body[7:])]
    codec, meta = (
        dialect.codec_name(request, head),
        msgspec.structs.replace(META, dialect=dialect.name),
    )
    return parse_cassette(
        FILE_NAME, encode_cassette(reads, codec=codec, head=head, meta=meta, request=stored_request)
    )


def test_each_response_is_decoded_in_each_dialect_whatever_its_label() -> None:
    wrong: list[tuple[str, str, str, str]] = []
    count = 0
    for manner, body, label in responses():
        count += 1
        cassette = stored_cassette(manner, body, label)
        outcome, text = (
            cassette_outcome(cassette),
            "".join(turn.text for turn in cassette_response_turns(cassette)),
        )
        assert cassette.response_body == b"".join(cassette.framed_messages) == body
        assert [len(read.received_bytes) for read in cassette.reads] == [7, len(body) - 7]
        is_read = "compacted" in manner.name or text == "Hello you there"
        is_whole = outcome.is_complete and outcome.is_proven
        if not (is_read and is_whole) and (manner.name, label) not in AMBIGUOUS:
            wrong.append((manner.name, label, cassette.codec_name, str(outcome)))
    assert count > 250
    assert not wrong


def send_pieces(pieces: Sequence[bytes], label: str) -> Script:
    async def script(connection: Connection) -> None:
        await connection.begin(content_type=label)
        for piece in pieces:
            await connection.chunk(piece)
        await connection.finish()

    return script


PIECES: Final = [
    chat_event("The")[:30],
    chat_event("The")[30:] + chat_event(" quick"),
    chat_event(" fox"),
    DONE_EVENT,
]


@pytest.mark.parametrize("label", [item for item in LABELS if item])
async def test_a_mislabelled_stream_is_kept_by_its_events_and_replayed_under_its_label(
    tmp_path: Path, label: str
) -> None:
    async with upstream(send_pieces(PIECES, label)) as live:
        async with proxy("record", tmp_path, live.url) as record_proxy:
            first = await send_request(record_proxy.url, raw_chat_request())
    [cassette] = load_cassettes(tmp_path)
    async with proxy("replay", tmp_path, pace=InstantPace(), strict=True) as replay_proxy:
        again = await send_request(replay_proxy.url, raw_chat_request())

    assert first.body == again.body == b"".join(PIECES)
    assert first.header("content-type") == again.header("content-type") == label
    assert cassette.framed_messages == (
        chat_event("The"),
        chat_event(" quick"),
        chat_event(" fox"),
        DONE_EVENT,
    )
    assert b'"codec":"sse"' in Path(cassette.file).read_bytes()
    assert b"".join(read.received_bytes for read in cassette.reads) == first.body
    assert cassette_outcome(cassette).reason == "[DONE]"


@pytest.mark.parametrize("label", ["application/json", "text/event-stream"])
@pytest.mark.parametrize(
    ("rule", "received"),
    [
        ("reset,after=2", b"".join(PIECES[:2])),
        ("drop,after=1", chat_event("The") + chat_event(" fox") + DONE_EVENT),
        ("truncate", chat_event("The")),
        ("duplicate,after=3", b"".join(PIECES[:3]) + DONE_EVENT * 2),
    ],
)
async def test_faults_at_events_apply_to_a_mislabelled_stream_live_and_replayed(
    tmp_path: Path, label: str, rule: str, received: bytes
) -> None:
    options: dict[str, Any] = {"faults": parse_rules([rule]), "pace": InstantPace()}
    async with upstream(send_pieces(PIECES, label)) as live:
        async with proxy("record", tmp_path, live.url, **options) as record_proxy:
            first = await send_request(record_proxy.url, raw_chat_request())
            entries = record_proxy.journal.entries
    async with proxy("replay", tmp_path, **options) as replay_proxy:
        again = await send_request(replay_proxy.url, raw_chat_request())

    assert first.body == again.body == received
    assert [fault.skipped for entry in entries for fault in entry.faults] == [""]
    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_end.sha256 == sha256(b"".join(PIECES)).hexdigest()  # without the fault


@pytest.mark.parametrize("label", ["application/json", "text/event-stream"])
async def test_a_fault_at_events_has_no_meaning_in_a_document_whatever_its_label(
    tmp_path: Path, label: str
) -> None:
    document = b'{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}'
    options: dict[str, Any] = {"faults": parse_rules(["reset,after=2"]), "pace": InstantPace()}
    async with upstream(send_pieces([document], label)) as live:
        async with proxy("record", tmp_path, live.url, **options) as record_proxy:
            response = await send_request(record_proxy.url, raw_chat_request())
            [[injected]] = [entry.faults for entry in record_proxy.journal.entries]

    assert response.body == document
    assert injected.skipped == "the body contains no events"
