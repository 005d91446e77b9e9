"""Spools as a crash leaves them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from llm_proxy.cassette import spool
from llm_proxy.cassette.spool import SpoolLine
from llm_proxy.exchange import Read, ResponseHead
from stored_cassettes import STREAM, call, chat, event, meta_of

REQUEST: Final = chat("hi")
PIECES: Final = (event("Hel"), event("lo"))


def opening(folder: Path, request: bytes = REQUEST, take: int = 1) -> bytes:
    """Lines 1 to 3 of a spool for the library in `folder`."""
    of = call(request)
    target = SpoolLine(1, str((folder / "cassettes").absolute()), take)
    return spool.encode_opening(target, meta_of(of), of.stored_request)


def body(*pieces: bytes, head: ResponseHead = STREAM) -> bytes:
    """The head, and reads 10 ms apart."""
    reads = (Read(10.0 * number, piece) for number, piece in enumerate(pieces, 1))
    return spool.encode_head(head, 1.0, "sse", "") + b"".join(map(spool.encode_read, reads))


def left(folder: Path, content: bytes, name: str = "1-1-0123456789abcdef") -> Path:
    """A spool below `folder` that nobody holds."""
    (folder / "spool").mkdir(mode=0o700, exist_ok=True)
    path = folder / "spool" / f"{name}.spool"
    path.write_bytes(content)
    return path


def aged(path: Path, seconds: float) -> Path:
    """Make a file this old."""
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))
    return path
