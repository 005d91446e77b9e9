"""Compares two responses as received: heads, endings, bytes and times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from llm_proxy import display
from llm_proxy.cassette import Cassette
from llm_proxy.diff.difference import DifferenceKind
from llm_proxy.diff.flatten import differing_values
from llm_proxy.diff.word_diff import common_prefix_length
from llm_proxy.exchange import Headers
from llm_proxy.outcome import outcome_of
from llm_proxy.timeline import message_arrivals

_OF_THE_MOMENT: Final = re.compile(
    r".*ratelimit-.*|.*-ms|.*-latency|retry-after|etag|x-amzn-bedrock-.*-count|num_tokens"
    r"|x-(trial-)?endpoint-.*"
)
"""Headers that tell how things stood when the answer was sent."""

_EMPTY: Final = '""'
"""How a header without a value is shown."""

Found = tuple[DifferenceKind, str, str, str]


def compare_heads(one: Cassette, other: Cassette) -> Iterator[Found]:
    """Status and headers; the kind of content belongs to the shape of an answer."""
    before, after = (
        f"{cassette.head.status} {cassette.head.reason}".rstrip() for cassette in (one, other)
    )
    if before != after:
        is_other = one.head.status != other.head.status
        yield DifferenceKind.STATUS if is_other else DifferenceKind.HEADER, "status", before, after
    if one.head.framing != other.head.framing:
        yield DifferenceKind.HEADER, "framing", one.head.framing, other.head.framing
    for name, first, second in differing_values(
        _values_by_name(one.head.headers), _values_by_name(other.head.headers)
    ):
        if name == "content-type":
            if _media_type(first) != _media_type(second):
                yield DifferenceKind.SHAPE, name, first, second
            yield DifferenceKind.HEADER, name, first, second
        else:
            kind = (
                DifferenceKind.MOMENT if _OF_THE_MOMENT.fullmatch(name) else DifferenceKind.HEADER
            )
            yield kind, name, first, second


def compare_endings(one: Cassette, other: Cassette) -> Iterator[Found]:
    """How they ended, and what that means."""
    before, after = (cassette.end.ending.value for cassette in (one, other))
    if before != after:
        yield DifferenceKind.ENDING, "ending", before, after
    first, second = outcome_of(one), outcome_of(other)
    if first.complete != second.complete:
        yield DifferenceKind.ENDING, "outcome", str(first), str(second)


def compare_bodies(one: Cassette, other: Cassette) -> Iterator[Found]:
    """Where the stored bodies part, if they do."""
    if one.end.sha256 == other.end.sha256:
        return
    yield DifferenceKind.BYTES, "size", str(one.end.size), str(other.end.size)
    yield DifferenceKind.BYTES, "sha256", one.end.sha256, other.end.sha256
    place = common_prefix_length(one.body, other.body)
    yield (
        DifferenceKind.BYTES,
        f"from byte {place}",
        _message_at_offset(one, place),
        _message_at_offset(other, place),
    )
    if len(one.messages) != len(other.messages):
        before, after = (str(len(cassette.messages)) for cassette in (one, other))
        yield DifferenceKind.BYTES, "messages", before, after


def compare_times(one: Cassette, other: Cassette) -> Iterator[Found]:
    """When it came: the first byte, the longest gap, the end, and in how many reads."""
    for where, before, after in differing_values(_time_figures(one), _time_figures(other)):
        yield DifferenceKind.TIME, where, before, after


def _time_figures(cassette: Cassette) -> dict[str, str]:
    gaps = [arrival.gap_ms for arrival in message_arrivals(cassette.messages, cassette.reads)][1:]
    known = {
        "head": display.format_duration(cassette.head_at_ms),
        "first byte": display.format_duration(cassette.reads[0].at_ms) if cassette.reads else "",
        "longest gap": display.format_duration(max(gaps)) if gaps else "",
        "end": display.format_duration(cassette.end.at_ms),
        "reads": str(len(cassette.reads)),
    }
    return {name: value for name, value in known.items() if value}


def _values_by_name(headers: Headers) -> dict[str, str]:
    """The values of each name, in their order."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value)
    return {name: ", ".join(items) or _EMPTY for name, items in values.items()}


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _message_at_offset(cassette: Cassette, place: int) -> str:
    """The message that holds this byte; nothing behind the last."""
    position = 0
    for number, message in enumerate(cassette.messages, 1):
        position += len(message)
        if position > place:
            return f"message {number}: {message.decode('utf-8', 'backslashreplace').strip()}"
    return ""
