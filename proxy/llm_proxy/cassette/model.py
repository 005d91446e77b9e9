"""The data model of a cassette."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from llm_proxy.exchange import Ending, Headers, Read, ResponseHead

FORMAT_VERSION: Final = 1
"""The format version that this tool writes, and the newest that it reads."""

DEFAULT_SESSION: Final = "default"
"""The session of a request that names none."""


@dataclass(frozen=True, slots=True)
class CassetteMeta:
    """Line 1: the metadata."""

    recording_tool: str
    recorded_at: str
    """UTC, ISO 8601 with milliseconds."""
    dialect: str
    provider: str
    model: str
    """Empty if the dialect knows none."""
    session: str
    key: str
    """64 hexadecimal digits."""
    key_rules_version: int
    redaction_rules_version: int
    match_rules: tuple[str, ...] = ()
    """The operator's match rules for the key, with their versions: `uuids@1`."""
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """Line 2: the request after redaction."""

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes
    redacted_count: int = 0
    """The number of values that were redacted."""


@dataclass(frozen=True, slots=True)
class CassetteEnd:
    """The last line: how and when the response ended."""

    ending: Ending
    at_ms: float
    """ms since the request was read in full."""
    size_bytes: int
    """The size of the stored body."""
    sha256: str
    redacted_count: int = 0
    """The number of secrets that were replaced in the response."""


@dataclass(frozen=True, slots=True)
class Cassette:
    """One stored exchange."""

    file: str
    """The path of the file, for messages."""
    meta: CassetteMeta
    request: StoredRequest
    response_head: ResponseHead
    response_head_at_ms: float
    """ms since the request was read in full."""
    codec_name: str
    """The codec that split the body into messages: a name of `llm_proxy.framing.CODECS`."""
    content_coding: str
    """The `Content-Encoding` that was removed before storing the response; empty if none."""
    framed_messages: tuple[bytes, ...]
    reads: tuple[Read, ...]
    response_end: CassetteEnd

    @property
    def response_body(self) -> bytes:
        """The stored body: all reads joined."""
        return b"".join(read.received_bytes for read in self.reads)


def sha256_hex(body: bytes) -> str:
    """The SHA-256 of a body in hexadecimal, as in the last line."""
    return hashlib.sha256(body).hexdigest()
