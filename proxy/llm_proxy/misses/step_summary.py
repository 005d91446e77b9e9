"""A run for the summary page of a CI job, in GitHub's Markdown.

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
from llm_proxy.display import counted
from llm_proxy.errors import printable
from llm_proxy.miss_report import Differing
from llm_proxy.misses.grouping import Group
from llm_proxy.misses.messages import difference, nearest_words, options

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
class Section:
    """A table of a summary."""

    title: str
    """What it tells, with a number where there is one."""
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    advice: str = ""
    """What to do about it; a command in it stands between backticks."""


def summary(title: str, groups: Sequence[Group], sections: Sequence[Section] = ()) -> str:
    """The Markdown of a run; empty where there is nothing to tell."""
    parts = [*_misses(groups), *(part for it in sections if it.rows for part in _section(it))]
    if not parts:
        return ""
    text = "\n".join([f"### {_text(title)}", "", *parts, ""])
    return text if len(text) <= _LARGEST else text[:_LARGEST].rpartition("\n\n")[0] + "\n\n…\n"


def _misses(groups: Sequence[Group]) -> Iterator[str]:
    if not groups:
        return
    times = sum(it.times for it in groups)
    rows = [_row(group) for group in groups]
    yield from _section(
        Section(
            f"{counted(times, 'request')} without a cassette",
            ("request", "times", "nearest cassette", "differs at"),
            rows,
        )
    )
    for group in groups[:_SHOWN]:
        yield from _details(group)


def _row(group: Group) -> tuple[str, ...]:
    it, nearest = group.missed.asked, group.missed.nearest
    session = f", session {it.session}" if it.session not in {"", DEFAULT_SESSION} else ""
    if nearest is None:
        return (f"{it}{session}", f"{group.times:,}", "", "")
    paths = [each.path for each in nearest.differences]
    more = f", and {nearest.more} more" if nearest.more else ""
    return (f"{it}{session}", f"{group.times:,}", nearest_words(nearest), ", ".join(paths) + more)


def _details(group: Group) -> Iterator[str]:
    """What differs, folded away."""
    missed = group.missed
    body = [missed.text] if missed.nearest is None else list(_told(missed.nearest.differences))
    if missed.rules:
        body += ["", f"answers with: {options(missed.rules)}"]
    yield f"<details><summary>{_text(str(missed.asked), _CELL)}</summary>"
    yield ""
    # A block of HTML ends with an empty line, so there is none in it.
    shown = "&#10;".join(_text(line, _LINE) or "&#32;" for line in body)
    yield f"<pre>{shown}</pre>"
    yield ""
    yield "</details>"
    yield ""


def _told(differences: Sequence[Differing]) -> Iterator[str]:
    for it in differences:
        yield difference(it, _VALUE, 800)
        if it.rule:
            caution = f" ({it.caution})" if it.caution else ""
            yield f"  would not count with {options([it.rule])}{caution}"


def _section(it: Section) -> Iterator[str]:
    yield f"**{_text(it.title)}**"
    yield ""
    yield _cells(it.heads)
    yield "|" + " --- |" * len(it.heads)
    yield from (_cells(row) for row in it.rows[:_SHOWN])
    yield ""
    if len(it.rows) > _SHOWN:
        yield f"and {len(it.rows) - _SHOWN:,} more"
        yield ""
    if it.advice:
        yield it.advice
        yield ""


def _cells(texts: Sequence[str]) -> str:
    return "| " + " | ".join(_text(text, _CELL) for text in texts) + " |"


def _text(text: str, limit: int = _CELL) -> str:
    """What stands in a line of Markdown as it is, whatever it holds."""
    escaped = html.escape(printable(text, limit), quote=False)
    return _MARKS.sub(lambda mark: f"&#{ord(mark[0])};", escaped)
