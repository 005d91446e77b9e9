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
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from llm_proxy.exchange import Read
from llm_proxy.framing import eventstream, frame_edits
from llm_proxy.framing.eventstream import MAX_FRAME_BYTES, PRELUDE_BYTES, EventStreamSplitter
from llm_proxy.framing.frame_edits import ByteEdit
from llm_proxy.redaction import PLACEHOLDER, RedactedPiece, Redactor

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
        self._clean_bytes = 0
        """Leading bytes of `_pending` in whole frames without secrets; 0 between reads."""
        self._pending_reads: deque[Read] = deque()
        """The reads of `_pending`."""
        self._released_bytes = 0
        """Bytes of the first pending read that were returned already."""
        self._frame_bytes: int | None = None
        """Size of the current frame; None until its prelude is complete."""
        self._is_framed = True
        """Whether the stream is still framed: after invalid bytes, no frame start can be found."""

    def feed(self, read: Read) -> list[RedactedPiece]:
        """Take a read; return the pieces that are final now, in order, without secrets."""
        if not (self._is_framed and self._redactor.has_secrets):
            return self._redactor.feed(read)
        self._pending += read.received_bytes
        self._pending_reads.append(read)
        settled: list[RedactedPiece] = []
        while self._is_framed:
            begin = self._clean_bytes
            if len(self._pending) - begin < (self._frame_bytes or PRELUDE_BYTES):
                break
            if self._frame_bytes is not None:
                settled += self._redact_frame(self._frame_bytes)
                continue
            self._frame_bytes = eventstream.frame_size(self._pending[begin : begin + PRELUDE_BYTES])
            self._is_framed = self._frame_bytes is not None and self._frame_bytes <= MAX_FRAME_BYTES
        settled += self._release_clean_frames()
        if not self._is_framed:
            settled += self._redact_as_bytes(self._release_bytes(len(self._pending), ()))
        return settled

    def flush(self) -> list[RedactedPiece]:
        """Return the pieces that were held back."""
        return [
            *self._redact_frame(len(self._pending)),
            *self._release_clean_frames(),
            *self._redactor.flush(),
        ]

    def _redact_frame(self, size: int) -> list[RedactedPiece]:
        """Redact `size` bytes: a frame, or the part of one that arrived.

        A frame without secrets, as nearly all are, is kept to be returned with the next ones.
        """
        frame = bytes(self._pending[self._clean_bytes : self._clean_bytes + size])
        self._frame_bytes = None
        has_plain_secret = bool(self._redactor.secret_spans(frame))
        edits = (
            self._frame_edits(frame, has_plain_secret=has_plain_secret)
            if has_plain_secret or _BYTES_FIELD in frame
            else []
        )
        is_intact = frame_edits.is_intact_frame(frame)
        if is_intact and not has_plain_secret and not edits:
            self._clean_bytes += size
            return []
        released = self._release_clean_frames()
        pieces = self._release_bytes(
            size, frame_edits.with_envelope_edits(frame, edits) if edits else ()
        )
        return [*released, *self._redact_as_bytes(pieces, is_frame_complete=is_intact)]

    def _release_clean_frames(self) -> list[RedactedPiece]:
        size, self._clean_bytes = self._clean_bytes, 0
        pieces = self._release_bytes(size, ())
        if self._redactor.is_holding_back:  # bytes of an invalid frame
            return self._redact_as_bytes(pieces, is_frame_complete=bool(pieces))
        return self._redactor.pass_clean_pieces(pieces)

    def _frame_edits(self, frame: bytes, *, has_plain_secret: bool) -> list[ByteEdit]:
        """The edits of a frame's headers and payload, from left to right.

        `has_plain_secret`: whether the frame contains a secret unencoded.
        """
        span = frame_edits.payload_span(frame)
        if span is None:
            return []
        begin, end = span
        candidates = [*self._base64_field_edits(frame, begin, end)]
        if has_plain_secret:  # nearly never
            candidates += self._header_edits(frame, begin)
            for first, last in self._redactor.secret_spans(frame[begin:end]):
                self._redactor.replaced_count += 1
                candidates.append(ByteEdit(begin + first, begin + last, PLACEHOLDER.encode()))
        edits: list[ByteEdit] = []
        for edit in sorted(candidates, key=lambda edit: edit.begin):
            if not edits or edits[-1].end <= edit.begin:
                edits.append(edit)
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

    def _base64_field_edits(self, frame: bytes, begin: int, end: int) -> Iterator[ByteEdit]:
        """The edits of payload fields that hold a secret in base64."""
        for field in _BASE64_FIELD.finditer(frame, begin, end):
            decoded = _decode_base64(field[1])
            if decoded is None or not self._redactor.secret_spans(decoded):
                continue
            if not self._redactor.secret_spans(field[1]):  # else `_payload_edits` replaces it
                redacted = self._redactor.redact(decoded)
                new = b64encode(redacted)
                is_truncated = field.end() == end
                yield ByteEdit(
                    field.start(1), field.end(1), new.rstrip(b"=") if is_truncated else new
                )

    def _release_bytes(self, size: int, edits: Sequence[ByteEdit]) -> list[RedactedPiece]:
        """Remove the first `size` bytes; return them, edited, in their reads."""
        reads = self._take_reads(size)
        if edits:
            reads = _apply_edits_to_reads(bytes(self._pending[:size]), reads, edits)
        del self._pending[:size]
        return [read for read in reads if read.redacted_read.received_bytes]

    def _take_reads(self, size: int) -> list[RedactedPiece]:
        """Remove the reads of the first `size` bytes; the last read may be split."""
        taken: list[RedactedPiece] = []
        while size:
            read, begin = self._pending_reads[0], self._released_bytes
            data = read.received_bytes[begin : begin + size]
            taken.append(RedactedPiece(Read(read.at_ms, data), is_continuation=begin > 0))
            size -= len(data)
            self._released_bytes += len(data)
            if self._released_bytes == len(read.received_bytes):
                self._pending_reads.popleft()
                self._released_bytes = 0
        return taken

    def _redact_as_bytes(
        self, pieces: Iterable[RedactedPiece], *, is_frame_complete: bool = False
    ) -> list[RedactedPiece]:
        """The last line of defence: no secret passes, even if rewriting a frame failed.

        At the end of a frame nothing is held back: no secret continues past its checksum.
        """
        redacted_pieces = [
            out
            for piece in pieces
            for out in self._redactor.feed(
                piece.redacted_read, is_continuation=piece.is_continuation
            )
        ]
        return [*redacted_pieces, *self._redactor.flush()] if is_frame_complete else redacted_pieces


def _apply_edits_to_reads(
    data: bytes, reads: Sequence[RedactedPiece], edits: Sequence[ByteEdit]
) -> list[RedactedPiece]:
    """Apply edits to `data`; return the result in the reads that `data` came in."""
    new, begin = frame_edits.apply_edits(data, edits), 0
    ends = frame_edits.moved_positions(
        accumulate(len(piece.redacted_read.received_bytes) for piece in reads), edits
    )
    edited: list[RedactedPiece] = []
    for piece, end in zip(reads, ends, strict=True):
        read = Read(piece.redacted_read.at_ms, new[begin:end])
        edited.append(RedactedPiece(read, piece.is_continuation))
        begin = end
    return edited


def count_placeholders(reads: Iterable[Read]) -> int:
    """The number of placeholders in the frames of these reads, including those in base64."""
    splitter, count = EventStreamSplitter(MAX_FRAME_BYTES), 0
    for frames in (*(splitter.feed(read.received_bytes) for read in reads), splitter.close()):
        for frame in frames:
            fields = (_decode_base64(field) or b"" for field in _BASE64_FIELD.findall(frame))
            count += sum(text.count(PLACEHOLDER.encode()) for text in (frame, *fields))
    return count


def _decode_base64(field: bytes) -> bytes | None:
    """Decode base64 that may be truncated or unpadded; None if it is no base64."""
    unpadded = field.replace(b"\\/", b"/").rstrip(b"=")
    try:
        data = b64decode(unpadded + b"A" * (-len(unpadded) % 4), validate=True)
    except ValueError:
        return None
    return data[: len(unpadded) * 6 // 8]
