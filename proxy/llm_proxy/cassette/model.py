"""The values that a cassette holds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from llm_proxy.exchange import Ending, Headers, Read, ResponseHead

FORMAT: Final = 1
"""The format that this tool writes, and the newest that it reads."""

DEFAULT_SESSION: Final = "default"
"""The session of a request that names none."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Line 1: what this file is."""

    tool: str
    recorded: str
    """UTC, ISO 8601 with milliseconds."""
    dialect: str
    provider: str
    model: str
    """Empty where the dialect knows none."""
    session: str
    key: str
    """64 hexadecimal digits."""
    key_rules: int
    redaction_rules: int
    rules: tuple[str, ...] = ()
    """The rules of the operator's that loosened the key, with their versions: `uuids@1`."""
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """Line 2: the request after redaction."""

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes
    redacted: int = 0
    """How many values were replaced in it."""


@dataclass(frozen=True, slots=True)
class End:
    """The last line: how it ended."""

    ending: Ending
    at_ms: float
    """ms since the request was read in full."""
    size: int
    """Bytes of the stored body."""
    sha256: str
    redacted: int = 0
    """How many secrets were replaced in the response."""


@dataclass(frozen=True, slots=True)
class Cassette:
    """One exchange, as it was stored."""

    file: str
    """Its path, as it is named in messages."""
    meta: Meta
    request: StoredRequest
    head: ResponseHead
    head_at_ms: float
    """ms since the request was read in full."""
    codec: str
    """What cut the body into messages: a name of `llm_proxy.framing.CODECS`."""
    decoded: str
    """The content coding that the response arrived in and is stored without; else empty."""
    messages: tuple[bytes, ...]
    reads: tuple[Read, ...]
    end: End

    @property
    def body(self) -> bytes:
        """The stored body: all reads in one."""
        return b"".join(read.data for read in self.reads)


def sha256(body: bytes) -> str:
    """The checksum that the last line carries, in hexadecimal."""
    return hashlib.sha256(body).hexdigest()
