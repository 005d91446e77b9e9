"""What never reaches the disk of an AWS event stream, whose frames know their own length.

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
from llm_proxy.redaction import PLACEHOLDER, Piece, Redactor

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
        self._clean = 0
        """Bytes at its front that are whole frames without secrets; never any between reads."""
        self._reads: deque[Read] = deque()
        """The same, in reads."""
        self._used = 0
        """Bytes of the first of them that were given out."""
        self._size: int | None = None
        """Of the frame that has begun; None until its prelude is there."""
        self._framed = True
        """Whether frames go on: nothing tells where they begin again."""

    def feed(self, read: Read) -> list[Piece]:
        """What is settled after this read, in order, without secrets."""
        if not self._looks_for_secrets():
            return self._redactor.feed(read)
        self._data += read.data
        self._reads.append(read)
        settled: list[Piece] = []
        while self._goes_on():
            if self._size is None:
                self._begin()
            else:
                settled += self._frame(self._size)
        settled += self._pass()
        if not self._framed:
            settled += self._as_bytes(self._give(len(self._data), ()))
        return settled

    def close(self) -> list[Piece]:
        """What was held back."""
        return [*self._frame(len(self._data)), *self._pass(), *self._redactor.close()]

    def _looks_for_secrets(self) -> bool:
        """Whether frames still come, and may have to be written anew."""
        return self._framed and self._redactor.has_secrets

    def _goes_on(self) -> bool:
        """Whether so much is there that we know more: a prelude, or the frame that has begun."""
        needed = eventstream.PRELUDE if self._size is None else self._size
        return self._framed and len(self._data) - self._clean >= needed

    def _begin(self) -> None:
        prelude = self._data[self._clean : self._clean + eventstream.PRELUDE]
        self._size = eventstream.frame_size(prelude)
        self._framed = self._size is not None and self._size <= eventstream.LONGEST_FRAME

    def _frame(self, size: int) -> list[Piece]:
        """Settle so many bytes, a frame or what has come of one.

        One without secrets, as nearly all are, waits for those behind it, to go out with them.
        """
        frame, self._size = bytes(self._data[self._clean : self._clean + size]), None
        is_plain = bool(self._redactor.spans(frame))
        edits = self._edits(frame, is_plain=is_plain) if is_plain or _FIELD in frame else []
        is_right = frame_edits.is_right(frame)
        if is_right and not is_plain and not edits:
            self._clean += size
            return []
        passed = self._pass()
        given = self._give(size, frame_edits.fitted(frame, edits) if edits else ())
        return [*passed, *self._as_bytes(given, is_over=is_right)]

    def _pass(self) -> list[Piece]:
        """Give the frames without secrets that are waiting."""
        size, self._clean = self._clean, 0
        given = self._give(size, ())
        if self._redactor.holds_back:  # of what was no right frame
            return self._as_bytes(given, is_over=bool(given))
        return self._redactor.skip(given)

    def _edits(self, frame: bytes, *, is_plain: bool) -> list[Edit]:
        """What of a frame's headers and payload is replaced, from left to right.

        `is_plain` says that a secret stands in it as it is.
        """
        place = frame_edits.payload(frame)
        if place is None:
            return []
        begin, end = place
        found = [*self._packed(frame, begin, end)]
        if is_plain:  # nearly never
            found += self._named(frame_edits.headers(frame, begin))
            found += self._plain(frame, begin, end)
        edits: list[Edit] = []
        for edit in sorted(found, key=lambda it: it.begin):
            if not edits or edits[-1].end <= edit.begin:
                edits.append(edit)
        return edits

    def _named(self, headers: Iterable[RawHeader]) -> Iterator[Edit]:
        """The headers that hold a secret; those without room are left to be redacted as bytes."""
        for it in headers:
            count = self._redactor.count
            name = self._redactor.whole(it.name)
            value = self._redactor.whole(it.value) if it.has_length else it.value
            if (name, value) == (it.name, it.value):
                continue
            if (edit := frame_edits.renamed(it, name, value)) is not None:
                yield edit
            else:
                self._redactor.count = count

    def _plain(self, frame: bytes, begin: int, end: int) -> Iterator[Edit]:
        """The secrets in a payload."""
        for first, last in self._redactor.spans(frame[begin:end]):
            self._redactor.count += 1
            yield Edit(begin + first, begin + last, PLACEHOLDER.encode())

    def _packed(self, frame: bytes, begin: int, end: int) -> Iterator[Edit]:
        """The fields of a payload that hold a secret in base64."""
        for field in _PACKED.finditer(frame, begin, end):
            packed = _unpacked(field[1])
            if packed is None or not self._redactor.spans(packed):
                continue
            if not self._redactor.spans(field[1]):  # which are replaced as they are
                redacted = self._redactor.whole(packed)
                new = b64encode(redacted)
                is_cut = field.end() == end
                yield Edit(field.start(1), field.end(1), new.rstrip(b"=") if is_cut else new)

    def _give(self, size: int, edits: Sequence[Edit]) -> list[Piece]:
        """So many bytes off the front, edited, in the reads that they came in."""
        reads = self._take(size)
        if edits:
            reads = _edited(bytes(self._data[:size]), reads, edits)
        del self._data[:size]
        return [it for it in reads if it.read.data]

    def _take(self, size: int) -> list[Piece]:
        """The reads that so many bytes off the front came in, the last one as far as they go."""
        taken: list[Piece] = []
        while size:
            read, begin = self._reads[0], self._used
            data = read.data[begin : begin + size]
            taken.append(Piece(Read(read.at, data), rest=begin > 0))
            size -= len(data)
            self._used += len(data)
            if self._used == len(read.data):
                self._reads.popleft()
                self._used = 0
        return taken

    def _as_bytes(self, pieces: Iterable[Piece], *, is_over: bool = False) -> list[Piece]:
        """The last line of defence: no secret passes, whatever becomes of a frame.

        Where a frame is over, nothing of it is held back: no secret goes on behind its checksum.
        """
        given = [out for it in pieces for out in self._redactor.feed(it.read, rest=it.rest)]
        return [*given, *self._redactor.close()] if is_over else given


def _edited(data: bytes, reads: Sequence[Piece], edits: Sequence[Edit]) -> list[Piece]:
    """`data`, which came in these reads, with these edits."""
    new, begin, edited = frame_edits.applied(data, edits), 0, list[Piece]()
    ends = frame_edits.moved(accumulate(len(it.read.data) for it in reads), edits)
    for it, end in zip(reads, ends, strict=True):
        edited.append(Piece(Read(it.read.at, new[begin:end]), it.rest))
        begin = end
    return edited


def placeholders(reads: Iterable[Read]) -> int:
    """How many placeholders the frames of these reads hold, also those in base64."""
    mark, cutter, count = PLACEHOLDER.encode(), EventStreamCodec(eventstream.LONGEST_FRAME), 0
    for frames in (*map(cutter.feed, (it.data for it in reads)), cutter.close()):
        for frame in frames:
            packed = (_unpacked(field) or b"" for field in _PACKED.findall(frame))
            count += sum(text.count(mark) for text in (frame, *packed))
    return count


def _unpacked(field: bytes) -> bytes | None:
    """What is packed in base64, as far as it goes; None where it is no base64."""
    bare = field.replace(b"\\/", b"/").rstrip(b"=")
    try:
        data = b64decode(bare + b"A" * (-len(bare) % 4), validate=True)
    except ValueError:
        return None
    return data[: len(bare) * 6 // 8]
