"""The summary page of a CI job, to which a run adds what was not answered, or not quite."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from llm_proxy.display import counted, percent
from llm_proxy.misses.grouping import grouped
from llm_proxy.misses.step_summary import Section, summary
from llm_proxy.shell.server.journal import Journal

log: Final = logging.getLogger("llm_proxy")

VARIABLE: Final = "GITHUB_STEP_SUMMARY"
"""Where GitHub Actions says which file the page is made of."""


def leave(
    typed: str, journal: Journal, environ: Mapping[str, str], sections: Sequence[Section] = ()
) -> None:
    """Add this run to the page, where there is one and something to tell; never fails.

    `typed` is the command that the operator typed; `sections` are what others have to
    tell, behind the misses.
    """
    file = environ.get(VARIABLE, "")
    if not file:
        return
    text = summary(f"llm-proxy {typed}", grouped(journal.misses), [*_nearest(journal), *sections])
    if not text:
        return
    try:
        with Path(file).open("a", encoding="utf-8", errors="replace") as page:
            page.write(text)
    except OSError as error:
        log.warning("%s %s cannot be written: %s", VARIABLE, file, error.strerror)


def _nearest(journal: Journal) -> list[Section]:
    """The answers that were only alike."""
    alike = Counter(
        (f"{it.method} {it.path}", it.session, it.origin, percent(it.likeness))
        for it in journal.entries
        if it.likeness is not None
    )
    rows = [(*what, f"{times:,}") for what, times in alike.items()]
    title = f"{counted(journal.counts.nearest, 'request')} answered by the nearest cassette"
    return [Section(title, ("request", "session", "cassette", "alike", "times"), rows)]
