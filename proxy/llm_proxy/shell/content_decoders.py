"""Decodes content codings as the reads arrive.

The client gets a coded response as it came; the cassette keeps it decoded, so that it can be
read and reviewed.  `br` and `zstd` need the extra `speedups`; what cannot be decoded here is
stored coded, with its header.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from llm_proxy.exchange import Headers, ResponseHead, header_value

LARGEST: Final = 256 * 1024 * 1024
"""Bytes: a body that decodes to more than this is a bomb."""
_STEP: Final = 1024 * 1024
_ZLIB_HEADER: Final = 2
_CUT: Final = "the coded body is cut short"


class InvalidContentCoding(Exception):
    """The body is not what its `Content-Encoding` says, or it is a bomb."""


class ContentDecoder(Protocol):
    """Undoes one coding."""

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` makes available, in pieces of a MiB or little more.

        Each piece is decoded when it is requested.  Take them all before the next `data`, or
        give up on the body.  Raises `InvalidContentCoding`.
        """

    def close(self) -> None:
        """Say that nothing follows; raises `InvalidContentCoding` when something had to."""


class _SizeCounter:
    """Counts what was given out."""

    def __init__(self) -> None:
        self._size = 0

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > LARGEST:
            raise InvalidContentCoding(f"it decodes to more than {LARGEST} bytes")


class _ZlibDecoder:
    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._inflate = zlib.decompressobj(wbits)
        self._size_counter = _SizeCounter()
        self._is_started = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        more = False
        while data or more:
            self._is_started = True
            if self._inflate.eof:  # a further gzip member
                self._inflate = zlib.decompressobj(self._wbits)
            try:
                piece = self._inflate.decompress(data, _STEP)
            except zlib.error as error:
                raise InvalidContentCoding(str(error)) from None
            self._size_counter.add(piece)
            data = self._inflate.unconsumed_tail or self._inflate.unused_data
            more = len(piece) == _STEP and not self._inflate.eof
            yield piece

    def close(self) -> None:
        if self._is_started and not self._inflate.eof:
            raise InvalidContentCoding(_CUT)


class _DeflateDecoder:
    """What servers mean by `deflate`: zlib as the RFC says, or bare deflate against it."""

    def __init__(self) -> None:
        self._start = b""
        self._zlib: _ZlibDecoder | None = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        if self._zlib is None:
            self._start = data = self._start + data
            if len(data) < _ZLIB_HEADER:
                return
            is_zlib = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
            self._zlib = _ZlibDecoder(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
        yield from self._zlib.decode(data)

    def close(self) -> None:
        if self._zlib is not None:
            self._zlib.close()
        elif self._start:
            raise InvalidContentCoding(_CUT)


@dataclass(frozen=True, slots=True)
class _Decompressor:
    """A decompressor of an optional package, as `_Foreign` needs it."""

    decompress_step: Callable[[bytes], bytes]
    """Decompresses to `_STEP` bytes or little more, and keeps what it did not use."""
    has_more: Callable[[bytes], bool]
    """Whether it may give more after this piece without more data."""
    finished: Callable[[], bool]
    errors: type[Exception]


class _LibraryDecoder:
    def __init__(self, unpacker: _Decompressor) -> None:
        self._unpacker = unpacker
        self._size_counter = _SizeCounter()
        self._is_started = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        more = False
        while data or more:
            self._is_started = True
            try:
                piece = self._unpacker.decompress_step(data)
            except (self._unpacker.errors, EOFError) as error:
                raise InvalidContentCoding(str(error)) from None
            self._size_counter.add(piece)
            data, more = b"", self._unpacker.has_more(piece)
            yield piece

    def close(self) -> None:
        if self._is_started and not self._unpacker.finished():
            raise InvalidContentCoding(_CUT)


def new_decoder(coding: str) -> ContentDecoder | None:
    """A fresh decoder for a `Content-Encoding`, or None where there is none to be had."""
    match coding:
        case "gzip" | "x-gzip":
            return _ZlibDecoder(zlib.MAX_WBITS | 16)
        case "deflate":
            return _DeflateDecoder()
        case "br":
            brotli = _import_optional("brotli")
            return brotli and _LibraryDecoder(_brotli_decompressor(brotli))
        case "zstd":
            zstd = _import_optional("compression.zstd") or _import_optional("backports.zstd")
            return zstd and _LibraryDecoder(_zstd_decompressor(zstd))
        case _:
            return None


def _brotli_decompressor(package: Any) -> _Decompressor:
    unpack = package.Decompressor()
    return _Decompressor(
        decompress_step=lambda data: unpack.process(data, output_buffer_limit=_STEP),
        # It says that it accepts more data while it has pieces to give.
        has_more=lambda piece: bool(piece) or not unpack.can_accept_more_data(),
        finished=unpack.is_finished,
        errors=package.error,
    )


def _zstd_decompressor(package: Any) -> _Decompressor:
    unpack = package.ZstdDecompressor()
    return _Decompressor(
        decompress_step=lambda data: unpack.decompress(data, max_length=_STEP),
        has_more=lambda _: not (unpack.eof or unpack.needs_input),
        finished=lambda: unpack.eof,
        errors=package.ZstdError,
    )


def _import_optional(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def decode_head(head: ResponseHead) -> tuple[ResponseHead, str, ContentDecoder | None]:
    """The head as it is stored, the coding that was taken off, and what takes it off the body."""
    coding = (header_value(head.headers, "content-encoding") or "").strip().lower()
    undo = new_decoder(coding) if coding and head.framing != "none" else None
    if undo is None:
        return head, "", None
    headers: Headers = tuple(pair for pair in head.headers if pair[0].lower() != "content-encoding")
    return ResponseHead(head.status, head.reason, headers, head.framing, head.length), coding, undo
