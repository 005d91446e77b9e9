"""Which events of the real streams our dialects leave out: counted, not claimed.

A kind of event is left out if no stream has another turn or judgement without the events of
that kind, and if alone they say nothing.  So what only repeats what stands beside it is not left
out, and nothing here rests on what a dialect says of itself.
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
from corpus_comparison import response
from corpus_framing import as_sent
from llm_proxy import dialects
from llm_proxy.dialects import Dialect, DialectResponse
from llm_proxy.framing.eventstream import parse_frame
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import Turn

LEFT_OUT: Final = Path(__file__).with_name("corpus_left_out.json")
"""What is left out, and why: `empty` or `lost`, then dialect, then kind, then the reason.

Empty is what says nothing by itself, or only what other events say as well.
"""

_ENVELOPE: Final = frozenset(
    """created id index model object obfuscation p provider seed service_tier system_fingerprint
    token_id ts_us ttft_ms contentBlockIndex""".split()  # noqa: SIM905 # readable
)
"""Fields around what an event says."""

Counts = Counter[tuple[str, str]]
"""Events, by dialect and kind."""


def count() -> tuple[Counts, Counts]:
    """All events of the streams that a dialect reads, and those of them that are left out."""
    seen: Counts = Counter()
    read: set[tuple[str, str]] = set()
    for row in corpus.rows():
        if not row.streaming:
            continue
        dialect, answer = dialects.find_dialect(row.request), response(as_sent(row))
        if not dialect.decode(answer):
            continue  # no dialect reads this wire, or nothing was said on it
        kinds = [kind(answer.codec, message) for message in answer.messages]
        seen.update((dialect.name, item) for item in kinds)
        open_ones = {item for item in kinds if (dialect.name, item) not in read}
        read |= {
            (dialect.name, open_one)
            for open_one in open_ones
            if _reads(dialect, answer, kinds, open_one)
        }
    return seen, Counter({it: number for it, number in seen.items() if it not in read})


def _reads(dialect: Dialect, answer: DialectResponse, kinds: Sequence[str], of: str) -> bool:
    """Whether the events of this kind change anything, or say anything alone."""
    pairs = list(zip(kinds, answer.messages, strict=True))
    without = replace(answer, messages=[it for kind, it in pairs if kind != of])
    alone = replace(answer, messages=[it for kind, it in pairs if kind == of])
    changed = dialect.decode(without) != dialect.decode(answer)
    judged_otherwise = dialect.completeness(without) != dialect.completeness(answer)
    return changed or judged_otherwise or any(_says(item) for item in dialect.decode(alone))


def _says(turn: Turn) -> bool:
    return bool(turn.parts or turn.finish or turn.usage or turn.failure)


def kind(codec: str, message: bytes) -> str:
    """What an event is: its own word for it, else the names of the fields that it fills."""
    said = _said(codec, message)
    if not isinstance(said, dict):
        return str(said)
    inner: Any = next(
        (said[item] for item in ("delta", "content_block", "item", "step") if item in said), {}
    )
    types = [item.get("type") for item in (said, inner) if isinstance(item, dict)]
    named = said.get("event_type") or said.get("event")
    words = [item for item in (named, *types) if isinstance(item, str)]
    return " ".join(words) or _fields(said) or "an envelope"


def _said(codec: str, message: bytes) -> Any:
    """The document of an event; a word for an event without one."""
    data: bytes | None = message
    if codec == "sse":
        data = parse_event(message).data
    elif codec == "eventstream":
        return _of_frame(message)
    if data is None or not data.strip():
        return "comment" if message.startswith(b":") else "nothing but lines"
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")[:30]


def _of_frame(message: bytes) -> Any:
    read = parse_frame(message)
    if read is None:
        return "no frame"
    said = json.loads(read.payload)
    if "bytes" in said:
        return json.loads(base64.b64decode(said["bytes"]))
    return f"{read.header(':event-type')} {_fields(said)}".strip()


def _fields(said: Any) -> str:
    return " ".join(sorted(set(_filled(said)) - _ENVELOPE))


def _filled(said: Any) -> Iterator[str]:
    """The names of the fields with something in them, at any depth."""
    if isinstance(said, list):
        for it in said:
            yield from _filled(it)
    elif isinstance(said, dict):
        for name, it in said.items():
            if isinstance(it, dict | list):
                yield from _filled(it)
            elif it not in (None, ""):
                yield name


def reasons(of: str) -> dict[tuple[str, str], str]:
    """Why kinds of events are left out that are `empty`, or `lost`: by dialect and kind."""
    listed = json.loads(LEFT_OUT.read_bytes())[of]
    return {(name, it): why for name, kinds in listed.items() for it, why in kinds.items()}
