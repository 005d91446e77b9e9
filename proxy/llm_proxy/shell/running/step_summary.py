"""Writes misses and nearest responses to a CI job's summary page."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from llm_proxy.display import count_noun, format_percent
from llm_proxy.misses.grouping import group_misses
from llm_proxy.misses.step_summary import SummarySection, render_summary
from llm_proxy.shell.server.journal import Journal

log: Final = logging.getLogger("llm_proxy")

VARIABLE: Final = "GITHUB_STEP_SUMMARY"
"""Where GitHub Actions says which file the page is made of."""


def write_step_summary(
    typed: str,
    journal: Journal,
    environ: Mapping[str, str],
    sections: Sequence[SummarySection] = (),
) -> None:
    """Add this run to the page, where there is one and something to tell; never fails.

    `typed` is the command that the operator typed; `sections` are what others have to
    tell, behind the misses.
    """
    file = environ.get(VARIABLE, "")
    if not file:
        return
    text = render_summary(
        f"llm-proxy {typed}",
        group_misses(journal.misses),
        [*_nearest_responses(journal), *sections],
    )
    if not text:
        return
    try:
        with Path(file).open("a", encoding="utf-8", errors="replace") as page:
            page.write(text)
    except OSError as error:
        log.warning("%s %s cannot be written: %s", VARIABLE, file, error.strerror)


def _nearest_responses(journal: Journal) -> list[SummarySection]:
    """The answers that were only alike."""
    alike = Counter(
        (
            f"{entry.method} {entry.path}",
            entry.session,
            entry.origin,
            format_percent(entry.likeness),
        )
        for entry in journal.entries
        if entry.likeness is not None
    )
    rows = [(*values, f"{times:,}") for values, times in alike.items()]
    title = f"{count_noun(journal.counts.nearest, 'request')} answered by the nearest cassette"
    return [SummarySection(title, ("request", "session", "cassette", "alike", "times"), rows)]
