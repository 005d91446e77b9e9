"""Validates time spans: `[least, most]` in ms."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET, UnsetType

from llm_proxy.scenario.documents.document import ChunkSpec, MockSpec
from llm_proxy.scenario.documents.findings import StructFinding, warning_finding

_Span = float | tuple[float, ...] | UnsetType


def check_chunk_delay(chunk_spec: ChunkSpec) -> Iterator[StructFinding]:
    """Check the range of the delay between pieces."""
    yield from _check_order("delay_ms", chunk_spec.delay_ms)


def check_mock_times(mock_spec: MockSpec) -> Iterator[StructFinding]:
    """Check the ranges of a mock's times."""
    yield from _check_order("thinking_ms", mock_spec.thinking_ms)
    yield from _check_order("delay_ms", mock_spec.delay_ms)
    yield from _check_order("chunk_delay_ms", mock_spec.chunk_delay_ms)


def check_duplicate_thinking_time(mock_spec: MockSpec) -> Iterator[StructFinding]:
    """Find a mock with both `thinking_ms` and its old name `delay_ms`."""
    if mock_spec.thinking_ms is not UNSET and mock_spec.delay_ms is not UNSET:
        yield warning_finding(
            ("delay_ms",), "this is the old name of thinking_ms, which is given too and wins"
        )


def _check_order(name: str, span: _Span) -> Iterator[StructFinding]:
    if isinstance(span, tuple) and span[0] > span[1]:
        low, high = (f"{number:g}" for number in span)
        yield StructFinding(
            (name,), f"the least, {low}, is more than the most, {high}: write [{high}, {low}]"
        )
