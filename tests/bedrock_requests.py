"""Requests as Bedrock's clients send them, signed for the address that they know."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CLIENTS_ID: Final = "AKIDCANARYOFACLIENT1"
CLIENTS_TOKEN: Final = "session-canary-of-a-client"
SIGNATURE: Final = (
    f"AWS4-HMAC-SHA256 Credential={CLIENTS_ID}/20261122/us-east-1/bedrock/aws4_request, "
    f"SignedHeaders=content-type;host;x-amz-date, Signature={'0' * 64}"
)
SIGNED: Final = (
    f"Authorization: {SIGNATURE}",
    "X-Amz-Date: 20261122T010203Z",
    f"X-Amz-Security-Token: {CLIENTS_TOKEN}",
    "x-amz-content-sha256: UNSIGNED-PAYLOAD",
    "Content-Type: application/json",
)
MODEL: Final = "us.anthropic.claude-x-20260101-v1%3A0"
BODY: Final = b'{"messages":[{"role":"user","content":[{"text":"hi"}]}]}'
CONVERSE: Final = f"/model/{MODEL}/converse"


def on_disk(folder: Path) -> bytes:
    """All that stands below a folder, with the names of its files."""
    return b"\n".join(
        str(path).encode() + path.read_bytes() for path in folder.rglob("*") if path.is_file()
    )


def fields(head: bytes) -> list[tuple[str, str]]:
    """The header fields of a request, as they came."""
    pairs = (item.partition(":") for item in head.decode("latin-1").split("\r\n")[1:] if item)
    return [(name, value.strip()) for name, _, value in pairs]
