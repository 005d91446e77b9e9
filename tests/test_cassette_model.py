from __future__ import annotations

import hashlib

from cassette_builders import READS, cassette
from llm_proxy.cassette.model import sha256


def test_the_body_is_all_reads_in_one() -> None:
    body = b"".join(read.data for read in READS)
    assert cassette(body).body == body
    assert cassette().body == b""


def test_the_checksum_is_that_of_the_body() -> None:
    assert sha256(b"abc") == hashlib.sha256(b"abc").hexdigest()
    assert cassette(b"abc", codec="whole").end.sha256 == sha256(b"abc")
