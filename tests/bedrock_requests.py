"""Requests as Bedrock clients send them, signed for the host that they are configured with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CLIENT_ACCESS_KEY_ID: Final = "AKIDCANARYOFACLIENT1"
CLIENT_SESSION_TOKEN: Final = "session-canary-of-a-client"
AUTHORIZATION: Final = (
    f"AWS4-HMAC-SHA256 Credential={CLIENT_ACCESS_KEY_ID}/20261122/us-east-1/bedrock/aws4_request, "
    f"SignedHeaders=content-type;host;x-amz-date, Signature={'0' * 64}"
)
SIGNED_HEADERS: Final = (
    f"Authorization: {AUTHORIZATION}",
    "X-Amz-Date: 20261122T010203Z",
    f"X-Amz-Security-Token: {CLIENT_SESSION_TOKEN}",
    "x-amz-content-sha256: UNSIGNED-PAYLOAD",
    "Content-Type: application/json",
)
MODEL: Final = "us.anthropic.claude-x-20260101-v1%3A0"
CONVERSE_BODY: Final = b'{"messages":[{"role":"user","content":[{"text":"hi"}]}]}'
CONVERSE_PATH: Final = f"/model/{MODEL}/converse"


def folder_bytes(folder: Path) -> bytes:
    """The paths and contents of all files below a folder, joined."""
    return b"\n".join(
        str(path).encode() + path.read_bytes() for path in folder.rglob("*") if path.is_file()
    )


def parse_header_fields(head: bytes) -> list[tuple[str, str]]:
    """The header fields of a raw request head, in order."""
    pairs = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:] if line)
    return [(name, value.strip()) for name, _, value in pairs]
