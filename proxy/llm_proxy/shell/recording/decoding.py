"""Content codings, undone as the reads arrive.

The client gets a coded response as it came; the cassette keeps it decoded, so that it can be
read and reviewed.  `br` and `zstd` need the extra `speedups`; what cannot be decoded here is
stored coded, with its header.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any, Final, Protocol

from llm_proxy.exchange import Head, Headers, header

LARGEST: Final = 256 * 1024 * 1024
"""Bytes: a body that decodes to more than this is a bomb."""
_STEP: Final = 1024 * 1024
_ZLIB_HEADER: Final = 2
_CUT: Final = "the coded body is cut short"


class CodingError(Exception):
    """The body is not what its `Content-Encoding` says, or it is a bomb."""


class Decoder(Protocol):
    """Undoes one coding."""

    def decode(self, data: bytes) -> bytes:
        """The bytes that `data` makes available; raises `CodingError`."""

    def close(self) -> None:
        """Say that nothing follows; raises `CodingError` when something had to."""


class _Zlib:
    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._inflate = zlib.decompressobj(wbits)
        self._size = 0
        self._begun = False

    def decode(self, data: bytes) -> bytes:
        try:
            return self._decode(data)
        except zlib.error as error:
            raise CodingError(str(error)) from None

    def close(self) -> None:
        if self._begun and not self._inflate.eof:
            raise CodingError(_CUT)

    def _decode(self, data: bytes) -> bytes:
        pieces: list[bytes] = []
        more = False
        while data or more:
            self._begun = True
            if self._inflate.eof:  # a further gzip member
                self._inflate = zlib.decompressobj(self._wbits)
            pieces.append(self._inflate.decompress(data, _STEP))
            self._size += len(pieces[-1])
            if self._size > LARGEST:
                raise CodingError(f"it decodes to more than {LARGEST} bytes")
            data = self._inflate.unconsumed_tail or self._inflate.unused_data
            more = len(pieces[-1]) == _STEP and not self._inflate.eof
        return b"".join(pieces)


class _Deflate:
    """What servers mean by `deflate`: zlib as the RFC says, or bare deflate against it."""

    def __init__(self) -> None:
        self._start = b""
        self._zlib: _Zlib | None = None

    def decode(self, data: bytes) -> bytes:
        if self._zlib is None:
            self._start = data = self._start + data
            if len(data) < _ZLIB_HEADER:
                return b""
            is_zlib = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
            self._zlib = _Zlib(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
        return self._zlib.decode(data)

    def close(self) -> None:
        if self._zlib is not None:
            self._zlib.close()
        elif self._start:
            raise CodingError(_CUT)


class _Foreign:
    """A decompressor of an optional package."""

    def __init__(
        self,
        decompress: Callable[[bytes], bytes],
        finished: Callable[[], bool],
        errors: type[Exception],
    ) -> None:
        self._decompress = decompress
        self._finished = finished
        self._errors = errors
        self._size = 0
        self._begun = False

    def decode(self, data: bytes) -> bytes:
        self._begun = True
        try:
            decoded = self._decompress(data)
        except (self._errors, EOFError) as error:
            raise CodingError(str(error)) from None
        self._size += len(decoded)
        if self._size > LARGEST:
            raise CodingError(f"it decodes to more than {LARGEST} bytes")
        return decoded

    def close(self) -> None:
        if self._begun and not self._finished():
            raise CodingError(_CUT)


def decoder(coding: str) -> Decoder | None:
    """A fresh decoder for a `Content-Encoding`, or None where there is none to be had."""
    match coding:
        case "gzip" | "x-gzip":
            return _Zlib(zlib.MAX_WBITS | 16)
        case "deflate":
            return _Deflate()
        case "br":
            brotli = _optional("brotli")
            unpack = brotli and brotli.Decompressor()
            return unpack and _Foreign(unpack.process, unpack.is_finished, brotli.error)
        case "zstd":
            zstd = _optional("compression.zstd") or _optional("backports.zstd")
            unpack = zstd and zstd.ZstdDecompressor()
            return unpack and _Foreign(unpack.decompress, lambda: unpack.eof, zstd.ZstdError)
        case _:
            return None


def _optional(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def decoded_head(head: Head) -> tuple[Head, str, Decoder | None]:
    """The head as it is stored, the coding that was taken off, and what takes it off the body."""
    coding = (header(head.headers, "content-encoding") or "").strip().lower()
    undo = decoder(coding) if coding and head.framing != "none" else None
    if undo is None:
        return head, "", None
    headers: Headers = tuple(pair for pair in head.headers if pair[0].lower() != "content-encoding")
    return Head(head.status, head.reason, headers, head.framing, head.length), coding, undo
