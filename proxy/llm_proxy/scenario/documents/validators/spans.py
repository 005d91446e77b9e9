"""Validates time spans: `[least, most]` in ms."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET, UnsetType

from llm_proxy.scenario.documents.document import ChunkSpec, MockSpec
from llm_proxy.scenario.documents.findings import StructFinding, warning

_Span = float | tuple[float, ...] | UnsetType


def check_chunk_delay(chunk_spec: ChunkSpec) -> Iterator[StructFinding]:
    """The delay between pieces."""
    yield from _in_order("delay_ms", chunk_spec.delay_ms)


def check_mock_times(mock_spec: MockSpec) -> Iterator[StructFinding]:
    """The times of a mock."""
    yield from _in_order("thinking_ms", mock_spec.thinking_ms)
    yield from _in_order("delay_ms", mock_spec.delay_ms)
    yield from _in_order("chunk_delay_ms", mock_spec.chunk_delay_ms)


def check_duplicate_time(mock_spec: MockSpec) -> Iterator[StructFinding]:
    """One time under both of its names."""
    if mock_spec.thinking_ms is not UNSET and mock_spec.delay_ms is not UNSET:
        yield warning(
            ("delay_ms",), "this is the old name of thinking_ms, which is given too and wins"
        )


def _in_order(name: str, span: _Span) -> Iterator[StructFinding]:
    if isinstance(span, tuple) and span[0] > span[1]:
        least, most = (f"{number:g}" for number in span)
        yield StructFinding(
            (name,), f"the least, {least}, is more than the most, {most}: write [{most}, {least}]"
        )
