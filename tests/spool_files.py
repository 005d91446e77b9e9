"""Spool files as a crash leaves them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from llm_proxy.cassette import spool
from llm_proxy.cassette.spool import SpoolTargetLine
from llm_proxy.exchange import Read, ResponseHead
from stored_cassettes import (
    SSE_HEAD,
    chat_event,
    meta_for_request,
    raw_chat_request,
    route_raw_request,
)

REQUEST: Final = raw_chat_request("hi")
EVENTS: Final = (chat_event("Hel"), chat_event("lo"))


def encode_opening(folder: Path, request: bytes = REQUEST, take: int = 1) -> bytes:
    """Encode lines 1 to 3 of a spool for the library in `folder`."""
    routed_request = route_raw_request(request)
    target = SpoolTargetLine(1, str((folder / "cassettes").absolute()), take)
    return spool.encode_opening(
        target, meta_for_request(routed_request), routed_request.stored_request
    )


def encode_body(*pieces: bytes, head: ResponseHead = SSE_HEAD) -> bytes:
    """Encode the head, and reads 10 ms apart."""
    reads = (Read(10.0 * number, piece) for number, piece in enumerate(pieces, 1))
    return spool.encode_head(head, 1.0, "sse", "") + b"".join(map(spool.encode_read, reads))


def write_spool(folder: Path, content: bytes, name: str = "1-1-0123456789abcdef") -> Path:
    """Write a spool below `folder` that no process has locked."""
    (folder / "spool").mkdir(mode=0o700, exist_ok=True)
    path = folder / "spool" / f"{name}.spool"
    path.write_bytes(content)
    return path


def make_older(path: Path, seconds: float) -> Path:
    """Set a file's modification time this many seconds back."""
    modified_at = path.stat().st_mtime - seconds
    os.utime(path, (modified_at, modified_at))
    return path
