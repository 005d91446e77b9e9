"""Groups the misses of a run by request and reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.display import count_noun
from llm_proxy.errors import printable
from llm_proxy.miss_report import MissReport
from llm_proxy.misses.messages import difference_line, nearest_summary, rule_options

_SHOWN = 10
"""Requests that are told of."""
_FEW = 3
"""Differences of each."""
_LONGEST = 400
"""Characters of a line."""


@dataclass(frozen=True, slots=True)
class MissGroup:
    """A request that was missed, and how often."""

    missed: MissReport
    times: int


def group_misses(misses: Iterable[MissReport]) -> tuple[MissGroup, ...]:
    """The misses, those of the same request and reason together, in the order of their first."""
    counts: dict[tuple[str, str, str, str], int] = {}
    first: dict[tuple[str, str, str, str], MissReport] = {}
    for miss in misses:
        # A request whose key nobody knows is told apart by what was said of it.
        same = (miss.asked.session, miss.asked.key, miss.why, "" if miss.asked.key else miss.text)
        counts[same] = counts.get(same, 0) + 1
        first.setdefault(same, miss)
    return tuple(MissGroup(it, counts[same]) for same, it in first.items())


def miss_log_lines(groups: Sequence[MissGroup]) -> Iterator[str]:
    """A run's misses for the end of its log, a few lines each, and not too many of them."""
    for group in groups[:_SHOWN]:
        yield printable(_group_headline(group), _LONGEST)
        nearest = group.missed.nearest
        if nearest is None or group.missed.why != "differs":
            yield f"  {printable(' '.join(group.missed.text.split()), _LONGEST)}"
            continue
        yield f"  nearest: {printable(nearest_summary(nearest), _LONGEST)}"
        for difference in nearest.differences[:_FEW]:
            yield f"    {printable(difference_line(difference, diff=_LONGEST), _LONGEST)}"
        if more := len(nearest.differences[_FEW:]) + nearest.more:
            yield f"    and {more} more"
        if group.missed.rules:
            yield f"  it answers with: {rule_options(group.missed.rules)}"
    if len(groups) > _SHOWN:
        more_requests = count_noun(len(groups) - _SHOWN, "request")
        yield f"and {more_requests} more: see --journal FILE and llm-proxy report FILE"


def _group_headline(group: MissGroup) -> str:
    missed_request = group.missed.asked
    times = f", {group.times:,} times" if group.times > 1 else ""
    session = (
        f", session {missed_request.session}"
        if missed_request.session not in {"", DEFAULT_SESSION}
        else ""
    )
    return f"missed: {missed_request}{session}{times}"
