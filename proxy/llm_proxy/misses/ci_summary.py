"""Renders a run for the summary page of a CI job, in GitHub's Markdown.

Text from requests and files is escaped: it never becomes a link, an image, or HTML.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.display import count_with_noun
from llm_proxy.errors import printable_excerpt
from llm_proxy.miss_report import MissDifference
from llm_proxy.misses.grouping import MissGroup
from llm_proxy.misses.messages import difference_line, format_normalise_options, nearest_summary

_MAX_ROWS: Final = 50
"""Maximum number of rows of a table, and of `<details>` blocks."""
_MAX_CELL_CHARS: Final = 200
"""Maximum length of a table cell."""
_MAX_VALUE_CHARS: Final = 300
"""Maximum length of a value in the details."""
_MAX_LINE_CHARS: Final = 1000
"""Maximum length of a line in the details."""
_MAX_SUMMARY_CHARS: Final = 200_000
"""Maximum length of a summary; GitHub accepts one megabyte per step."""
_MARKDOWN_SPECIALS: Final = re.compile(r"[\\`*_{}\[\]()#+.!|~:@/$-]")
"""Characters that Markdown interprets, or that start a link or a formula."""


@dataclass(frozen=True, slots=True)
class SummarySection:
    """A titled table of a summary."""

    title: str
    """With the count, if there is one: `3 requests without a cassette`."""
    column_names: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    advice: str = ""
    """What to do about it, as Markdown, with commands in backticks; not escaped."""


def render_summary(
    title: str, groups: Sequence[MissGroup], sections: Sequence[SummarySection] = ()
) -> str:
    """The Markdown summary of a run; empty if there are no misses and no rows."""
    parts = [
        *_render_misses(groups),
        *(part for section in sections if section.rows for part in _render_section(section)),
    ]
    if not parts:
        return ""
    text = "\n".join([f"### {_escape_markdown(title)}", "", *parts, ""])
    return (
        text
        if len(text) <= _MAX_SUMMARY_CHARS
        else text[:_MAX_SUMMARY_CHARS].rpartition("\n\n")[0] + "\n\n…\n"
    )


def _render_misses(groups: Sequence[MissGroup]) -> Iterator[str]:
    if not groups:
        return
    times = sum(miss_group.times for miss_group in groups)
    rows = [_miss_row(group) for group in groups]
    yield from _render_section(
        SummarySection(
            f"{count_with_noun(times, 'request')} without a cassette",
            ("request", "times", "nearest cassette", "differs at"),
            rows,
        )
    )
    for group in groups[:_MAX_ROWS]:
        yield from _render_details(group)


def _miss_row(group: MissGroup) -> tuple[str, ...]:
    request, nearest = group.missed.asked, group.missed.nearest
    session = f", session {request.session}" if request.session not in {"", DEFAULT_SESSION} else ""
    if nearest is None:
        return (f"{request}{session}", f"{group.times:,}", "", "")
    paths = [difference.path for difference in nearest.differences]
    more = f", and {nearest.more} more" if nearest.more else ""
    return (
        f"{request}{session}",
        f"{group.times:,}",
        nearest_summary(nearest),
        ", ".join(paths) + more,
    )


def _render_details(group: MissGroup) -> Iterator[str]:
    report = group.missed
    lines = (
        [report.text]
        if report.nearest is None
        else list(_render_differences(report.nearest.differences))
    )
    if report.rules:
        lines += ["", f"answers with: {format_normalise_options(report.rules)}"]
    yield f"<details><summary>{_escape_markdown(str(report.asked), _MAX_CELL_CHARS)}</summary>"
    yield ""
    # In Markdown an empty line ends an HTML block, so the block must not contain one.
    escaped_text = "&#10;".join(
        _escape_markdown(line, _MAX_LINE_CHARS) or "&#32;" for line in lines
    )
    yield f"<pre>{escaped_text}</pre>"
    yield ""
    yield "</details>"
    yield ""


def _render_differences(differences: Sequence[MissDifference]) -> Iterator[str]:
    for difference in differences:
        yield difference_line(difference, _MAX_VALUE_CHARS, 800)
        if difference.rule:
            caution = f" ({difference.caution})" if difference.caution else ""
            yield f"  would not count with {format_normalise_options([difference.rule])}{caution}"


def _render_section(section: SummarySection) -> Iterator[str]:
    yield f"**{_escape_markdown(section.title)}**"
    yield ""
    yield _table_row(section.column_names)
    yield "|" + " --- |" * len(section.column_names)
    yield from (_table_row(row) for row in section.rows[:_MAX_ROWS])
    yield ""
    if len(section.rows) > _MAX_ROWS:
        yield f"and {len(section.rows) - _MAX_ROWS:,} more"
        yield ""
    if section.advice:
        yield section.advice
        yield ""


def _table_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escape_markdown(text, _MAX_CELL_CHARS) for text in cells) + " |"


def _escape_markdown(text: str, max_chars: int = _MAX_CELL_CHARS) -> str:
    escaped = html.escape(printable_excerpt(text, max_chars), quote=False)
    return _MARKDOWN_SPECIALS.sub(lambda match: f"&#{ord(match[0])};", escaped)
