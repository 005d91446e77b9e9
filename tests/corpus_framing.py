"""Rows of the corpus as their provider sent them, also those whose recording lost the framing.

Of some streams only the payloads were kept, one a line.  What was around them is known for each
wire, so they can be put back into it: into events, or into frames.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from corpus import Row
from llm_proxy.framing.eventstream import encode_frame

SSE: Final = "text/event-stream"
FRAMES: Final = "application/vnd.amazon.eventstream"


def as_sent(row: Row) -> Row:
    """The row with its framing; itself where the recording kept that."""
    if row.fidelity != "payload-lines":
        return row
    content_type, around = _AROUND[row.wire]
    body = around(line for line in row.body.splitlines() if line.strip())
    headers = (("content-type", content_type),)
    coded = base64.b64encode(body).decode()
    return replace(row, response_headers=headers, body_base64=coded, fidelity="framed again")


def _unnamed(payloads: Iterable[bytes]) -> bytes:
    """Events without a name; a `[DONE]` that was not kept is not made up."""
    return b"".join(b"data: %b\n\n" % payload for payload in payloads)


def _named(payloads: Iterable[bytes], by: str = "type") -> bytes:
    """Events that bear the name that stands inside them."""
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (str(json.loads(payload)[by]).encode(), payload)
        for payload in payloads
    )


def _frames(payloads: Iterable[bytes]) -> bytes:
    """Frames of the one event that each payload wraps."""
    events = (next(iter(json.loads(item).items())) for item in payloads)
    return b"".join(
        encode_frame(
            [
                (":event-type", name),
                (":content-type", "application/json"),
                (":message-type", "event"),
            ],
            json.dumps(payload).encode(),
        )
        for name, payload in events
    )


_AROUND: Final[dict[str, tuple[str, Callable[[Iterable[bytes]], bytes]]]] = {
    "anthropic.messages.payload": (SSE, _named),
    "bedrock.converse.payload": (FRAMES, _frames),
    "cohere.v2.payload": (SSE, _named),
    "gemini.interactions.payload": (SSE, partial(_named, by="event_type")),
    "gemini.payload": (SSE, _unnamed),
    "openai.chat.payload": (SSE, _unnamed),
    "openai.completions.payload": (SSE, _unnamed),
    "openai.responses.payload": (SSE, _named),
}
"""Of each wire whose framing was lost: the content type, and what puts the payloads back."""
