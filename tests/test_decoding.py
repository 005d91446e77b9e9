"""Content decoding: independent of read boundaries, and only as declared."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from itertools import chain, islice
from random import Random

import brotli  # type: ignore[import-untyped] # untyped package
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.exchange import ResponseHead
from llm_proxy.shell import content_decoders
from llm_proxy.shell.content_decoders import (
    ContentDecoder,
    InvalidContentCoding,
    new_decoder,
    strip_content_coding,
)

MIB = 1024 * 1024
Compress = Callable[[bytes], bytes]


def _raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


def _gzip_members(data: bytes) -> bytes:
    return gzip.compress(data[:5]) + gzip.compress(data[5:])


CODINGS: dict[str, tuple[str, Compress]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip in members": ("x-gzip", _gzip_members),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("deflate", _raw_deflate),
    "br": ("br", brotli.compress),
}
each_coding = each_row("name", CODINGS)


def _decoder(coding: str) -> ContentDecoder:
    decoder = new_decoder(coding)
    assert decoder is not None
    return decoder


def _decoded(coding: str, pieces: list[bytes]) -> bytes:
    decoder = _decoder(coding)
    decoded = b"".join(chain.from_iterable(map(decoder.decode, pieces)))
    decoder.raise_if_truncated()
    return decoded


@each_coding
@given(data=st.binary(max_size=300), seed=st.integers())
def test_every_split_decodes_to_the_same_bytes(name: str, data: bytes, seed: int) -> None:
    coding, compress = CODINGS[name]
    compressed = compress(data)
    rng = Random(seed)
    cuts = sorted(rng.choices(range(len(compressed) + 1), k=rng.randrange(8)))
    pieces = [compressed[a:b] for a, b in zip([0, *cuts], [*cuts, len(compressed)], strict=True)]
    assert _decoded(coding, pieces) == data
    assert _decoded(coding, [compressed[at : at + 1] for at in range(len(compressed))]) == data


@each_coding
def test_highly_compressed_data_decodes_in_full(name: str) -> None:
    coding, compress = CODINGS[name]
    data = bytes(5 * 1024 * 1024 + 7)
    assert _decoded(coding, [compress(data)]) == data


@each_coding
def test_a_truncated_body_is_reported_at_its_end(name: str) -> None:
    coding, compress = CODINGS[name]
    compressed = compress(b"hello, hello, hello")
    for size in range(1, len(compressed)):
        decoder = _decoder(coding)
        if name == "gzip in members" and size == len(gzip.compress(b"hello")):
            continue  # the first member is complete, and nothing announces a second
        list(decoder.decode(compressed[:size]))
        with pytest.raises(InvalidContentCoding, match="cut short"):
            decoder.raise_if_truncated()


@each_coding
def test_a_body_without_the_declared_coding_is_refused(name: str) -> None:
    with pytest.raises(InvalidContentCoding):
        _decoded(CODINGS[name][0], [b"\xff\xfe this is not packed at all"])


@each_coding
def test_a_decompression_bomb_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_decoders, "MAX_DECODED_BYTES", 1024 * 1024)
    coding, compress = CODINGS[name]
    with pytest.raises(InvalidContentCoding, match="more than 1048576 bytes"):
        list(_decoder(coding).decode(compress(bytes(3 * 1024 * 1024))))


@each_coding
def test_highly_compressed_data_is_decoded_lazily(name: str) -> None:
    coding, compress = CODINGS[name]
    compressed = compress(bytes(16 * MIB))
    tracemalloc.start()
    try:
        size = sum(map(len, islice(_decoder(coding).decode(compressed), 4)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 2 * MIB < size < 12 * MIB
    assert peak < 8 * MIB


@each_coding
def test_an_empty_body_is_complete(name: str) -> None:
    assert _decoded(CODINGS[name][0], []) == b""


def _head(coding: str) -> ResponseHead:
    headers = (("Content-Type", "text/event-stream"), ("content-Encoding", coding))
    return ResponseHead(200, "OK", headers, "chunked")


def test_the_stored_head_omits_a_decoded_content_encoding() -> None:
    head, coding, decoder = strip_content_coding(_head(" GZIP "))
    assert head.headers == (("Content-Type", "text/event-stream"),)
    assert coding == "gzip"
    assert decoder is not None


@each_row("coding", ["exi", "identity", "gzip, br", ""])
def test_an_unsupported_coding_is_kept(coding: str) -> None:
    assert strip_content_coding(_head(coding)) == (_head(coding), "", None)


def test_a_response_without_a_body_keeps_its_content_encoding() -> None:
    head = ResponseHead(200, "OK", (("Content-Encoding", "gzip"),), "none", 100)
    assert strip_content_coding(head) == (head, "", None)
