"""The misses of a run, each request told once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.display import counted
from llm_proxy.errors import printable
from llm_proxy.miss_report import Missed
from llm_proxy.misses.messages import difference, nearest_words, options

_SHOWN = 10
"""Requests that are told of."""
_FEW = 3
"""Differences of each."""
_LONGEST = 400
"""Characters of a line."""


@dataclass(frozen=True, slots=True)
class Group:
    """A request that was missed, and how often."""

    missed: Missed
    times: int


def grouped(misses: Iterable[Missed]) -> tuple[Group, ...]:
    """The misses, those of the same request and reason together, in the order of their first."""
    counts: dict[tuple[str, str, str, str], int] = {}
    first: dict[tuple[str, str, str, str], Missed] = {}
    for it in misses:
        # A request whose key nobody knows is told apart by what was said of it.
        same = (it.asked.session, it.asked.key, it.why, "" if it.asked.key else it.text)
        counts[same] = counts.get(same, 0) + 1
        first.setdefault(same, it)
    return tuple(Group(it, counts[same]) for same, it in first.items())


def lines(groups: Sequence[Group]) -> Iterator[str]:
    """A run's misses for the end of its log, a few lines each, and not too many of them."""
    for group in groups[:_SHOWN]:
        yield printable(_head(group), _LONGEST)
        nearest = group.missed.nearest
        if nearest is None or group.missed.why != "differs":
            yield f"  {printable(' '.join(group.missed.text.split()), _LONGEST)}"
            continue
        yield f"  nearest: {printable(nearest_words(nearest), _LONGEST)}"
        for it in nearest.differences[:_FEW]:
            yield f"    {printable(difference(it, diff=_LONGEST), _LONGEST)}"
        if more := len(nearest.differences[_FEW:]) + nearest.more:
            yield f"    and {more} more"
        if group.missed.rules:
            yield f"  it answers with: {options(group.missed.rules)}"
    if len(groups) > _SHOWN:
        more_requests = counted(len(groups) - _SHOWN, "request")
        yield f"and {more_requests} more: see --journal FILE and llm-proxy report FILE"


def _head(group: Group) -> str:
    it = group.missed.asked
    times = f", {group.times:,} times" if group.times > 1 else ""
    session = f", session {it.session}" if it.session not in {"", DEFAULT_SESSION} else ""
    return f"missed: {it}{session}{times}"
