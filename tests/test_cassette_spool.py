"""Everything that was written before a crash is recovered, whenever the crash happens."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from cassette_builders import FILE_NAME, HEAD, META, READS, REQUEST, read_sequences
from llm_proxy.cassette import parse_cassette, spool
from llm_proxy.cassette.model import encode_line
from llm_proxy.cassette.spool import SpoolContent, SpoolEnd, SpoolTargetLine
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Ending, Read, ResponseHead
from llm_proxy.framing import codec_name_for_body

TARGET = SpoolTargetLine(1, "/some/library", 3)
OPENING = spool.encode_opening(TARGET, META, REQUEST)
HEAD_LINE = spool.encode_head(HEAD, 10.0, "sse", "")
SPOOL = OPENING + HEAD_LINE + b"".join(map(spool.encode_read, READS))


def parse(content: bytes) -> SpoolContent:
    return spool.parse_spool(FILE_NAME, io.BytesIO(content))


def assemble(
    content: bytes, ending: Ending = Ending.KILLED, at: float = 0.0, redacted: int = 0
) -> bytes:
    return b"".join(spool.cassette_lines_from_spool(parse(content), SpoolEnd(ending, at, redacted)))


def test_a_spool_gives_back_what_was_put_in() -> None:
    parsed = parse(SPOOL)
    assert (parsed.target_line, parsed.meta, parsed.request) == (TARGET, META, REQUEST)
    assert parsed.head is not None
    assert (parsed.head.to_response_head(), parsed.head.at_ms) == (HEAD, 10.0)
    assert tuple(parsed.reads_and_end) == READS


def test_a_spool_becomes_a_cassette() -> None:
    cassette = parse_cassette(FILE_NAME, assemble(SPOOL, Ending.CLEAN, 40.0, redacted=2))
    assert (
        cassette.meta,
        cassette.request,
        cassette.response_head,
        cassette.response_head_at_ms,
    ) == (
        META,
        REQUEST,
        HEAD,
        10.0,
    )
    assert cassette.reads == READS
    assert (
        cassette.response_end.ending,
        cassette.response_end.at_ms,
        cassette.response_end.redacted_count,
    ) == (
        Ending.CLEAN,
        40.0,
        2,
    )


def test_a_recorded_end_takes_precedence() -> None:
    content = SPOOL + encode_line(SpoolEnd(Ending.RST, 41.5, 3))
    for length in range(len(SPOOL), len(content)):
        assert (
            parse_cassette(FILE_NAME, assemble(content[:length])).response_end.ending
            is Ending.KILLED
        )

    end = parse_cassette(FILE_NAME, assemble(content)).response_end

    assert (end.ending, end.at_ms, end.redacted_count) == (Ending.RST, 41.5, 3)


@each_row(
    ("content", "at", "expected_end_ms"),
    [(SPOOL, 0.0, 34.0), (SPOOL, 12.0, 34.0), (OPENING + HEAD_LINE, 0.0, 10.0)],
    ids=["nobody knows when", "a clock that went back", "no reads"],
)
def test_a_cassette_ends_no_earlier_than_what_it_holds(
    content: bytes, at: float, expected_end_ms: float
) -> None:
    assert parse_cassette(FILE_NAME, assemble(content, at=at)).response_end.at_ms == expected_end_ms


def test_everything_before_a_tear_comes_back() -> None:
    for length in range(len(OPENING), len(SPOOL) + 1):
        whole_lines = SPOOL[:length].count(b"\n") - OPENING.count(b"\n")
        parsed = parse(SPOOL[:length])
        assert (parsed.meta, parsed.request) == (META, REQUEST)
        if whole_lines == 0:
            assert parsed.head is None
            assert tuple(parsed.reads_and_end) == ()
            continue
        received = READS[: whole_lines - 1]
        cassette = parse_cassette(FILE_NAME, assemble(SPOOL[:length]))
        assert cassette.reads == received
        assert cassette.response_end.ending is Ending.KILLED


def test_a_spool_without_its_opening_is_refused() -> None:
    for length in range(len(OPENING)):
        with pytest.raises(
            CassetteError,
            match=r"^some\.jsonl: the spool file is truncated: the request is missing",
        ):
            parse(SPOOL[:length])


TAIL = spool.encode_read(Read(35.0, b"data: 3\n\n"))


def test_a_last_line_without_its_end_is_dropped() -> None:
    for torn in (TAIL[:-1], b"\0" * 64, b"{"):
        assert tuple(parse(SPOOL + torn).reads_and_end) == READS


@each_row(
    "wrong",
    [
        b"\0" * 64 + b"\n",
        b"[]\n",
        b"1\n",
        b'{"read":35.0}\n',
        b'{"read":"35","base64":""}\n',
        b'{"read":-1.0,"base64":""}\n',
        b'{"read":1e300,"base64":""}\n',
        b'{"read":35.0,"base64":"*"}\n',
        b'{"read":35.0,"base64":"","more":1}\n',
        b'{"end":"happy","at":36.0,"redacted":0}\n',
        b'{"end":"clean","at":36.0}\n',
        b'{"end":"clean","at":36.0,"redacted":-1}\n',
        HEAD_LINE,
    ],
)
@each_row("rest", [b"", TAIL], ids=["at the end", "in the middle"])
def test_a_whole_line_that_is_no_read_is_damage(wrong: bytes, rest: bytes) -> None:
    with pytest.raises(CassetteError) as caught:
        tuple(parse(SPOOL + wrong + rest).reads_and_end)
    assert caught.value.line == SPOOL.count(b"\n") + 1


def test_nothing_may_follow_the_end() -> None:
    with pytest.raises(
        CassetteError, match='the spool file is damaged: lines follow the "end" line'
    ):
        tuple(parse(SPOOL + encode_line(SpoolEnd(Ending.CLEAN, 40.0, 0)) + TAIL).reads_and_end)


@each_row("wrong", [b"{}\n", b"[]\n", b"\0\n", b"\n", b'{"response":1}\n'])
def test_a_whole_line_4_that_is_no_head_is_damage(wrong: bytes) -> None:
    with pytest.raises(CassetteError) as caught:
        parse(OPENING + wrong + SPOOL)
    assert caught.value.line == 4


def edit_line(content: bytes, number: int, *path: str, to: object) -> bytes:
    """The spool with one value of one line changed."""
    lines = content.splitlines(keepends=True)
    fields = orjson.loads(lines[number - 1])
    holder = fields
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = to
    lines[number - 1] = orjson.dumps(fields) + b"\n"
    return b"".join(lines)


@each_row(
    "content",
    [
        b"",
        b"\n",
        b"[]\n[]\n[]\n",
        b"not a spool\n" * 9,
        OPENING.replace(b'"spool"', b'"spule"'),
        edit_line(SPOOL, 1, "spool", to=2),
        edit_line(SPOOL, 1, "take", to="1"),
        edit_line(SPOOL, 1, "more", to=1),
        edit_line(SPOOL, 2, "model", to="\x1b"),
        edit_line(SPOOL, 2, "key", to=1),
        edit_line(SPOOL, 3, "request", "text", to="two bodies"),
        edit_line(SPOOL, 3, "request", "json", to=orjson.Fragment(b"[" * 300 + b"]" * 300)),
        edit_line(SPOOL, 4, "response", "codec", to="\x1b"),
    ],
    ids=[
        "empty", "blank", "lists", "text", "no version", "newer", "take in quotes", "unknown field",
        "escape sequence", "wrong key", "two bodies", "deep request", "unknown codec",
    ],
)  # fmt: skip
def test_what_is_no_spool_is_refused_by_name(content: bytes) -> None:
    with pytest.raises(CassetteError) as caught:
        parse(content)
    assert caught.value.file == FILE_NAME
    assert str(caught.value).isprintable()


@given(st.lists(st.sampled_from(SPOOL.splitlines(keepends=True)) | st.binary(), max_size=8))
def test_any_bytes_are_a_spool_or_refused(lines: Sequence[bytes]) -> None:
    content = b"".join(lines)
    try:
        reads = tuple(parse(content).reads_and_end)
    except CassetteError:
        return
    assert content.count(b'{"read":') >= len(reads)


@given(
    reads=read_sequences(st.binary(max_size=40)), codec=st.sampled_from(["sse", "ndjson", "whole"])
)
def test_a_recording_survives_the_spool(reads: list[Read], codec: str) -> None:
    head: ResponseHead = replace(HEAD, framing="close")
    content = (
        OPENING
        + spool.encode_head(head, 10.0, codec, "gzip")
        + b"".join(map(spool.encode_read, reads))
    )
    assert tuple(parse(content).reads_and_end) == tuple(reads)
    cassette = parse_cassette(FILE_NAME, assemble(content))
    assert [read.received_bytes for read in cassette.reads] == [
        read.received_bytes for read in reads
    ]
    assert [read.at_ms for read in cassette.reads] == [round(read.at_ms, 2) for read in reads]
    body = b"".join(read.received_bytes for read in reads)
    assert (cassette.response_head, cassette.codec_name, cassette.content_coding) == (
        head,
        codec_name_for_body(codec, body),
        "gzip",
    )
