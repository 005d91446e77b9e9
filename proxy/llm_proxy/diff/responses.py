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
from llm_proxy.outcome import cassette_outcome
from llm_proxy.timeline import message_arrivals

_VOLATILE_HEADER_PATTERN: Final = re.compile(
    r".*ratelimit-.*|.*-ms|.*-latency|retry-after|etag|x-amzn-bedrock-.*-count|num_tokens"
    r"|x-(trial-)?endpoint-.*"
)
"""Headers whose values change with time, such as remaining limits."""

_EMPTY_VALUE: Final = '""'
"""The text for a header without a value; an empty text means no header."""

KindPathValues = tuple[DifferenceKind, str, str, str]


def compare_heads(one: Cassette, other: Cassette) -> Iterator[KindPathValues]:
    """Compares status and headers; the media type counts as part of the shape."""
    before, after = (
        f"{cassette.response_head.status} {cassette.response_head.reason}".rstrip()
        for cassette in (one, other)
    )
    if before != after:
        status_differs = one.response_head.status != other.response_head.status
        yield (
            DifferenceKind.STATUS if status_differs else DifferenceKind.HEADER,
            "status",
            before,
            after,
        )
    if one.response_head.framing != other.response_head.framing:
        yield (
            DifferenceKind.HEADER,
            "framing",
            one.response_head.framing,
            other.response_head.framing,
        )
    for name, first, second in differing_values(
        _header_values_by_name(one.response_head.headers),
        _header_values_by_name(other.response_head.headers),
    ):
        if name == "content-type":
            if _media_type(first) != _media_type(second):
                yield DifferenceKind.SHAPE, name, first, second
            yield DifferenceKind.HEADER, name, first, second
        else:
            kind = (
                DifferenceKind.VOLATILE_HEADER
                if _VOLATILE_HEADER_PATTERN.fullmatch(name)
                else DifferenceKind.HEADER
            )
            yield kind, name, first, second


def compare_endings(one: Cassette, other: Cassette) -> Iterator[KindPathValues]:
    """Compares the endings, and whether the exchanges are complete."""
    before, after = (cassette.response_end.ending.value for cassette in (one, other))
    if before != after:
        yield DifferenceKind.ENDING, "ending", before, after
    first, second = cassette_outcome(one), cassette_outcome(other)
    if first.is_complete != second.is_complete:
        yield DifferenceKind.ENDING, "outcome", str(first), str(second)


def compare_bodies(one: Cassette, other: Cassette) -> Iterator[KindPathValues]:
    """Compares the stored bodies: sizes, hashes, and the first message that differs."""
    if one.response_end.sha256 == other.response_end.sha256:
        return
    yield (
        DifferenceKind.BYTES,
        "size",
        str(one.response_end.size_bytes),
        str(other.response_end.size_bytes),
    )
    yield DifferenceKind.BYTES, "sha256", one.response_end.sha256, other.response_end.sha256
    offset = common_prefix_length(one.response_body, other.response_body)
    yield (
        DifferenceKind.BYTES,
        f"from byte {offset}",
        _describe_stream_message_at(one, offset),
        _describe_stream_message_at(other, offset),
    )
    if len(one.framed_messages) != len(other.framed_messages):
        before, after = (str(len(cassette.framed_messages)) for cassette in (one, other))
        yield DifferenceKind.BYTES, "messages", before, after


def compare_times(one: Cassette, other: Cassette) -> Iterator[KindPathValues]:
    """Compares the times of head, first byte, longest gap and end, and the number of reads."""
    for figure_name, before, after in differing_values(_time_figures(one), _time_figures(other)):
        yield DifferenceKind.TIME, figure_name, before, after


def _time_figures(cassette: Cassette) -> dict[str, str]:
    gaps = [
        arrival.gap_ms for arrival in message_arrivals(cassette.framed_messages, cassette.reads)
    ][1:]
    figures = {
        "head": display.format_duration(cassette.response_head_at_ms),
        "first byte": display.format_duration(cassette.reads[0].at_ms) if cassette.reads else "",
        "longest gap": display.format_duration(max(gaps)) if gaps else "",
        "end": display.format_duration(cassette.response_end.at_ms),
        "reads": str(len(cassette.reads)),
    }
    return {name: value for name, value in figures.items() if value}


def _header_values_by_name(headers: Headers) -> dict[str, str]:
    """The values of each header name, in order, joined by commas."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value)
    return {name: ", ".join(items) or _EMPTY_VALUE for name, items in values.items()}


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _describe_stream_message_at(cassette: Cassette, offset: int) -> str:
    """The message that contains this byte; empty after the last message."""
    message_end = 0
    for number, message in enumerate(cassette.framed_messages, 1):
        message_end += len(message)
        if message_end > offset:
            return f"message {number}: {message.decode('utf-8', 'backslashreplace').strip()}"
    return ""
