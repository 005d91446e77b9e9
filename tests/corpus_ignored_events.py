"""Which events of the real streams our dialects ignore: measured, not declared.

A kind of event is ignored if no stream decodes to another turn or completeness without the events
of that kind, and if those events alone decode to nothing.  So an event that only repeats others is
not ignored, and nothing here depends on what a dialect declares.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import corpus
from corpus_comparison import row_response
from corpus_framing import with_framing
from llm_proxy import dialects
from llm_proxy.dialects import Completeness, Dialect, DialectResponse
from llm_proxy.framing.eventstream import parse_frame
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import Turn

LEFT_OUT: Final = Path(__file__).with_name("corpus_left_out.json")
"""The ignored kinds of events: `empty` or `lost`, then dialect, then kind, then the reason.

`empty` events carry nothing, or only what other events carry as well.
"""

_ENVELOPE: Final = frozenset(
    """created id index model object obfuscation p provider seed service_tier system_fingerprint
    token_id ts_us ttft_ms contentBlockIndex""".split()  # noqa: SIM905 # readable
)
"""Fields of an event's envelope, which are not its content."""

Counts = Counter[tuple[str, str]]
"""The number of events, by dialect and kind."""


def count_events() -> tuple[Counts, Counts]:
    """Count all events of the streams that a dialect decodes, and those that it ignores."""
    seen: Counts = Counter()
    read_kinds: set[tuple[str, str]] = set()
    for row in corpus.rows():
        if not row.streaming:
            continue
        dialect = dialects.dialect_of_request(row.request)
        response = row_response(with_framing(row))
        if not (turns := dialect.decode_response(response)):
            continue  # no dialect decodes this wire, or the stream has no content
        kinds = [event_kind(response.codec_name, message) for message in response.framed_messages]
        seen.update((dialect.name, kind) for kind in kinds)
        decoded = turns, dialect.completeness(response)
        read_kinds |= {
            (dialect.name, kind)
            for kind in set(kinds)
            if (dialect.name, kind) not in read_kinds
            and _affects_decoding(dialect, response, decoded, kinds, kind)
        }
    return seen, Counter({key: count for key, count in seen.items() if key not in read_kinds})


def _affects_decoding(
    dialect: Dialect,
    response: DialectResponse,
    decoded: tuple[tuple[Turn, ...], Completeness],
    kinds: Sequence[str],
    tested_kind: str,
) -> bool:
    """Whether the events of this kind have content alone, or change the decoded response."""
    pairs = list(zip(kinds, response.framed_messages, strict=True))
    alone = replace(
        response, framed_messages=[message for kind, message in pairs if kind == tested_kind]
    )
    if any(_has_content(turn) for turn in dialect.decode_response(alone)):
        return True
    without = replace(
        response, framed_messages=[message for kind, message in pairs if kind != tested_kind]
    )
    return (dialect.decode_response(without), dialect.completeness(without)) != decoded


def _has_content(turn: Turn) -> bool:
    return bool(turn.parts or turn.finish or turn.usage or turn.failure)


def event_kind(codec: str, message: bytes) -> str:
    """The kind of an event: its own type names, else the names of its non-empty fields."""
    document = _event_document(codec, message)
    if not isinstance(document, dict):
        return str(document)
    inner: Any = next(
        (document[name] for name in ("delta", "content_block", "item", "step") if name in document),
        {},
    )
    types = [part.get("type") for part in (document, inner) if isinstance(part, dict)]
    event_name = document.get("event_type") or document.get("event")
    labels = [label for label in (event_name, *types) if isinstance(label, str)]
    return " ".join(labels) or _filled_field_names(document) or "an envelope"


def _event_document(codec: str, message: bytes) -> Any:
    """The JSON document of an event; a label for an event without one."""
    data: bytes | None = message
    if codec == "sse":
        data = parse_event(message).data
    elif codec == "eventstream":
        return _frame_document(message)
    if data is None or not data.strip():
        return "comment" if message.startswith(b":") else "nothing but lines"
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")[:30]


def _frame_document(message: bytes) -> Any:
    frame = parse_frame(message)
    if frame is None:
        return "no frame"
    payload = json.loads(frame.payload)
    if "bytes" in payload:
        return json.loads(base64.b64decode(payload["bytes"]))
    return f"{frame.header(':event-type')} {_filled_field_names(payload)}".strip()


def _filled_field_names(document: Any) -> str:
    return " ".join(sorted(set(_filled_fields(document)) - _ENVELOPE))


def _filled_fields(value: Any) -> Iterator[str]:
    """The names of the non-empty fields, at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from _filled_fields(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, dict | list):
                yield from _filled_fields(item)
            elif item not in (None, ""):
                yield name


def reasons(category: str) -> dict[tuple[str, str], str]:
    """The listed reasons of the category `empty` or `lost`, by dialect and kind."""
    listed = json.loads(LEFT_OUT.read_bytes())[category]
    return {
        (dialect, kind): why for dialect, kinds in listed.items() for kind, why in kinds.items()
    }
