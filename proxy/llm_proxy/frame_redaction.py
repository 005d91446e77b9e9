"""Redacts AWS event streams, whose frames declare their own length.

A secret cannot be replaced there as in text: the lengths and the checksums of its frame would be
wrong, and no client would read it again.  So a frame is held back until it is there in full, and
one that holds a secret is written anew.  `InvokeModelWithResponseStream` packs the model's own
events in base64; they are looked into.

A frame that was cut short stays one, and one whose checksum was wrong keeps a wrong one.  What is
no frame is redacted as any other bytes are, and so is a frame that was written anew.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from llm_proxy.exchange import Read
from llm_proxy.framing import eventstream, frame_edits
from llm_proxy.framing.eventstream import EventStreamCodec, RawHeader
from llm_proxy.framing.frame_edits import Edit
from llm_proxy.redaction import PLACEHOLDER, RedactedPiece, Redactor

EVENTSTREAM: Final = "eventstream"
"""The codec whose streams are for this module."""

_FIELD: Final = b'"bytes"'
_PACKED: Final = re.compile(_FIELD + rb'\s*:\s*"([A-Za-z0-9+/=\\]*)')
"""A field of a payload that holds base64, perhaps cut short; JSON may escape a slash."""


class FrameRedactor:
    """Replaces secrets in the frames of a stream, as its reads arrive."""

    def __init__(self, redactor: Redactor) -> None:
        """`redactor` knows the secrets, and goes on counting."""
        self._redactor = redactor
        self._data = bytearray()
        """What was not given out yet: the beginning of a frame."""
        self._clean_frames = 0
        """Bytes at its front that are whole frames without secrets; never any between reads."""
        self._reads: deque[Read] = deque()
        """The same, in reads."""
        self._used_size = 0
        """Bytes of the first of them that were given out."""
        self._size: int | None = None
        """Of the frame that has begun; None until its prelude is there."""
        self._is_framed = True
        """Whether frames go on: nothing tells where they begin again."""

    def feed(self, read: Read) -> list[RedactedPiece]:
        """What is settled after this read, in order, without secrets."""
        if not self._is_redacting_frames():
            return self._redactor.feed(read)
        self._data += read.data
        self._reads.append(read)
        settled: list[RedactedPiece] = []
        while self._has_more():
            if self._size is None:
                self._begin_frames()
            else:
                settled += self._settle_frame(self._size)
        settled += self._release_clean_frames()
        if not self._is_framed:
            settled += self._redact_as_bytes(self._release(len(self._data), ()))
        return settled

    def close(self) -> list[RedactedPiece]:
        """What was held back."""
        return [
            *self._settle_frame(len(self._data)),
            *self._release_clean_frames(),
            *self._redactor.close(),
        ]

    def _is_redacting_frames(self) -> bool:
        return self._is_framed and self._redactor.has_secrets

    def _has_more(self) -> bool:
        """Whether so much is there that we know more: a prelude, or the frame that has begun."""
        needed = eventstream.PRELUDE if self._size is None else self._size
        return self._is_framed and len(self._data) - self._clean_frames >= needed

    def _begin_frames(self) -> None:
        prelude = self._data[self._clean_frames : self._clean_frames + eventstream.PRELUDE]
        self._size = eventstream.frame_size(prelude)
        self._is_framed = self._size is not None and self._size <= eventstream.LONGEST_FRAME

    def _settle_frame(self, size: int) -> list[RedactedPiece]:
        """Settle so many bytes, a frame or what has come of one.

        One without secrets, as nearly all are, waits for those behind it, to go out with them.
        """
        frame, self._size = bytes(self._data[self._clean_frames : self._clean_frames + size]), None
        is_plain = bool(self._redactor.secret_spans(frame))
        edits = self._frame_edits(frame, is_plain=is_plain) if is_plain or _FIELD in frame else []
        is_right = frame_edits.is_intact(frame)
        if is_right and not is_plain and not edits:
            self._clean_frames += size
            return []
        passed = self._release_clean_frames()
        items = self._release(size, frame_edits.with_envelope_edits(frame, edits) if edits else ())
        return [*passed, *self._redact_as_bytes(items, is_over=is_right)]

    def _release_clean_frames(self) -> list[RedactedPiece]:
        size, self._clean_frames = self._clean_frames, 0
        items = self._release(size, ())
        if self._redactor.is_holding_back:  # of what was no right frame
            return self._redact_as_bytes(items, is_over=bool(items))
        return self._redactor.pass_through(items)

    def _frame_edits(self, frame: bytes, *, is_plain: bool) -> list[Edit]:
        """What of a frame's headers and payload is replaced, from left to right.

        `is_plain` says that a secret stands in it as it is.
        """
        place = frame_edits.payload_span(frame)
        if place is None:
            return []
        begin, end = place
        found = [*self._base64_field_edits(frame, begin, end)]
        if is_plain:  # nearly never
            found += self._secret_headers(frame_edits.frame_headers(frame, begin))
            found += self._payload_edits(frame, begin, end)
        edits: list[Edit] = []
        for edit in sorted(found, key=lambda it: it.begin):
            if not edits or edits[-1].end <= edit.begin:
                edits.append(edit)
        return edits

    def _secret_headers(self, headers: Iterable[RawHeader]) -> Iterator[Edit]:
        """The headers that hold a secret; those without room are left to be redacted as bytes."""
        for header in headers:
            count = self._redactor.count
            name = self._redactor.redact(header.name)
            value = self._redactor.redact(header.value) if header.has_length else header.value
            if (name, value) == (header.name, header.value):
                continue
            if (edit := frame_edits.rename_header_edit(header, name, value)) is not None:
                yield edit
            else:
                self._redactor.count = count

    def _payload_edits(self, frame: bytes, begin: int, end: int) -> Iterator[Edit]:
        for first, last in self._redactor.secret_spans(frame[begin:end]):
            self._redactor.count += 1
            yield Edit(begin + first, begin + last, PLACEHOLDER.encode())

    def _base64_field_edits(self, frame: bytes, begin: int, end: int) -> Iterator[Edit]:
        """The fields of a payload that hold a secret in base64."""
        for field in _PACKED.finditer(frame, begin, end):
            packed = _decode_base64(field[1])
            if packed is None or not self._redactor.secret_spans(packed):
                continue
            if not self._redactor.secret_spans(field[1]):  # which are replaced as they are
                redacted = self._redactor.redact(packed)
                new = b64encode(redacted)
                is_cut = field.end() == end
                yield Edit(field.start(1), field.end(1), new.rstrip(b"=") if is_cut else new)

    def _release(self, size: int, edits: Sequence[Edit]) -> list[RedactedPiece]:
        """So many bytes off the front, edited, in the reads that they came in."""
        reads = self._take_reads(size)
        if edits:
            reads = _apply_edits(bytes(self._data[:size]), reads, edits)
        del self._data[:size]
        return [read for read in reads if read.read.data]

    def _take_reads(self, size: int) -> list[RedactedPiece]:
        """The reads that so many bytes off the front came in, the last one as far as they go."""
        taken: list[RedactedPiece] = []
        while size:
            read, begin = self._reads[0], self._used_size
            data = read.data[begin : begin + size]
            taken.append(RedactedPiece(Read(read.at_ms, data), is_rest=begin > 0))
            size -= len(data)
            self._used_size += len(data)
            if self._used_size == len(read.data):
                self._reads.popleft()
                self._used_size = 0
        return taken

    def _redact_as_bytes(
        self, pieces: Iterable[RedactedPiece], *, is_over: bool = False
    ) -> list[RedactedPiece]:
        """The last line of defence: no secret passes, whatever becomes of a frame.

        Where a frame is over, nothing of it is held back: no secret goes on behind its checksum.
        """
        items = [
            out for piece in pieces for out in self._redactor.feed(piece.read, rest=piece.is_rest)
        ]
        return [*items, *self._redactor.close()] if is_over else items


def _apply_edits(
    data: bytes, reads: Sequence[RedactedPiece], edits: Sequence[Edit]
) -> list[RedactedPiece]:
    """`data`, which came in these reads, with these edits."""
    new, begin, edited = frame_edits.apply_edits(data, edits), 0, list[RedactedPiece]()
    ends = frame_edits.moved_positions(accumulate(len(read.read.data) for read in reads), edits)
    for redacted_piece, end in zip(reads, ends, strict=True):
        edited.append(
            RedactedPiece(Read(redacted_piece.read.at_ms, new[begin:end]), redacted_piece.is_rest)
        )
        begin = end
    return edited


def count_placeholders(reads: Iterable[Read]) -> int:
    """How many placeholders the frames of these reads hold, also those in base64."""
    mark, cutter, count = PLACEHOLDER.encode(), EventStreamCodec(eventstream.LONGEST_FRAME), 0
    for frames in (*map(cutter.feed, (read.data for read in reads)), cutter.close()):
        for frame in frames:
            packed = (_decode_base64(field) or b"" for field in _PACKED.findall(frame))
            count += sum(text.count(mark) for text in (frame, *packed))
    return count


def _decode_base64(field: bytes) -> bytes | None:
    """What is packed in base64, as far as it goes; None where it is no base64."""
    bare = field.replace(b"\\/", b"/").rstrip(b"=")
    try:
        data = b64decode(bare + b"A" * (-len(bare) % 4), validate=True)
    except ValueError:
        return None
    return data[: len(bare) * 6 // 8]
