"""How two answers differ as they came: heads, endings, bytes and times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from llm_proxy import display
from llm_proxy.cassette import Cassette
from llm_proxy.diff.difference import Kind
from llm_proxy.diff.flatten import apart
from llm_proxy.diff.words import shared_length
from llm_proxy.exchange import Headers
from llm_proxy.outcome import outcome
from llm_proxy.timeline import arrivals

_OF_THE_MOMENT: Final = re.compile(
    r".*ratelimit-.*|.*-ms|.*-latency|retry-after|etag|x-amzn-bedrock-.*-count|num_tokens"
    r"|x-(trial-)?endpoint-.*"
)
"""Headers that tell how things stood when the answer was sent."""

_EMPTY: Final = '""'
"""How a header without a value is shown."""

Found = tuple[Kind, str, str, str]


def heads(one: Cassette, other: Cassette) -> Iterator[Found]:
    """Status and headers; the kind of content belongs to the shape of an answer."""
    before, after = (f"{it.head.status} {it.head.reason}".rstrip() for it in (one, other))
    if before != after:
        is_other = one.head.status != other.head.status
        yield Kind.STATUS if is_other else Kind.HEADER, "status", before, after
    if one.head.framing != other.head.framing:
        yield Kind.HEADER, "framing", one.head.framing, other.head.framing
    for name, first, second in apart(_fields(one.head.headers), _fields(other.head.headers)):
        if name == "content-type":
            if _essence(first) != _essence(second):
                yield Kind.SHAPE, name, first, second
            yield Kind.HEADER, name, first, second
        else:
            kind = Kind.MOMENT if _OF_THE_MOMENT.fullmatch(name) else Kind.HEADER
            yield kind, name, first, second


def endings(one: Cassette, other: Cassette) -> Iterator[Found]:
    """How they ended, and what that means."""
    before, after = (it.end.ending.value for it in (one, other))
    if before != after:
        yield Kind.ENDING, "ending", before, after
    first, second = outcome(one), outcome(other)
    if first.complete != second.complete:
        yield Kind.ENDING, "outcome", str(first), str(second)


def first_bytes(one: Cassette, other: Cassette) -> Iterator[Found]:
    """Where the stored bodies part, if they do."""
    if one.end.sha256 == other.end.sha256:
        return
    yield Kind.BYTES, "size", str(one.end.size), str(other.end.size)
    yield Kind.BYTES, "sha256", one.end.sha256, other.end.sha256
    place = shared_length(one.body, other.body)
    yield Kind.BYTES, f"from byte {place}", _message_at(one, place), _message_at(other, place)
    if len(one.messages) != len(other.messages):
        before, after = (str(len(it.messages)) for it in (one, other))
        yield Kind.BYTES, "messages", before, after


def times(one: Cassette, other: Cassette) -> Iterator[Found]:
    """When it came: the first byte, the longest gap, the end, and in how many reads."""
    for where, before, after in apart(_times(one), _times(other)):
        yield Kind.TIME, where, before, after


def _times(it: Cassette) -> dict[str, str]:
    gaps = [arrival.gap for arrival in arrivals(it.messages, it.reads)][1:]
    known = {
        "head": display.duration(it.head_at),
        "first byte": display.duration(it.reads[0].at) if it.reads else "",
        "longest gap": display.duration(max(gaps)) if gaps else "",
        "end": display.duration(it.end.at),
        "reads": str(len(it.reads)),
    }
    return {name: value for name, value in known.items() if value}


def _fields(headers: Headers) -> dict[str, str]:
    """The values of each name, in their order."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value)
    return {name: ", ".join(each) or _EMPTY for name, each in values.items()}


def _essence(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _message_at(it: Cassette, place: int) -> str:
    """The message that holds this byte; nothing behind the last."""
    position = 0
    for number, message in enumerate(it.messages, 1):
        position += len(message)
        if position > place:
            return f"message {number}: {message.decode('utf-8', 'backslashreplace').strip()}"
    return ""
