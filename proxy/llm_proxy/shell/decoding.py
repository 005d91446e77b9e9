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


class CodingError(Exception):
    """The body is not what its `Content-Encoding` says, or it is a bomb."""


class Decoder(Protocol):
    """Undoes one coding."""

    def decode(self, data: bytes) -> bytes:
        """The bytes that `data` makes available; raises `CodingError`."""


class _Zlib:
    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._inflate = zlib.decompressobj(wbits)
        self._size = 0
        self._fresh = True

    def decode(self, data: bytes) -> bytes:
        try:
            return self._decode(data)
        except zlib.error as error:
            if self._fresh and self._wbits == zlib.MAX_WBITS:  # raw deflate, against the RFC
                self._wbits = -zlib.MAX_WBITS
                self._inflate = zlib.decompressobj(self._wbits)
                return self.decode(data)
            raise CodingError(str(error)) from None

    def _decode(self, data: bytes) -> bytes:
        pieces: list[bytes] = []
        while data:
            if self._inflate.eof:  # a further gzip member
                self._inflate = zlib.decompressobj(self._wbits)
            pieces.append(self._inflate.decompress(data, _STEP))
            self._size += len(pieces[-1])
            if self._size > LARGEST:
                raise CodingError(f"it decodes to more than {LARGEST} bytes")
            data = self._inflate.unconsumed_tail or self._inflate.unused_data
        self._fresh = False
        return b"".join(pieces)


class _Foreign:
    """A decompressor of an optional package."""

    def __init__(self, decompress: Callable[[bytes], bytes], errors: type[Exception]) -> None:
        self._decompress = decompress
        self._errors = errors
        self._size = 0

    def decode(self, data: bytes) -> bytes:
        try:
            decoded = self._decompress(data)
        except (self._errors, EOFError) as error:
            raise CodingError(str(error)) from None
        self._size += len(decoded)
        if self._size > LARGEST:
            raise CodingError(f"it decodes to more than {LARGEST} bytes")
        return decoded


def decoder(coding: str) -> Decoder | None:
    """A fresh decoder for a `Content-Encoding`, or None where there is none to be had."""
    match coding:
        case "gzip" | "x-gzip":
            return _Zlib(zlib.MAX_WBITS | 16)
        case "deflate":
            return _Zlib(zlib.MAX_WBITS)
        case "br":
            brotli = _optional("brotli")
            return brotli and _Foreign(brotli.Decompressor().process, brotli.error)
        case "zstd":
            zstd = _optional("compression.zstd") or _optional("backports.zstd")
            return zstd and _Foreign(zstd.ZstdDecompressor().decompress, zstd.ZstdError)
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
