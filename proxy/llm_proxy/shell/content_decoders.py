"""Decodes content codings as the reads arrive.

The client gets a compressed response unchanged; the cassette stores it decoded, so that it can be
read and reviewed.  `br` and `zstd` need the extra `speedups`; a body that cannot be decoded here
is stored compressed, with its `Content-Encoding`.
"""

from __future__ import annotations

import importlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from llm_proxy.exchange import ResponseHead, header_value

MAX_DECODED_BYTES: Final = 256 * 1024 * 1024
"""Maximum decoded size of a body; a larger one is treated as a decompression bomb."""
_MAX_PIECE_BYTES: Final = 1024 * 1024
_ZLIB_HEADER_BYTES: Final = 2
_TRUNCATED_ERROR: Final = "the coded body is cut short"


class InvalidContentCoding(Exception):
    """The body does not match its `Content-Encoding`, or is a decompression bomb."""


class ContentDecoder(ABC):
    """Incremental decoder of one content coding."""

    def __init__(self, error_type: type[Exception]) -> None:
        self._error_type = error_type
        self._decoded_bytes = 0
        self._is_started = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded bytes that `data` makes available, in pieces of a MiB or little more.

        Each piece is decoded when it is requested: exhaust the iterator before the next call, or
        give up on the body.  Raises `InvalidContentCoding`.
        """
        has_more = False
        while data or has_more:
            self._is_started = True
            try:
                piece, data, has_more = self._decode_piece(data)
            except (self._error_type, EOFError) as error:
                raise InvalidContentCoding(str(error)) from None
            self._decoded_bytes += len(piece)
            if self._decoded_bytes > MAX_DECODED_BYTES:
                raise InvalidContentCoding(f"it decodes to more than {MAX_DECODED_BYTES} bytes")
            yield piece

    def raise_if_truncated(self) -> None:
        """End the body.  Raises `InvalidContentCoding` if it is truncated."""
        if self._is_started and not self._is_finished():
            raise InvalidContentCoding(_TRUNCATED_ERROR)

    @abstractmethod
    def _decode_piece(self, data: bytes) -> tuple[bytes, bytes, bool]:
        """A piece, the input to pass again, and whether more output may follow without any."""

    @abstractmethod
    def _is_finished(self) -> bool: ...


class _ZlibDecoder(ContentDecoder):
    def __init__(self, wbits: int) -> None:
        super().__init__(zlib.error)
        self._wbits = wbits
        self._inflater = zlib.decompressobj(wbits)

    def _decode_piece(self, data: bytes) -> tuple[bytes, bytes, bool]:
        if self._inflater.eof:  # a further gzip member
            self._inflater = zlib.decompressobj(self._wbits)
        piece = self._inflater.decompress(data, _MAX_PIECE_BYTES)
        rest = self._inflater.unconsumed_tail or self._inflater.unused_data
        return piece, rest, len(piece) == _MAX_PIECE_BYTES and not self._inflater.eof

    def _is_finished(self) -> bool:
        return self._inflater.eof


class _DeflateDecoder(_ZlibDecoder):
    """Decodes `deflate`: zlib as in the RFC, or raw deflate, which some servers send against it."""

    def __init__(self) -> None:
        super().__init__(zlib.MAX_WBITS)
        self._header_bytes = b""

    def decode(self, data: bytes) -> Iterator[bytes]:
        if not self._is_started:
            self._header_bytes = data = self._header_bytes + data
            if len(data) < _ZLIB_HEADER_BYTES:
                return
            if data[0] & 0x0F != zlib.DEFLATED or int.from_bytes(data[:2], "big") % 31:
                self._wbits = -zlib.MAX_WBITS
                self._inflater = zlib.decompressobj(self._wbits)
        yield from super().decode(data)

    def raise_if_truncated(self) -> None:
        if self._header_bytes and not self._inflater.eof:
            raise InvalidContentCoding(_TRUNCATED_ERROR)


class _BrotliDecoder(ContentDecoder):
    def __init__(self, package: Any) -> None:
        super().__init__(package.error)
        self._decompressor = package.Decompressor()

    def _decode_piece(self, data: bytes) -> tuple[bytes, bytes, bool]:
        piece = self._decompressor.process(data, output_buffer_limit=_MAX_PIECE_BYTES)
        # `can_accept_more_data` may be true although there is more output.
        return piece, b"", bool(piece) or not self._decompressor.can_accept_more_data()

    def _is_finished(self) -> bool:
        return bool(self._decompressor.is_finished())


class _ZstdDecoder(ContentDecoder):
    def __init__(self, package: Any) -> None:
        super().__init__(package.ZstdError)
        self._decompressor = package.ZstdDecompressor()

    def _decode_piece(self, data: bytes) -> tuple[bytes, bytes, bool]:
        piece = self._decompressor.decompress(data, max_length=_MAX_PIECE_BYTES)
        return piece, b"", not (self._decompressor.eof or self._decompressor.needs_input)

    def _is_finished(self) -> bool:
        return bool(self._decompressor.eof)


def new_decoder(coding: str) -> ContentDecoder | None:
    """A new decoder for a `Content-Encoding`; None if it is unknown or its package is missing."""
    match coding:
        case "gzip" | "x-gzip":
            return _ZlibDecoder(zlib.MAX_WBITS | 16)
        case "deflate":
            return _DeflateDecoder()
        case "br":
            brotli = _import_optional("brotli")
            return brotli and _BrotliDecoder(brotli)
        case "zstd":
            zstd = _import_optional("compression.zstd") or _import_optional("backports.zstd")
            return zstd and _ZstdDecoder(zstd)
        case _:
            return None


def _import_optional(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def strip_content_coding(head: ResponseHead) -> tuple[ResponseHead, str, ContentDecoder | None]:
    """The head to store, the coding removed from it ("" for none), and the body's decoder."""
    coding = (header_value(head.headers, "content-encoding") or "").strip().lower()
    decoder = new_decoder(coding) if coding and head.framing != "none" else None
    if decoder is None:
        return head, "", None
    headers = tuple(pair for pair in head.headers if pair[0].lower() != "content-encoding")
    return replace(head, headers=headers), coding, decoder
