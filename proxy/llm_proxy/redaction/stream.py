"""Replaces secrets in a stream of reads, before they are written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.exchange import Read
from llm_proxy.redaction.encodings import SecretSpan
from llm_proxy.redaction.finder import SecretFinder

_FEW_HELD_BYTES: Final = 512
"""So many bytes that are held back are searched again with each read."""


@dataclass(frozen=True, slots=True)
class RedactedPiece(Read):
    """A read without secrets, or a part of one."""

    is_continuation: bool = False
    """Whether it continues the read of the previous piece: it had been held back."""


class Redactor:
    """Replaces secrets in bytes: all at once, or in reads as they arrive.

    While reads arrive, bytes that may begin a secret are held back from the disk until the next
    read decides; the client has received them already.
    """

    def __init__(self, finder: SecretFinder) -> None:
        """`finder` finds what is replaced."""
        self._finder = finder
        self._held_pieces: list[RedactedPiece] = []
        self._held_bytes = 0
        self._next_search_bytes = 0
        """How many bytes are held back before they are searched again: twice as many as the last
        time if they are many, so that small reads do not take quadratic time."""
        self._is_read_start_dropped = False
        """Whether the last returned part of a read was empty, so that its rest begins the read."""
        self.replaced_count = 0
        """The number of secrets replaced so far."""

    def redact(self, data: bytes) -> bytes:
        """`data` with its secrets replaced."""
        spans = self._finder.find(data)
        self.replaced_count += sum(span.count for span in spans)
        return _replace_spans(data, 0, len(data), spans) if spans else data

    @property
    def has_secrets(self) -> bool:
        """Whether there are secrets to look for."""
        return bool(self._finder)

    @property
    def is_holding_back(self) -> bool:
        """Whether bytes are held back."""
        return bool(self._held_pieces)

    def secret_spans(self, data: bytes) -> list[SecretSpan]:
        """The secrets in `data`, from left to right."""
        return self._finder.find(data)

    def redact_latin1(self, value: str) -> str:
        """Text that is decoded as Latin-1, such as a header value, with its secrets replaced."""
        return self.redact(value.encode("latin-1", "replace")).decode("latin-1")

    def feed(self, read: Read) -> list[RedactedPiece]:
        """Take a read, or a piece of one; return the pieces that are final now.

        They are in order and without secrets.
        """
        piece = (
            read
            if isinstance(read, RedactedPiece)
            else RedactedPiece(read.at_ms, read.received_bytes)
        )
        if not self._finder:
            return [piece]
        self._held_pieces.append(piece)
        self._held_bytes += len(piece.received_bytes)
        if self._held_bytes < self._next_search_bytes:
            return []
        data = b"".join(held.received_bytes for held in self._held_pieces)
        return self._release_until(data, self._finder.open_offset(data))

    def pass_clean_pieces(self, pieces: list[RedactedPiece]) -> list[RedactedPiece]:
        """Return pieces without secrets unchanged; only valid while nothing is held back."""
        if pieces:
            is_continuation = pieces[0].is_continuation and not self._is_read_start_dropped
            pieces[0] = replace(pieces[0], is_continuation=is_continuation)
            self._is_read_start_dropped = False
        return pieces

    def flush(self) -> list[RedactedPiece]:
        """Return the pieces that were held back; more reads may follow."""
        data = b"".join(held.received_bytes for held in self._held_pieces)
        return self._release_until(data, len(data))

    def _release_until(self, data: bytes, until_offset: int) -> list[RedactedPiece]:
        """Return the pieces up to an offset; a placeholder goes to the read that it begins in."""
        spans = [span for span in self._finder.find(data) if span.begin < until_offset]
        until_offset = max([until_offset, *(span.end for span in spans)])
        self.replaced_count += sum(span.count for span in spans)
        settled, kept = list[RedactedPiece](), list[RedactedPiece]()
        position = 0
        for held in self._held_pieces:
            begin, position = position, position + len(held.received_bytes)
            if begin >= until_offset:
                kept.append(held)
                continue
            is_continuation = held.is_continuation and not self._is_read_start_dropped
            piece = _replace_spans(data, begin, min(position, until_offset), spans)
            if piece:
                settled.append(RedactedPiece(held.at_ms, piece, is_continuation))
                is_continuation = True
            if position > until_offset:
                rest = data[until_offset:position]
                kept.append(RedactedPiece(held.at_ms, rest, is_continuation))
            self._is_read_start_dropped = position <= until_offset and not is_continuation
        self._held_pieces = kept
        self._held_bytes = len(data) - until_offset
        is_much = self._held_bytes > _FEW_HELD_BYTES
        self._next_search_bytes = 2 * self._held_bytes if is_much else 0
        return settled


def _replace_spans(data: bytes, begin: int, end: int, spans: Iterable[SecretSpan]) -> bytes:
    """`data[begin:end]` with the replacement at the beginning of each span."""
    pieces: list[bytes] = []
    offset = begin
    for span in spans:
        if span.end <= offset or span.begin >= end:
            continue
        pieces.append(data[offset : max(offset, span.begin)])
        if span.begin >= begin:
            pieces.append(span.replacement)
        offset = min(span.end, end)
    pieces.append(data[offset:end])
    return b"".join(pieces)
