"""Redacts AWS event streams, whose frames declare their own length.

Replacing a secret as in text would make the lengths and checksums of its frame wrong, and clients
would reject the frame.  So a frame is held back until it is complete, and a frame with a secret is
rewritten.  `InvokeModelWithResponseStream` sends the model's own events in base64; they are
decoded and searched too.

A truncated frame stays truncated, and a frame with a wrong checksum keeps a wrong one.  Bytes that
are no frame are redacted as plain bytes, and so are rewritten frames.
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from llm_proxy.exchange import Read
from llm_proxy.framing import eventstream, message_edits
from llm_proxy.framing.eventstream import MAX_FRAME_BYTES, PRELUDE_BYTES, EventStreamSplitter
from llm_proxy.framing.message_edits import ByteEdit
from llm_proxy.redaction.placeholders import count_placeholders
from llm_proxy.redaction.stream import RedactedPiece, Redactor

_BYTES_FIELD: Final = b'"bytes"'
_BASE64_FIELD: Final = re.compile(_BYTES_FIELD + rb'\s*:\s*"([A-Za-z0-9+/=\\]*)')
"""A payload field that holds base64, perhaps truncated; JSON may escape a slash."""


class FrameRedactor:
    """Replaces secrets in the frames of a stream, as its reads arrive."""

    def __init__(self, redactor: Redactor) -> None:
        """`redactor` holds the secrets and counts the replacements."""
        self._redactor = redactor
        self._pending = bytearray()
        """Bytes not yet returned: the beginning of a frame."""
        self._pending_reads: deque[tuple[float, int, bool]] = deque()
        """The reads of `_pending`: ms, bytes, whether a part of it was returned already."""
        self._is_framed = True
        """Whether the stream is still framed: after invalid bytes, no frame start can be found."""

    def feed(self, read: Read) -> list[RedactedPiece]:
        """Take a read; return the pieces that are final now, in order, without secrets."""
        if not (self._is_framed and self._redactor.has_secrets):
            return self._redactor.feed(read)
        self._pending += read.received_bytes
        self._pending_reads.append((read.at_ms, len(read.received_bytes), False))
        pieces: list[RedactedPiece] = []
        begin = 0
        """The end of the frames without secrets, which are returned together."""
        while (pending_bytes := len(self._pending) - begin) >= PRELUDE_BYTES:
            size = eventstream.frame_size(self._pending[begin : begin + PRELUDE_BYTES])
            if size is None or size > MAX_FRAME_BYTES:
                self._is_framed = False
                break
            if pending_bytes < size:
                break
            frame = bytes(self._pending[begin : begin + size])
            edits = self._frame_edits(frame)
            if edits is None:
                begin += size
            else:
                pieces += self._release_clean_frames(begin)
                pieces += self._release_redacted_frame(frame, edits)
                begin = 0
        pieces += self._release_clean_frames(begin)
        if not self._is_framed:
            pieces += self._redact_as_bytes(self._release_bytes(len(self._pending)))
        return pieces

    def flush(self) -> list[RedactedPiece]:
        """Return the pieces that were held back."""
        frame = bytes(self._pending)
        pieces = self._release_redacted_frame(frame, self._frame_edits(frame) or ())
        return [*pieces, *self._redactor.flush()]

    def _release_clean_frames(self, size: int) -> list[RedactedPiece]:
        pieces = self._release_bytes(size)
        if self._redactor.is_holding_back:  # bytes of an invalid frame
            return self._redact_as_bytes(pieces, is_frame_complete=bool(pieces))
        return self._redactor.pass_clean_pieces(pieces)

    def _release_redacted_frame(
        self, frame: bytes, edits: Sequence[ByteEdit]
    ) -> list[RedactedPiece]:
        edits = message_edits.with_envelope_edits(frame, edits) if edits else ()
        return self._redact_as_bytes(
            self._release_bytes(len(frame), edits),
            is_frame_complete=eventstream.is_intact_frame(frame),
        )

    def _frame_edits(self, frame: bytes) -> list[ByteEdit] | None:
        """The edits of a frame's headers and payload, from left to right.

        None for an intact frame without secrets, as nearly all are.
        """
        if not self._redactor.secret_spans(frame):
            return None if eventstream.is_intact_frame(frame) else []
        span = eventstream.payload_span(frame)
        if span is None:
            return []
        begin, end = span
        edits = list(self._header_edits(frame, begin))
        for found in self._redactor.secret_spans(frame[begin:end]):
            self._redactor.replaced_count += found.count
            edits.append(ByteEdit(begin + found.begin, begin + found.end, found.replacement))
        return edits

    def _header_edits(self, frame: bytes, end: int) -> Iterator[ByteEdit]:
        """The edits of the headers, which end at offset `end`, that hold a secret.

        Left out, and redacted as plain bytes later: malformed headers, and one that gets too long.
        """
        try:
            headers = tuple(eventstream.parse_headers(frame[:end], PRELUDE_BYTES))
        except (ValueError, KeyError, IndexError, struct.error):
            return
        for header in headers:
            count = self._redactor.replaced_count
            name = self._redactor.redact(header.name)
            value = (
                self._redactor.redact(header.value) if header.has_variable_length else header.value
            )
            if (name, value) == (header.name, header.value):
                continue
            try:
                new = eventstream.encode_header(name, header.value_type, value)
            except ValueError:
                self._redactor.replaced_count = count
            else:
                yield ByteEdit(header.start, header.end, new)

    def _release_bytes(self, size: int, edits: Sequence[ByteEdit] = ()) -> list[RedactedPiece]:
        """Remove the first `size` bytes; return them, edited, in their reads.

        The last of these reads may be split.
        """
        data = message_edits.apply_edits(bytes(self._pending[:size]), edits)
        del self._pending[:size]
        reads: list[tuple[float, int, bool]] = []
        remaining_bytes = size
        while remaining_bytes:
            at_ms, read_bytes, is_continuation = self._pending_reads.popleft()
            taken_bytes = min(read_bytes, remaining_bytes)
            reads.append((at_ms, taken_bytes, is_continuation))
            remaining_bytes -= taken_bytes
            if taken_bytes < read_bytes:
                self._pending_reads.appendleft((at_ms, read_bytes - taken_bytes, True))
        ends = message_edits.moved_positions(
            accumulate(read_bytes for _, read_bytes, _ in reads), edits
        )
        pieces: list[RedactedPiece] = []
        begin = 0
        for (at_ms, _, is_continuation), end in zip(reads, ends, strict=True):
            if begin < end:
                pieces.append(RedactedPiece(at_ms, data[begin:end], is_continuation))
            begin = end
        return pieces

    def _redact_as_bytes(
        self, pieces: Iterable[RedactedPiece], *, is_frame_complete: bool = False
    ) -> list[RedactedPiece]:
        """The last line of defence: no secret passes, even if rewriting a frame failed.

        At the end of a frame nothing is held back: no secret continues past its checksum.
        """
        redacted_pieces = [out for piece in pieces for out in self._redactor.feed(piece)]
        return [*redacted_pieces, *self._redactor.flush()] if is_frame_complete else redacted_pieces


def redact_reads(reads: Iterable[Read], codec: str, redactor: Redactor) -> Iterator[Read]:
    """The reads of a finished body without secrets; one that becomes empty is left out."""
    body_redactor = FrameRedactor(redactor) if codec == eventstream.CODEC_NAME else redactor
    at_ms, data = 0.0, b""
    for piece in [
        *(redacted_piece for read in reads for redacted_piece in body_redactor.feed(read)),
        *body_redactor.flush(),
    ]:
        if data and not piece.is_continuation:
            yield Read(at_ms, data)
            data = b""
        at_ms, data = piece.at_ms, data + piece.received_bytes
    if data:
        yield Read(at_ms, data)


def count_frame_placeholders(reads: Iterable[Read]) -> int:
    """The number of placeholders in the frames of these reads, including those in base64."""
    splitter, count = EventStreamSplitter(MAX_FRAME_BYTES), 0
    for frames in (*(splitter.feed(read.received_bytes) for read in reads), splitter.close()):
        for frame in frames:
            fields = (_decode_base64(field) or b"" for field in _BASE64_FIELD.findall(frame))
            count += sum(count_placeholders(text) for text in (frame, *fields))
    return count


def _decode_base64(field: bytes) -> bytes | None:
    """Decode base64 that may be truncated or unpadded; None if it is no base64."""
    unpadded = field.replace(b"\\/", b"/").rstrip(b"=")
    try:
        data = b64decode(unpadded + b"A" * (-len(unpadded) % 4), validate=True)
    except ValueError:
        return None
    return data[: len(unpadded) * 6 // 8]
