"""Spans of time: `[least, most]` in ms."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET, UnsetType

from llm_proxy.scenario.documents.document import Chunks, Mock
from llm_proxy.scenario.documents.findings import Finding, warning

_Span = float | tuple[float, ...] | UnsetType


def of_chunks(it: Chunks) -> Iterator[Finding]:
    """The delay between pieces."""
    yield from _in_order("delay_ms", it.delay_ms)


def of_mock(it: Mock) -> Iterator[Finding]:
    """The times of a mock."""
    yield from _in_order("thinking_ms", it.thinking_ms)
    yield from _in_order("delay_ms", it.delay_ms)
    yield from _in_order("chunk_delay_ms", it.chunk_delay_ms)


def two_names(it: Mock) -> Iterator[Finding]:
    """One time under both of its names."""
    if it.thinking_ms is not UNSET and it.delay_ms is not UNSET:
        yield warning(
            ("delay_ms",), "this is the old name of thinking_ms, which is given too and wins"
        )


def _in_order(name: str, span: _Span) -> Iterator[Finding]:
    if isinstance(span, tuple) and span[0] > span[1]:
        least, most = (f"{it:g}" for it in span)
        yield Finding(
            (name,), f"the least, {least}, is more than the most, {most}: write [{most}, {least}]"
        )
