from __future__ import annotations

from dataclasses import replace

import msgspec

from case_tables import each_row
from cassette_builders import META, REQUEST, make_cassette, make_head
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.exchange import Ending

CHAT, OLLAMA, OPAQUE = "openai-chat", "ollama", "opaque"
STOPPED = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
OPEN = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
ERROR = b'data: {"error":{"message":"overloaded"}}\n\n'
LINE = b'{"message":{"content":"a"},"done":false}\n'
LAST = b'{"message":{"content":""},"done":true}\n'
COMPLETE, UNPROVEN, PARTIAL = "complete", "complete, unproven", "partial"


@each_row("dialect", [CHAT, OLLAMA, OPAQUE, "learned-later"])
@each_row("framing", ["chunked", "length", "close"])
@each_row("ending", [item for item in Ending if item is not Ending.CLEAN])
def test_nothing_that_did_not_end_clean_is_complete(
    dialect: str, framing: str, ending: Ending
) -> None:
    stored = make_cassette(
        OPEN + STOPPED + DONE + LAST,
        head=make_head(framing=framing),
        ending=ending,
        meta=msgspec.structs.replace(META, dialect=dialect),
    )
    outcome = cassette_outcome(stored)
    assert not outcome.is_complete
    who = "llm-proxy" if ending is Ending.KILLED else "the"
    assert str(outcome).startswith(f"partial: {who} ")


def test_every_ending_has_its_own_reason() -> None:
    partial = [item for item in Ending if item is not Ending.CLEAN]
    reasons = {cassette_outcome(make_cassette(OPEN, ending=item)).reason for item in partial}
    assert len(reasons) == len(partial)


@each_row(
    ("dialect", "codec", "body", "framing", "status", "verdict"),
    [
        (CHAT, "sse", OPEN + STOPPED + DONE, "chunked", 200, COMPLETE),
        (CHAT, "sse", OPEN + STOPPED + DONE, "close", 200, COMPLETE),
        (CHAT, "sse", OPEN + STOPPED + DONE, "length", 200, COMPLETE),
        (CHAT, "sse", OPEN + STOPPED, "chunked", 200, COMPLETE),
        (CHAT, "sse", OPEN + ERROR, "chunked", 200, COMPLETE),
        (CHAT, "sse", OPEN, "chunked", 200, PARTIAL),
        (CHAT, "sse", OPEN, "close", 200, PARTIAL),
        (CHAT, "sse", b"", "chunked", 200, PARTIAL),
        (CHAT, "whole", b'{"choices":[]}', "length", 200, COMPLETE),
        (CHAT, "whole", b'{"choices":', "length", 200, PARTIAL),
        (CHAT, "whole", b'{"choices":', "close", 200, PARTIAL),
        (CHAT, "whole", b'{"error":{}}', "length", 400, COMPLETE),
        (CHAT, "whole", b"<html>", "length", 502, COMPLETE),
        (CHAT, "whole", b"", "none", 200, COMPLETE),
        (OLLAMA, "ndjson", LINE + LAST, "chunked", 200, COMPLETE),
        (OLLAMA, "ndjson", LINE, "chunked", 200, PARTIAL),
        (OLLAMA, "ndjson", LINE + b'{"error":"no"}', "chunked", 200, COMPLETE),
        (OLLAMA, "whole", LAST, "length", 200, COMPLETE),
        (OPAQUE, "sse", OPEN, "chunked", 200, COMPLETE),
        (OPAQUE, "whole", b"{", "length", 200, COMPLETE),
        (OPAQUE, "whole", b"{", "close", 200, UNPROVEN),
        (OPAQUE, "sse", OPEN, "close", 200, UNPROVEN),
        (OPAQUE, "whole", b"", "none", 204, COMPLETE),
        ("learned-later", "sse", OPEN, "chunked", 200, COMPLETE),
        ("learned-later", "sse", OPEN, "close", 200, UNPROVEN),
    ],
)
def test_what_ended_clean_is_judged_by_its_dialect(
    dialect: str, codec: str, body: bytes, framing: str, status: int, verdict: str
) -> None:
    meta = msgspec.structs.replace(META, dialect=dialect)
    stored = make_cassette(body, codec=codec, head=make_head(status, framing), meta=meta)
    if dialect == OPAQUE:
        stored = replace(stored, request=replace(REQUEST, path="/v1/whatever"))
    outcome = cassette_outcome(stored)
    assert str(outcome).partition(":")[0] == verdict
    assert outcome.reason


@each_row(
    ("codec", "body", "verdict"),
    [("sse", OPEN, PARTIAL), ("sse", OPEN + DONE, COMPLETE), ("whole", OPEN + DONE, COMPLETE)],
)
def test_a_dialect_that_is_supported_later_judges_an_opaque_recording(
    codec: str, body: bytes, verdict: str
) -> None:
    meta = msgspec.structs.replace(META, dialect=OPAQUE)
    outcome = cassette_outcome(
        make_cassette(body, codec=codec, meta=meta)
    )  # the path is that of chats
    assert str(outcome).partition(":")[0] == verdict
