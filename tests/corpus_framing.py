"""Restores the framing of corpus rows whose recording lost it.

Of some streams only the payloads were recorded, one per line.  The framing of each wire format is
known, so the payloads can be wrapped again in server-sent events or event stream frames.
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
EVENT_STREAM: Final = "application/vnd.amazon.eventstream"


def with_framing(row: Row) -> Row:
    """Return the row with its framing; unchanged if the recording has it."""
    if row.fidelity != "payload-lines":
        return row
    content_type, add_framing = _FRAMING_BY_WIRE[row.wire]
    body = add_framing(line for line in row.body.splitlines() if line.strip())
    headers = (("content-type", content_type),)
    encoded_body = base64.b64encode(body).decode()
    return replace(row, response_headers=headers, body_base64=encoded_body, fidelity="framed again")


def _unnamed_events(payloads: Iterable[bytes]) -> bytes:
    """Encode events without a name; a `[DONE]` that was not recorded is not added."""
    return b"".join(b"data: %b\n\n" % payload for payload in payloads)


def _named_events(payloads: Iterable[bytes], name_field: str = "type") -> bytes:
    """Encode events whose name is a field of their payload."""
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (str(json.loads(payload)[name_field]).encode(), payload)
        for payload in payloads
    )


def _event_stream_frames(payloads: Iterable[bytes]) -> bytes:
    """Encode one frame for the single event that each payload contains."""
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


_FRAMING_BY_WIRE: Final[dict[str, tuple[str, Callable[[Iterable[bytes]], bytes]]]] = {
    "anthropic.messages.payload": (SSE, _named_events),
    "bedrock.converse.payload": (EVENT_STREAM, _event_stream_frames),
    "cohere.v2.payload": (SSE, _named_events),
    "gemini.interactions.payload": (SSE, partial(_named_events, name_field="event_type")),
    "gemini.payload": (SSE, _unnamed_events),
    "openai.chat.payload": (SSE, _unnamed_events),
    "openai.completions.payload": (SSE, _unnamed_events),
    "openai.responses.payload": (SSE, _named_events),
}
"""For each wire format with lost framing: the content type, and the function that restores it."""
