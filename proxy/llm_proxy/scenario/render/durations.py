"""Durations drawn by seeded chance.

No roll depends on another, so requests that come at once, or in another order, change nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from llm_proxy.chance import seeded_uniform
from llm_proxy.scenario.documents.fields import Span


def draw_ms(span: Span, *values: object) -> float:
    """A span in ms: the number that it is, or one that is rolled between its least and most."""
    if not isinstance(span, tuple):
        return float(span)
    least, most = span
    return min(least + (most - least) * seeded_uniform(*values), most)


def gap_drawer(span: Span, *values: object) -> Callable[[int], float] | None:
    """The time in ms between piece k and the one before it, drawn anew for each k.

    `what` is what tells this answer from all others: seed, session, key, ordinal.  None where no
    time passes.
    """
    longest = max(span) if isinstance(span, tuple) else span
    return (lambda k: draw_ms(span, *values, k)) if longest > 0 else None
