"""Summarises the misses of a run: for its log, and for the summary page of a CI job.

The page is GitHub's Markdown.  Text from requests and files is escaped: it never becomes a link, an
image, or HTML.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.display import count_with_noun
from llm_proxy.errors import printable_excerpt
from llm_proxy.miss_report import MissReport
from llm_proxy.misses.report import (
    difference_line,
    format_normalise_options,
    nearest_summary,
    remedy_line,
)

_MAX_SHOWN_GROUPS: Final = 10
"""Maximum number of requests that the log lists."""
_MAX_SHOWN_DIFFERENCES: Final = 3
"""Maximum number of differences that the log lists for each request."""
_MAX_LOG_LINE_CHARS: Final = 400
"""Maximum length of a log line; the differences and the report are cut to it."""
_MAX_ROWS: Final = 50
"""Maximum number of rows of a table, and of `<details>` blocks."""
_MAX_CELL_CHARS: Final = 200
"""Maximum length of a table cell."""
_MAX_VALUE_CHARS: Final = 300
"""Maximum length of a value in the details."""
_MAX_DIFF_CHARS: Final = 800
"""Maximum length of a word diff in the details."""
_MAX_LINE_CHARS: Final = 1000
"""Maximum length of a line in the details."""
_MAX_SUMMARY_CHARS: Final = 200_000
"""Maximum length of a summary; GitHub accepts one megabyte per step."""
_MARKDOWN_SPECIALS: Final = re.compile(r"[\\`*_{}\[\]()#+.!|~:@/$-]")
"""Characters that Markdown interprets, or that start a link or a formula."""


@dataclass(frozen=True, slots=True)
class MissGroup:
    """Misses of the same request for the same reason."""

    missed: MissReport
    times: int


@dataclass(frozen=True, slots=True)
class SummarySection:
    """A titled table of a summary."""

    title: str
    """With the count, if there is one: `3 requests without a cassette`."""
    column_names: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    advice: str = ""
    """What to do about it, as Markdown, with commands in backticks; not escaped."""


def miss_label(miss: MissReport) -> str:
    """The missed request with its key, and its session unless that is the default one."""
    request = miss.request
    key = f", key {request.key}" if request.key else ""
    return f"{request}{key}{_session_suffix(request.session)}"


def mismatch_label(session: str, reason: str) -> str:
    """Why a request is not what its scenario expects, and its session, as in `miss_label`."""
    return f"{reason.removesuffix('.')}{_session_suffix(session)}"


def _session_suffix(session: str) -> str:
    return "" if session in {"", DEFAULT_SESSION} else f", session {session}"


def group_misses(misses: Iterable[MissReport]) -> tuple[MissGroup, ...]:
    """Groups misses by request and reason, in the order of their first occurrence."""
    groups: dict[tuple[str, str, str, str], list[MissReport]] = {}
    for miss in misses:
        groups.setdefault(miss.identity, []).append(miss)
    return tuple(MissGroup(reports[0], len(reports)) for reports in groups.values())


def miss_lines(groups: Sequence[MissGroup]) -> Iterator[str]:
    """The misses of a run for a report: a few lines each, at most 10 requests."""
    for group in groups[:_MAX_SHOWN_GROUPS]:
        times = f", {group.times:,} times" if group.times > 1 else ""
        yield printable_excerpt(f"{miss_label(group.missed)}{times}", _MAX_LOG_LINE_CHARS)
        nearest = group.missed.nearest
        if nearest is None or group.missed.reason != "differs":
            yield f"  {printable_excerpt(' '.join(group.missed.text.split()), _MAX_LOG_LINE_CHARS)}"
            continue
        yield f"  nearest: {printable_excerpt(nearest_summary(nearest), _MAX_LOG_LINE_CHARS)}"
        for difference in nearest.differences[:_MAX_SHOWN_DIFFERENCES]:
            line = difference_line(difference, max_diff_chars=_MAX_LOG_LINE_CHARS)
            yield f"    {printable_excerpt(line, _MAX_LOG_LINE_CHARS)}"
        if more := len(nearest.differences[_MAX_SHOWN_DIFFERENCES:]) + nearest.more:
            yield f"    and {more} more"
        if group.missed.rules:
            yield f"  matches with: {format_normalise_options(group.missed.rules)}"
    if len(groups) > _MAX_SHOWN_GROUPS:
        more_requests = count_with_noun(len(groups) - _MAX_SHOWN_GROUPS, "request")
        yield f"and {more_requests} more"


def repeat_lines(times_by_label: Mapping[str, int]) -> Iterator[str]:
    """The problems that occurred more than once, for the end of a log: a line each, at most 10."""
    repeated = [item for item in times_by_label.items() if item[1] > 1]
    repeated.sort(key=lambda item: -item[1])
    for label, times in repeated[:_MAX_SHOWN_GROUPS]:
        yield printable_excerpt(f"{label}: {times:,} times", _MAX_LOG_LINE_CHARS)
    if len(repeated) > _MAX_SHOWN_GROUPS:
        yield f"and {count_with_noun(len(repeated) - _MAX_SHOWN_GROUPS, 'request')} more"


def render_summary(
    title: str, groups: Sequence[MissGroup], sections: Sequence[SummarySection] = ()
) -> str:
    """The Markdown summary of a run; empty if there are no misses and no rows."""
    times = sum(group.times for group in groups)
    miss_section = SummarySection(
        f"{count_with_noun(times, 'request')} without a cassette",
        ("request", "times", "nearest cassette", "differs at"),
        [_miss_row(group) for group in groups],
    )
    lines = [
        *_render_section(miss_section),
        *(line for group in groups[:_MAX_ROWS] for line in _render_details(group.missed)),
        *(line for section in sections for line in _render_section(section)),
    ]
    if not lines:
        return ""
    text = "\n".join([f"### {_escape_markdown(title)}", "", *lines, ""])
    if len(text) <= _MAX_SUMMARY_CHARS:
        return text
    return text[:_MAX_SUMMARY_CHARS].rpartition("\n\n")[0] + "\n\n…\n"


def _miss_row(group: MissGroup) -> tuple[str, ...]:
    nearest = group.missed.nearest
    if nearest is None:
        return (miss_label(group.missed), f"{group.times:,}", "", "")
    paths = ", ".join(difference.path for difference in nearest.differences)
    more = f", and {nearest.more} more" if nearest.more else ""
    return (miss_label(group.missed), f"{group.times:,}", nearest_summary(nearest), paths + more)


def _render_details(report: MissReport) -> Iterator[str]:
    lines = [report.text]
    if report.nearest is not None:
        lines = []
        for difference in report.nearest.differences:
            lines.append(difference_line(difference, _MAX_VALUE_CHARS, _MAX_DIFF_CHARS))
            if remedy := remedy_line(difference):
                lines.append(f"  {remedy}")
    if report.rules:
        lines += ["", f"matches with: {format_normalise_options(report.rules)}"]
    # In Markdown an empty line ends an HTML block, so the block must not contain one.
    escaped_text = "&#10;".join(
        _escape_markdown(line, _MAX_LINE_CHARS) or "&#32;" for line in lines
    )
    yield f"<details><summary>{_escape_markdown(str(report.request))}</summary>"
    yield from ("", f"<pre>{escaped_text}</pre>", "", "</details>", "")


def _render_section(section: SummarySection) -> Iterator[str]:
    """The lines of a table; none if it has no rows."""
    if not section.rows:
        return
    yield from (f"**{_escape_markdown(section.title)}**", "")
    yield _table_row(section.column_names)
    yield "|" + " --- |" * len(section.column_names)
    yield from map(_table_row, section.rows[:_MAX_ROWS])
    yield ""
    if len(section.rows) > _MAX_ROWS:
        yield from (f"and {len(section.rows) - _MAX_ROWS:,} more", "")
    if section.advice:
        yield from (section.advice, "")


def _table_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_escape_markdown, cells)) + " |"


def _escape_markdown(text: str, max_chars: int = _MAX_CELL_CHARS) -> str:
    escaped = html.escape(printable_excerpt(text, max_chars), quote=False)
    return _MARKDOWN_SPECIALS.sub(lambda match: f"&#{ord(match[0])};", escaped)
