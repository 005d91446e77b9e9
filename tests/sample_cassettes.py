"""A small sample library: cassettes of each kind, and damaged files beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from llm_proxy.exchange import Ending, ResponseHead
from raw_http import build_http_request
from stored_cassettes import (
    StoredResponse,
    chat_event,
    raw_chat_request,
    text_response,
    write_cassettes,
)

TERMINAL_ESCAPE: Final = "\x1b]0;owned\x07\x1b[2J"
"""Escape sequences that set a terminal's title and clear its screen."""

OPAQUE_REQUEST: Final = build_http_request(
    "/v1/realtime/sessions", b'{"model":"gpt-5","input":"hi"}'
)
PLAIN_TEXT_HEAD: Final = ResponseHead(200, "OK", (("Content-Type", "text/plain"),), "close")


def write_complete(folder: Path, *texts: str, content: str = "hi") -> Path:
    """Write a complete stream of these texts."""
    return write_cassettes(
        folder, raw_chat_request(content), text_response(*(texts or ("Hel", "lo")), gap=20)
    )[0]


def write_partial(folder: Path) -> Path:
    """Write a stream that the upstream reset."""
    reset_response = StoredResponse(((5.0, chat_event("Hel")),), Ending.RST, 9.5)
    return write_cassettes(folder, raw_chat_request("broken"), reset_response)[0]


def write_unproven(folder: Path) -> Path:
    """Write an opaque body that only the connection's close delimits."""
    return write_cassettes(
        folder, OPAQUE_REQUEST, StoredResponse(((5.0, b"text"),), head=PLAIN_TEXT_HEAD)
    )[0]


def write_in_session(folder: Path, name: str) -> Path:
    """Write a complete stream of a named session."""
    return write_cassettes(
        folder, raw_chat_request("hi", path=f"/@{name}/v1/chat/completions"), text_response("Hi")
    )[0]


def write_truncated(folder: Path) -> Path:
    """Write a cassette that another tool's crash truncated."""
    path = write_complete(folder, content="torn")
    path.write_bytes(path.read_bytes()[:-20])
    return path


def replace_in_file(path: Path, old: str, new: str) -> None:
    """Replace text in a file; the old text must occur in it."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
