"""Reports unused and too old cassettes at the end of a run."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from llm_proxy.display import count_noun
from llm_proxy.errors import LlmProxyError, printable
from llm_proxy.misses.step_summary import SummarySection
from llm_proxy.shell.library import last_played
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.running.settings import LibraryChecks, Settings
from llm_proxy.shell.server.library_usage import LibraryUsage

log: Final = logging.getLogger("llm_proxy")

SHOWN: Final = 20
"""Files that are named at the end."""
_LONGEST: Final = 250
"""Characters of a path in the log."""
_PLAYS: Final = ("replay", "auto")


def settle_usage(mode: str, settings: Settings, library: Library, usage: LibraryUsage) -> None:
    """Find out what was not used, and remember what was, for `prune --unused-since`."""
    if mode not in _PLAYS:
        return
    if settings.care.fail_on_unused:
        usage.finish(library.paths())
    if settings.state is not None and usage.played_names:
        try:
            last_played.record_played(
                settings.state, library.root, usage.played_names, datetime.now(UTC)
            )
        except LlmProxyError as error:  # a convenience, which costs no run its success
            log.info("it is not remembered which cassettes were played: %s", error)


def log_library_checks(usage: LibraryUsage, care: LibraryChecks) -> None:
    """Name what was not used and what was too old, where that was asked for."""
    if usage.unused:
        log.error(
            "not played in this run (--fail-on-unused): %s; see llm-proxy prune: %s",
            count_noun(len(usage.unused), "cassette"),
            _first_names(usage.unused),
        )
    if usage.too_old and care.max_age is not None:
        level = logging.ERROR if care.max_age.is_failure else logging.WARNING
        files = [too_old_cassette.file for too_old_cassette in usage.too_old]
        label = count_noun(len(files), "cassette")
        age = f"older than {care.max_age}"
        log.log(level, "played, and %s: %s; record again: %s", age, label, _first_names(files))


def summary_sections(usage: LibraryUsage, care: LibraryChecks) -> list[SummarySection]:
    """The same for the summary page of a CI job."""
    old = "" if care.max_age is None else f", and older than {care.max_age}"
    return [
        SummarySection(
            f"{count_noun(len(usage.unused), 'cassette')} not played",
            ("cassette",),
            [(text,) for text in usage.unused],
            "`llm-proxy prune` deletes what is used no more.",
        ),
        SummarySection(
            f"{count_noun(len(usage.too_old), 'cassette')} played{old}",
            ("cassette", "recorded", "days"),
            [
                (too_old_cassette.file, too_old_cassette.recorded, f"{too_old_cassette.days:.0f}")
                for too_old_cassette in usage.too_old
            ],
            "`llm-proxy record` replaces them.",
        ),
    ]


def fails_run(usage: LibraryUsage, care: LibraryChecks) -> bool:
    """Whether that is a failure of the run."""
    return bool(usage.unused) or (
        care.max_age is not None and care.max_age.is_failure and bool(usage.too_old)
    )


def _first_names(files: Iterable[str]) -> str:
    every = [printable(file, _LONGEST) for file in files]
    more = f", and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more
