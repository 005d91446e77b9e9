"""Cassettes: one exchange per file, as JSON Lines.  Reference: `docs/reference/cassette-format.md`.

    line 1      metadata: format, tool, dialect, session, key, rules
    line 2      the request, redacted
    line 3      the head of the response
    ...         one message per line, with the reads that begin in it
    last line   how and when the response ended, its size in bytes, its SHA-256

`model` holds the values and the schema of the lines, `framed_message_json` encodes a message as
JSON and back, `encoder` and `reader` write and validate files, and `spool` is the crash-safe form
that a running recording appends to.
"""

from llm_proxy.cassette.encoder import CassetteEncoder, encode_cassette
from llm_proxy.cassette.model import (
    FORMAT_VERSION,
    Cassette,
    CassetteEnd,
    CassetteMeta,
    StoredRequest,
)
from llm_proxy.cassette.reader import parse_cassette, parse_cassette_opening

__all__ = [
    "FORMAT_VERSION",
    "Cassette",
    "CassetteEncoder",
    "CassetteEnd",
    "CassetteMeta",
    "StoredRequest",
    "encode_cassette",
    "parse_cassette",
    "parse_cassette_opening",
]
