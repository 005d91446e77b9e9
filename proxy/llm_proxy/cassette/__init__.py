"""Cassettes: one exchange a file, as JSON Lines.  `docs/cassette-format.md` is the reference.

    line 1      what this file is: format, tool, dialect, session, key, rules
    line 2      the request, redacted
    line 3      the head of the response
    ...         one message a line, with the reads that begin in it
    last line   how it ended, when, how many bytes, their SHA-256

`model` holds the values, `spelling` turns a message into JSON and back, `writer` and `reader`
make and check files, `schema` says what a line may hold and `refusals` why one is refused,
`spool` is the crash-safe form that a running recording appends to, and `migrations` brings older
formats up to date.
"""

from llm_proxy.cassette.model import FORMAT, Cassette, End, Meta, StoredRequest
from llm_proxy.cassette.reader import read_cassette, read_opening
from llm_proxy.cassette.writer import CassetteWriter

__all__ = [
    "FORMAT",
    "Cassette",
    "CassetteWriter",
    "End",
    "Meta",
    "StoredRequest",
    "read_cassette",
    "read_opening",
]
