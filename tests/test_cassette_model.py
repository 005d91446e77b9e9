from __future__ import annotations

import hashlib

from cassette_builders import READS, make_cassette
from llm_proxy.cassette.model import sha256_hex


def test_the_body_is_all_reads_in_one() -> None:
    body = b"".join(read.received_bytes for read in READS)
    assert make_cassette(body).response_body == body
    assert make_cassette().response_body == b""


def test_the_checksum_is_that_of_the_body() -> None:
    assert sha256_hex(b"abc") == hashlib.sha256(b"abc").hexdigest()
    assert make_cassette(b"abc", codec="whole").response_end.sha256 == sha256_hex(b"abc")
