"""Random durations from seeds.

No draw depends on another, so concurrent or reordered requests get the same durations.
"""

from __future__ import annotations

from collections.abc import Callable

from llm_proxy.chance import seeded_uniform
from llm_proxy.scenario.documents.fields import MillisecondsOrRange


def draw_ms(span: MillisecondsOrRange, *seed_parts: object) -> float:
    """A duration in ms: a fixed span itself, or a uniform draw from a range."""
    if not isinstance(span, tuple):
        return float(span)
    low, high = span
    return min(low + (high - low) * seeded_uniform(*seed_parts), high)


def gap_ms_drawer(span: MillisecondsOrRange, *seed_parts: object) -> Callable[[int], float] | None:
    """A function from k to the gap in ms before piece k, drawn separately for each k.

    `seed_parts` identify the response: seed, session, key, ordinal.  None if all gaps are zero.
    """
    max_ms = max(span) if isinstance(span, tuple) else span
    return (lambda k: draw_ms(span, *seed_parts, k)) if max_ms > 0 else None
