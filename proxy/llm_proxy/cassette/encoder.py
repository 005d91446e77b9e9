"""Writes the lines of a cassette from reads, incrementally and in bounded memory.

Network reads do not end where events end, so read boundaries are stored beside the messages
and never split them.  Suppose three reads R arrive like this:

    R1        R2             R3
    data: {"a":1}⏎⏎data: {"b":2}⏎⏎
    └── message 1 ─┘└─ message 2 ─┘

Message 1 carries `"at": [[0, R1], [10, R2]]` (offset in bytes, ms), and message 2, which began
to arrive with R2, `"at": [[10, R3]]`.  If only one read begins in a message, and at its first
byte, `at` is just the ms; a message in which no read begins has no `at`.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Any

from llm_proxy import framing
from llm_proxy.cassette.framed_message_json import encode_message
from llm_proxy.cassette.model import (
    Cassette,
    CassetteEnd,
    CassetteMeta,
    StoredHead,
    StoredRequest,
    encode_line,
    request_line,
    rounded_offset_ms,
)
from llm_proxy.exchange import Ending, Read, ResponseHead


class CassetteEncoder:
    """Encodes one cassette incrementally: opening, head, reads, ending."""

    def __init__(self, codec: str) -> None:
        """`codec`: the name of the codec that splits the body into messages."""
        self._codec_name = codec
        self._message_splitter = framing.new_codec(codec)
        self._read_starts: deque[tuple[int, float]] = deque()
        """Starts of reads that are not written yet: (offset in the body, ms)."""
        self._written_bytes = 0
        self._received_bytes = 0
        self._sha256 = hashlib.sha256()

    def encode_opening(self, meta: CassetteMeta, request: StoredRequest) -> bytes:
        """Lines 1 and 2: metadata and request."""
        return encode_line(meta) + encode_line(request_line(request))

    def encode_head(self, head: ResponseHead, at_ms: float, content_coding: str = "") -> bytes:
        """Line 3: the response head."""
        stored_head = StoredHead.from_response_head(head, at_ms, self._codec_name, content_coding)
        return encode_line({"response": stored_head})

    def encode_completed_messages(self, read: Read) -> bytes:
        """The lines of the messages that this read completes."""
        if not read.received_bytes:
            return b""
        self._read_starts.append((self._received_bytes, read.at_ms))
        self._received_bytes += len(read.received_bytes)
        self._sha256.update(read.received_bytes)
        return b"".join(
            map(self._encode_message_line, self._message_splitter.feed(read.received_bytes))
        )

    def encode_ending(self, ending: Ending, at_ms: float, redacted_count: int = 0) -> bytes:
        """The lines of the remaining messages, and the last line."""
        remaining_lines = b"".join(map(self._encode_message_line, self._message_splitter.close()))
        digest, at_ms = self._sha256.hexdigest(), rounded_offset_ms(at_ms)
        end = CassetteEnd(ending, at_ms, self._received_bytes, digest, redacted_count)
        return remaining_lines + encode_line({"end": end})

    def _encode_message_line(self, message: bytes) -> bytes:
        begin, end = self._written_bytes, self._written_bytes + len(message)
        self._written_bytes = end
        read_starts: list[tuple[int, float]] = []
        while self._read_starts and self._read_starts[0][0] < end:
            offset, at_ms = self._read_starts.popleft()
            read_starts.append((offset - begin, rounded_offset_ms(at_ms)))
        fields: dict[str, Any] = {}
        if len(read_starts) == 1 and read_starts[0][0] == 0:
            fields["at"] = read_starts[0][1]
        elif read_starts:
            fields["at"] = read_starts
        return encode_line(fields | encode_message(message))


def encode_cassette(cassette: Cassette) -> bytes:
    """The file of a cassette."""
    encoder = CassetteEncoder(cassette.codec_name)
    end = cassette.response_end
    return b"".join(
        (
            encoder.encode_opening(cassette.meta, cassette.request),
            encoder.encode_head(
                cassette.response_head, cassette.response_head_at_ms, cassette.content_coding
            ),
            *map(encoder.encode_completed_messages, cassette.reads),
            encoder.encode_ending(end.ending, end.at_ms, end.redacted_count),
        )
    )
