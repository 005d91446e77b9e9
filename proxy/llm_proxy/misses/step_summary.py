"""Renders a run for the summary page of a CI job, in GitHub's Markdown.

Whatever came from requests and files stands in it as text: nothing of it is a link, an image, or
HTML.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.display import count_noun
from llm_proxy.errors import printable
from llm_proxy.miss_report import MissDifference
from llm_proxy.misses.grouping import MissGroup
from llm_proxy.misses.messages import difference_line, nearest_summary, rule_options

_SHOWN: Final = 50
"""Rows of a table."""
_CELL: Final = 200
"""Characters of a cell."""
_VALUE: Final = 300
"""Characters of a value in the details."""
_LINE: Final = 1000
"""Characters of a line in the details."""
_LARGEST: Final = 200_000
"""Characters of a summary: GitHub takes a megabyte of a whole step."""
_MARKS: Final = re.compile(r"[\\`*_{}\[\]()#+.!|~:@/$-]")
"""What Markdown gives a meaning, or makes a link or a formula of."""


@dataclass(frozen=True, slots=True)
class SummarySection:
    """A table of a summary."""

    title: str
    """What it tells, with a number where there is one."""
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    advice: str = ""
    """What to do about it; a command in it stands between backticks."""


def render_summary(
    title: str, groups: Sequence[MissGroup], sections: Sequence[SummarySection] = ()
) -> str:
    """The Markdown of a run; empty where there is nothing to tell."""
    parts = [
        *_render_misses(groups),
        *(part for section in sections if section.rows for part in _render_section(section)),
    ]
    if not parts:
        return ""
    text = "\n".join([f"### {_escape_markdown(title)}", "", *parts, ""])
    return text if len(text) <= _LARGEST else text[:_LARGEST].rpartition("\n\n")[0] + "\n\n…\n"


def _render_misses(groups: Sequence[MissGroup]) -> Iterator[str]:
    if not groups:
        return
    times = sum(miss_group.times for miss_group in groups)
    rows = [_miss_row(group) for group in groups]
    yield from _render_section(
        SummarySection(
            f"{count_noun(times, 'request')} without a cassette",
            ("request", "times", "nearest cassette", "differs at"),
            rows,
        )
    )
    for group in groups[:_SHOWN]:
        yield from _difference_details(group)


def _miss_row(group: MissGroup) -> tuple[str, ...]:
    missed_request, nearest = group.missed.asked, group.missed.nearest
    session = (
        f", session {missed_request.session}"
        if missed_request.session not in {"", DEFAULT_SESSION}
        else ""
    )
    if nearest is None:
        return (f"{missed_request}{session}", f"{group.times:,}", "", "")
    paths = [difference.path for difference in nearest.differences]
    more = f", and {nearest.more} more" if nearest.more else ""
    return (
        f"{missed_request}{session}",
        f"{group.times:,}",
        nearest_summary(nearest),
        ", ".join(paths) + more,
    )


def _difference_details(group: MissGroup) -> Iterator[str]:
    missed = group.missed
    body = (
        [missed.text]
        if missed.nearest is None
        else list(_render_differences(missed.nearest.differences))
    )
    if missed.rules:
        body += ["", f"answers with: {rule_options(missed.rules)}"]
    yield f"<details><summary>{_escape_markdown(str(missed.asked), _CELL)}</summary>"
    yield ""
    # A block of HTML ends with an empty line, so there is none in it.
    shown = "&#10;".join(_escape_markdown(line, _LINE) or "&#32;" for line in body)
    yield f"<pre>{shown}</pre>"
    yield ""
    yield "</details>"
    yield ""


def _render_differences(differences: Sequence[MissDifference]) -> Iterator[str]:
    for difference in differences:
        yield difference_line(difference, _VALUE, 800)
        if difference.rule:
            caution = f" ({difference.caution})" if difference.caution else ""
            yield f"  would not count with {rule_options([difference.rule])}{caution}"


def _render_section(summary_section: SummarySection) -> Iterator[str]:
    yield f"**{_escape_markdown(summary_section.title)}**"
    yield ""
    yield _table_cells(summary_section.heads)
    yield "|" + " --- |" * len(summary_section.heads)
    yield from (_table_cells(row) for row in summary_section.rows[:_SHOWN])
    yield ""
    if len(summary_section.rows) > _SHOWN:
        yield f"and {len(summary_section.rows) - _SHOWN:,} more"
        yield ""
    if summary_section.advice:
        yield summary_section.advice
        yield ""


def _table_cells(texts: Sequence[str]) -> str:
    return "| " + " | ".join(_escape_markdown(text, _CELL) for text in texts) + " |"


def _escape_markdown(text: str, limit: int = _CELL) -> str:
    escaped = html.escape(printable(text, limit), quote=False)
    return _MARKS.sub(lambda mark: f"&#{ord(mark[0])};", escaped)
