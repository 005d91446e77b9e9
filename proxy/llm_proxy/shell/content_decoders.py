"""Decodes content codings as the reads arrive.

The client gets a compressed response unchanged; the cassette stores it decoded, so that it can be
read and reviewed.  `br` and `zstd` need the extra `speedups`; a body that cannot be decoded here
is stored compressed, with its `Content-Encoding`.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from llm_proxy.exchange import Headers, ResponseHead, header_value

MAX_DECODED_BYTES: Final = 256 * 1024 * 1024
"""Maximum decoded size of a body; a larger one is treated as a decompression bomb."""
_MAX_PIECE_BYTES: Final = 1024 * 1024
_ZLIB_HEADER_BYTES: Final = 2
_TRUNCATED_ERROR: Final = "the coded body is cut short"


class InvalidContentCoding(Exception):
    """The body does not match its `Content-Encoding`, or is a decompression bomb."""


class ContentDecoder(Protocol):
    """Incremental decoder of one content coding."""

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded bytes that `data` makes available, in pieces of a MiB or little more.

        Each piece is decoded when it is requested: exhaust the iterator before the next call, or
        give up on the body.  Raises `InvalidContentCoding`.
        """

    def raise_if_truncated(self) -> None:
        """End the body.  Raises `InvalidContentCoding` if it is truncated."""


class _DecodedSizeLimit:
    """Raises `InvalidContentCoding` once a body decodes to more than `MAX_DECODED_BYTES`."""

    def __init__(self) -> None:
        self._decoded_bytes = 0

    def count_decoded_piece(self, piece: bytes) -> None:
        self._decoded_bytes += len(piece)
        if self._decoded_bytes > MAX_DECODED_BYTES:
            raise InvalidContentCoding(f"it decodes to more than {MAX_DECODED_BYTES} bytes")


class _ZlibDecoder:
    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._inflater = zlib.decompressobj(wbits)
        self._size_limit = _DecodedSizeLimit()
        self._is_started = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        has_more = False
        while data or has_more:
            self._is_started = True
            if self._inflater.eof:  # a further gzip member
                self._inflater = zlib.decompressobj(self._wbits)
            try:
                piece = self._inflater.decompress(data, _MAX_PIECE_BYTES)
            except zlib.error as error:
                raise InvalidContentCoding(str(error)) from None
            self._size_limit.count_decoded_piece(piece)
            data = self._inflater.unconsumed_tail or self._inflater.unused_data
            has_more = len(piece) == _MAX_PIECE_BYTES and not self._inflater.eof
            yield piece

    def raise_if_truncated(self) -> None:
        if self._is_started and not self._inflater.eof:
            raise InvalidContentCoding(_TRUNCATED_ERROR)


class _DeflateDecoder:
    """Decodes `deflate`: zlib as in the RFC, or raw deflate, which some servers send against it."""

    def __init__(self) -> None:
        self._header_bytes = b""
        self._zlib_decoder: _ZlibDecoder | None = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        if self._zlib_decoder is None:
            self._header_bytes = data = self._header_bytes + data
            if len(data) < _ZLIB_HEADER_BYTES:
                return
            is_zlib = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
            self._zlib_decoder = _ZlibDecoder(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
        yield from self._zlib_decoder.decode(data)

    def raise_if_truncated(self) -> None:
        if self._zlib_decoder is not None:
            self._zlib_decoder.raise_if_truncated()
        elif self._header_bytes:
            raise InvalidContentCoding(_TRUNCATED_ERROR)


@dataclass(frozen=True, slots=True)
class _Decompressor:
    """A decompressor of an optional package, adapted for `_OptionalPackageDecoder`."""

    decompress_step: Callable[[bytes], bytes]
    """Decompresses to `_MAX_PIECE_BYTES` or little more, and buffers the unused input."""
    has_more_after: Callable[[bytes], bool]
    """Whether more output may follow this piece without more input."""
    is_finished: Callable[[], bool]
    error_type: type[Exception]


class _OptionalPackageDecoder:
    def __init__(self, decompressor: _Decompressor) -> None:
        self._decompressor = decompressor
        self._size_limit = _DecodedSizeLimit()
        self._is_started = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        has_more = False
        while data or has_more:
            self._is_started = True
            try:
                piece = self._decompressor.decompress_step(data)
            except (self._decompressor.error_type, EOFError) as error:
                raise InvalidContentCoding(str(error)) from None
            self._size_limit.count_decoded_piece(piece)
            data, has_more = b"", self._decompressor.has_more_after(piece)
            yield piece

    def raise_if_truncated(self) -> None:
        if self._is_started and not self._decompressor.is_finished():
            raise InvalidContentCoding(_TRUNCATED_ERROR)


def new_decoder(coding: str) -> ContentDecoder | None:
    """A new decoder for a `Content-Encoding`; None if it is unknown or its package is missing."""
    match coding:
        case "gzip" | "x-gzip":
            return _ZlibDecoder(zlib.MAX_WBITS | 16)
        case "deflate":
            return _DeflateDecoder()
        case "br":
            brotli = _import_optional("brotli")
            return brotli and _OptionalPackageDecoder(_brotli_decompressor(brotli))
        case "zstd":
            zstd = _import_optional("compression.zstd") or _import_optional("backports.zstd")
            return zstd and _OptionalPackageDecoder(_zstd_decompressor(zstd))
        case _:
            return None


def _brotli_decompressor(package: Any) -> _Decompressor:
    decompressor = package.Decompressor()
    return _Decompressor(
        decompress_step=lambda data: decompressor.process(
            data, output_buffer_limit=_MAX_PIECE_BYTES
        ),
        # `can_accept_more_data` may be true although there is more output.
        has_more_after=lambda piece: bool(piece) or not decompressor.can_accept_more_data(),
        is_finished=decompressor.is_finished,
        error_type=package.error,
    )


def _zstd_decompressor(package: Any) -> _Decompressor:
    decompressor = package.ZstdDecompressor()
    return _Decompressor(
        decompress_step=lambda data: decompressor.decompress(data, max_length=_MAX_PIECE_BYTES),
        has_more_after=lambda _: not (decompressor.eof or decompressor.needs_input),
        is_finished=lambda: decompressor.eof,
        error_type=package.ZstdError,
    )


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
    headers: Headers = tuple(pair for pair in head.headers if pair[0].lower() != "content-encoding")
    return (
        ResponseHead(head.status, head.reason, headers, head.framing, head.content_length),
        coding,
        decoder,
    )
