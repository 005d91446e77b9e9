"""Content codings are undone whatever the reads that they arrive in, and never guessed."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from itertools import chain, islice
from random import Random

import brotli  # type: ignore[import-untyped] # it comes without types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_proxy.exchange import ResponseHead
from llm_proxy.shell import content_decoders
from llm_proxy.shell.content_decoders import (
    ContentDecoder,
    InvalidContentCoding,
    decode_head,
    new_decoder,
)

MIB = 1024 * 1024
Pack = Callable[[bytes], bytes]


def _bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _members(data: bytes) -> bytes:
    return gzip.compress(data[:5]) + gzip.compress(data[5:])


CODINGS: dict[str, tuple[str, Pack]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip in members": ("x-gzip", _members),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("deflate", _bare),
    "br": ("br", brotli.compress),
}
each_coding = pytest.mark.parametrize("name", CODINGS)


def _decoder(coding: str) -> ContentDecoder:
    undo = new_decoder(coding)
    assert undo is not None
    return undo


def _decoded(coding: str, pieces: list[bytes]) -> bytes:
    undo = _decoder(coding)
    decoded = b"".join(chain.from_iterable(map(undo.decode, pieces)))
    undo.close()
    return decoded


@each_coding
@given(data=st.binary(max_size=300), seed=st.integers())
def test_every_split_decodes_to_the_same_bytes(name: str, data: bytes, seed: int) -> None:
    coding, pack = CODINGS[name]
    packed = pack(data)
    roll = Random(seed)
    cuts = sorted(roll.choices(range(len(packed) + 1), k=roll.randrange(8)))
    pieces = [packed[a:b] for a, b in zip([0, *cuts], [*cuts, len(packed)], strict=True)]
    assert _decoded(coding, pieces) == data
    assert _decoded(coding, [packed[at : at + 1] for at in range(len(packed))]) == data


@each_coding
def test_what_unpacks_to_much_more_comes_in_full(name: str) -> None:
    coding, pack = CODINGS[name]
    data = bytes(5 * 1024 * 1024 + 7)
    assert _decoded(coding, [pack(data)]) == data


@each_coding
def test_a_body_that_is_cut_short_is_told_at_its_end(name: str) -> None:
    coding, pack = CODINGS[name]
    packed = pack(b"hello, hello, hello")
    for size in range(1, len(packed)):
        undo = _decoder(coding)
        if name == "gzip in members" and size == len(gzip.compress(b"hello")):
            continue  # the first member is whole, and nothing says that there is another
        list(undo.decode(packed[:size]))
        with pytest.raises(InvalidContentCoding, match="cut short"):
            undo.close()


@each_coding
def test_a_body_that_is_something_else_is_told(name: str) -> None:
    with pytest.raises(InvalidContentCoding):
        _decoded(CODINGS[name][0], [b"\xff\xfe this is not packed at all"])


@each_coding
def test_a_bomb_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_decoders, "LARGEST", 1024 * 1024)
    coding, pack = CODINGS[name]
    with pytest.raises(InvalidContentCoding, match="more than 1048576 bytes"):
        list(_decoder(coding).decode(pack(bytes(3 * 1024 * 1024))))


@each_coding
def test_what_unpacks_to_much_more_is_unpacked_as_it_is_taken(name: str) -> None:
    coding, pack = CODINGS[name]
    packed = pack(bytes(64 * MIB))
    tracemalloc.start()
    try:
        size = sum(map(len, islice(_decoder(coding).decode(packed), 16)))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 8 * MIB < size < 48 * MIB
    assert most < 8 * MIB


@each_coding
def test_no_body_is_a_whole_one(name: str) -> None:
    assert _decoded(CODINGS[name][0], []) == b""


def _head(coding: str) -> ResponseHead:
    headers = (("Content-Type", "text/event-stream"), ("content-Encoding", coding))
    return ResponseHead(200, "OK", headers, "chunked")


def test_the_stored_head_says_nothing_of_a_coding_that_was_taken_off() -> None:
    head, coding, undo = decode_head(_head(" GZIP "))
    assert head.headers == (("Content-Type", "text/event-stream"),)
    assert coding == "gzip"
    assert undo is not None


@pytest.mark.parametrize("coding", ["exi", "identity", "gzip, br", ""])
def test_a_coding_that_cannot_be_taken_off_stays(coding: str) -> None:
    assert decode_head(_head(coding)) == (_head(coding), "", None)


def test_an_answer_without_a_body_keeps_the_header_of_the_one_that_it_stands_for() -> None:
    head = ResponseHead(200, "OK", (("Content-Encoding", "gzip"),), "none", 100)
    assert decode_head(head) == (head, "", None)
