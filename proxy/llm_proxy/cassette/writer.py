"""Writes the lines of a cassette from reads, incrementally and in bounded memory.

Real network reads do not end where events end, so the boundaries are noted beside the
messages and never cut them.  Say three reads R arrive like this:

    R1        R2             R3
    data: {"a":1}⏎⏎data: {"b":2}⏎⏎
    └── message 1 ─┘└─ message 2 ─┘

Message 1 carries `"at": [[0, R1], [10, R2]]` (offset in bytes, ms), and message 2, which began
to arrive with R2, `"at": [[10, R3]]`.  Where one read begins, and at the first byte, there is
just the number; a message in which no read begins carries no `at`.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Any

from llm_proxy import framing
from llm_proxy.cassette.framed_message_json import encode_message
from llm_proxy.cassette.model import End, Meta, StoredRequest
from llm_proxy.cassette.schema import (
    EndLine,
    HeadLine,
    MetaLine,
    RequestLine,
    encode_line,
    rounded_offset_ms,
)
from llm_proxy.exchange import Ending, Read, ResponseHead


class CassetteWriter:
    """Gives the bytes of one cassette, piece by piece: `opening`, `read`..., `ending`."""

    def __init__(self, codec: str) -> None:
        """`codec` is the name of the one that cuts the body."""
        self._codec = codec
        self._message_splitter = framing.new_codec(codec)
        self._read_starts: deque[tuple[int, float]] = deque()
        """Where reads began that no message covers yet: offset in the body, ms."""
        self._written_size = 0
        self._received_size = 0
        self._sha256 = hashlib.sha256()

    def encode_opening(self, meta: Meta, request: StoredRequest) -> bytes:
        """Lines 1 and 2."""
        return encode_line(MetaLine.from_value(meta)) + encode_line(RequestLine.from_value(request))

    def encode_head(self, head: ResponseHead, at: float, decoded: str = "") -> bytes:
        """Line 3."""
        return encode_line(HeadLine.from_value(head, at, self._codec, decoded))

    def encode_read(self, read: Read) -> bytes:
        """The lines of the messages that this read completes."""
        if not read.data:
            return b""
        self._read_starts.append((self._received_size, read.at_ms))
        self._received_size += len(read.data)
        self._sha256.update(read.data)
        return b"".join(map(self._encode_message_line, self._message_splitter.feed(read.data)))

    def encode_ending(self, ending: Ending, at: float, redacted: int = 0) -> bytes:
        """The lines of what is left, and the last line."""
        rest = b"".join(map(self._encode_message_line, self._message_splitter.close()))
        end = End(ending, at, self._received_size, self._sha256.hexdigest(), redacted)
        return rest + encode_line(EndLine.from_value(end))

    def _encode_message_line(self, message: bytes) -> bytes:
        begin, end = self._written_size, self._written_size + len(message)
        self._written_size = end
        reads: list[tuple[int, float]] = []
        while self._read_starts and self._read_starts[0][0] < end:
            offset, at = self._read_starts.popleft()
            reads.append((offset - begin, rounded_offset_ms(at)))
        fields: dict[str, Any] = {}
        if len(reads) == 1 and reads[0][0] == 0:
            fields["at"] = reads[0][1]
        elif reads:
            fields["at"] = reads
        return encode_line(fields | encode_message(message))
