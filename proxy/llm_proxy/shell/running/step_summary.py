"""Writes misses and nearest responses to a CI job's summary page."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from llm_proxy.display import count_with_noun, format_percent
from llm_proxy.misses.run_summary import SummarySection, group_misses, render_summary
from llm_proxy.shell.server.journal import Journal

log: Final = logging.getLogger("llm_proxy")

SUMMARY_FILE_VARIABLE: Final = "GITHUB_STEP_SUMMARY"
"""The variable in which GitHub Actions names the summary file."""


def write_step_summary(
    command_line: str,
    journal: Journal,
    environ: Mapping[str, str],
    sections: Sequence[SummarySection] = (),
) -> None:
    """Append this run to the job summary, if there is one and anything to report; never raises.

    `command_line` is the operator's command; `sections` are appended after the misses.
    """
    summary_path = environ.get(SUMMARY_FILE_VARIABLE, "")
    if not summary_path:
        return
    text = render_summary(
        f"llm-proxy {command_line}",
        group_misses(journal.misses),
        [*_nearest_responses(journal), *sections],
    )
    if not text:
        return
    try:
        with Path(summary_path).open("a", encoding="utf-8", errors="replace") as page:
            page.write(text)
    except OSError as error:
        log.warning(
            "%s %s cannot be written: %s", SUMMARY_FILE_VARIABLE, summary_path, error.strerror
        )


def _nearest_responses(journal: Journal) -> list[SummarySection]:
    """The section of responses from the nearest cassettes."""
    response_counts = Counter(
        (
            f"{entry.method} {entry.path}",
            entry.session,
            entry.origin,
            format_percent(entry.likeness),
        )
        for entry in journal.entries
        if entry.likeness is not None
    )
    rows = [(*values, f"{times:,}") for values, times in response_counts.items()]
    title = (
        f"{count_with_noun(journal.counts.answered_by_nearest, 'request')} answered by the "
        "nearest cassette"
    )
    return [SummarySection(title, ("request", "session", "cassette", "alike", "times"), rows)]
