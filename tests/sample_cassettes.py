"""A small library to look at: one cassette of each kind, and what is wrong beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from llm_proxy.exchange import Ending, ResponseHead
from raw_http import post
from stored_cassettes import Answer, chat, event, put, says

ESC: Final = "\x1b]0;owned\x07\x1b[2J"
"""What sets a terminal's title and clears it."""

OPAQUE: Final = post("/v1/realtime/sessions", b'{"model":"gpt-5","input":"hi"}')
PLAIN: Final = ResponseHead(200, "OK", (("Content-Type", "text/plain"),), "close")


def complete(folder: Path, *texts: str, content: str = "hi") -> Path:
    """A complete stream that says these texts."""
    return put(folder, chat(content), says(*(texts or ("Hel", "lo")), gap=20))[0]


def partial(folder: Path) -> Path:
    """A stream that the upstream reset."""
    broken = Answer(((5.0, event("Hel")),), Ending.RST, 9.5)
    return put(folder, chat("broken"), broken)[0]


def unproven(folder: Path) -> Path:
    """An opaque body that only a close delimits."""
    return put(folder, OPAQUE, Answer(((5.0, b"text"),), head=PLAIN))[0]


def in_session(folder: Path, name: str) -> Path:
    """A complete stream of a named session."""
    return put(folder, chat("hi", path=f"/@{name}/v1/chat/completions"), says("Hi"))[0]


def torn(folder: Path) -> Path:
    """A file that a crash of somebody else's tool tore."""
    path = complete(folder, content="torn")
    path.write_bytes(path.read_bytes()[:-20])
    return path


def rewritten(path: Path, old: str, new: str) -> None:
    """Edit a file by hand."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
