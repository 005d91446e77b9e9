"""Reports unused and too old cassettes at the end of a run."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from llm_proxy.display import count_with_noun
from llm_proxy.errors import LlmProxyError, printable_excerpt
from llm_proxy.misses.run_summary import SummarySection
from llm_proxy.shell.library import last_played
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.running.settings import LibraryChecks, Settings
from llm_proxy.shell.server.library_usage import LibraryUsage

log: Final = logging.getLogger("llm_proxy")

MAX_SHOWN_FILES: Final = 20
"""Maximum number of files in a message."""
_MAX_PATH_CHARS: Final = 250
"""Maximum length of a path in the log."""
_REPLAYING_MODES: Final = ("replay", "auto")


def finish_library_usage(
    mode: str, settings: Settings, library: Library, usage: LibraryUsage
) -> None:
    """Determine the unused cassettes, and store the played ones for `prune --unused-since`."""
    if mode not in _REPLAYING_MODES:
        return
    if settings.library_checks.fail_on_unused:
        usage.determine_unused_files(library.unsorted_paths())
    if settings.state is not None and usage.played_file_names:
        try:
            last_played.mark_played(
                settings.state, library.root, usage.played_file_names, datetime.now(UTC)
            )
        except LlmProxyError as error:  # must not fail the run
            log.info("it is not remembered which cassettes were played: %s", error)


def log_library_checks(usage: LibraryUsage, checks: LibraryChecks) -> None:
    """Log the unused and the too old cassettes, as far as the checks are enabled."""
    if usage.unused_files:
        log.error(
            "not played in this run (--fail-on-unused): %s; see llm-proxy prune: %s",
            count_with_noun(len(usage.unused_files), "cassette"),
            _first_file_names(usage.unused_files),
        )
    if usage.too_old_cassettes and checks.max_age is not None:
        level = logging.ERROR if checks.max_age.fails_when_exceeded else logging.WARNING
        files = [too_old_cassette.file for too_old_cassette in usage.too_old_cassettes]
        cassette_count = count_with_noun(len(files), "cassette")
        age = f"older than {checks.max_age}"
        log.log(
            level,
            "played, and %s: %s; record again: %s",
            age,
            cassette_count,
            _first_file_names(files),
        )


def summary_sections(usage: LibraryUsage, checks: LibraryChecks) -> list[SummarySection]:
    """The unused and the too old cassettes as sections of a CI job's summary."""
    age_suffix = "" if checks.max_age is None else f", and older than {checks.max_age}"
    return [
        SummarySection(
            f"{count_with_noun(len(usage.unused_files), 'cassette')} not played",
            ("cassette",),
            [(text,) for text in usage.unused_files],
            "`llm-proxy prune` deletes what is used no more.",
        ),
        SummarySection(
            f"{count_with_noun(len(usage.too_old_cassettes), 'cassette')} played{age_suffix}",
            ("cassette", "recorded", "days"),
            [
                (too_old_cassette.file, too_old_cassette.recorded, f"{too_old_cassette.days:.0f}")
                for too_old_cassette in usage.too_old_cassettes
            ],
            "`llm-proxy record` replaces them.",
        ),
    ]


def fails_run(usage: LibraryUsage, checks: LibraryChecks) -> bool:
    """Whether unused or too old cassettes fail the run."""
    return bool(usage.unused_files) or (
        checks.max_age is not None
        and checks.max_age.fails_when_exceeded
        and bool(usage.too_old_cassettes)
    )


def _first_file_names(files: Iterable[str]) -> str:
    names = [printable_excerpt(file, _MAX_PATH_CHARS) for file in files]
    remainder = f", and {len(names) - MAX_SHOWN_FILES} more" if len(names) > MAX_SHOWN_FILES else ""
    return ", ".join(names[:MAX_SHOWN_FILES]) + remainder
