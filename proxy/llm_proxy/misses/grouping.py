"""Groups the misses of a run by request and reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.display import count_with_noun
from llm_proxy.errors import printable_excerpt
from llm_proxy.miss_report import MissReport
from llm_proxy.misses.messages import difference_line, format_normalise_options, nearest_summary

_MAX_SHOWN_GROUPS = 10
"""Maximum number of requests that the log lists."""
_MAX_SHOWN_DIFFERENCES = 3
"""Maximum number of differences that the log lists for each request."""
_MAX_LINE_CHARS = 400
"""Maximum length of a log line; the differences and the report are cut to it."""


@dataclass(frozen=True, slots=True)
class MissGroup:
    """Misses of the same request for the same reason."""

    missed: MissReport
    times: int


def group_misses(misses: Iterable[MissReport]) -> tuple[MissGroup, ...]:
    """Groups misses by request and reason, in the order of their first occurrence."""
    counts: dict[tuple[str, str, str, str], int] = {}
    first_reports: dict[tuple[str, str, str, str], MissReport] = {}
    for miss in misses:
        # Without a key, the text of the report identifies the request.
        group_key = (
            miss.asked.session,
            miss.asked.key,
            miss.why,
            "" if miss.asked.key else miss.text,
        )
        counts[group_key] = counts.get(group_key, 0) + 1
        first_reports.setdefault(group_key, miss)
    return tuple(
        MissGroup(report, counts[group_key]) for group_key, report in first_reports.items()
    )


def miss_log_lines(groups: Sequence[MissGroup]) -> Iterator[str]:
    """The misses of a run for the end of its log: a few lines each, at most 10 requests."""
    for group in groups[:_MAX_SHOWN_GROUPS]:
        yield printable_excerpt(_group_headline(group), _MAX_LINE_CHARS)
        nearest = group.missed.nearest
        if nearest is None or group.missed.why != "differs":
            yield f"  {printable_excerpt(' '.join(group.missed.text.split()), _MAX_LINE_CHARS)}"
            continue
        yield f"  nearest: {printable_excerpt(nearest_summary(nearest), _MAX_LINE_CHARS)}"
        for difference in nearest.differences[:_MAX_SHOWN_DIFFERENCES]:
            line = difference_line(difference, max_diff_chars=_MAX_LINE_CHARS)
            yield f"    {printable_excerpt(line, _MAX_LINE_CHARS)}"
        if more := len(nearest.differences[_MAX_SHOWN_DIFFERENCES:]) + nearest.more:
            yield f"    and {more} more"
        if group.missed.rules:
            yield f"  it answers with: {format_normalise_options(group.missed.rules)}"
    if len(groups) > _MAX_SHOWN_GROUPS:
        more_requests = count_with_noun(len(groups) - _MAX_SHOWN_GROUPS, "request")
        yield f"and {more_requests} more: see --journal FILE and llm-proxy report FILE"


def _group_headline(group: MissGroup) -> str:
    request = group.missed.asked
    times = f", {group.times:,} times" if group.times > 1 else ""
    session = f", session {request.session}" if request.session not in {"", DEFAULT_SESSION} else ""
    return f"missed: {request}{session}{times}"
