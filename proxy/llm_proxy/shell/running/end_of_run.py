"""What a run reports at its end: on stderr, on a CI job's summary page, and by its exit code."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from llm_proxy.display import count_with_noun, format_percent
from llm_proxy.errors import LlmProxyError, printable_excerpt
from llm_proxy.misses.run_summary import (
    SummarySection,
    group_misses,
    miss_log_lines,
    render_summary,
)
from llm_proxy.shell.library import last_played
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.running.settings import LibraryChecks, Settings
from llm_proxy.shell.server.journal import Journal, LibraryUsage

log: Final = logging.getLogger("llm_proxy")

SUMMARY_FILE_VARIABLE: Final = "GITHUB_STEP_SUMMARY"
"""The variable in which GitHub Actions names the summary file."""
_MAX_SHOWN_FILES: Final = 20
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


def log_summary(mode: str, journal: Journal) -> None:
    """Log the counts of the run, and its misses."""
    counts = journal.counts
    if mode == "record":
        log.info(
            "recorded %s, %d complete",
            count_with_noun(counts.recorded, "exchange"),
            counts.complete_recordings,
        )
    if mode == "auto":
        figures = (counts.replayed, counts.recorded, counts.complete_recordings)
        log.info("replayed %d, recorded %d, %d complete", *figures)
    if incomplete_count := counts.recorded - counts.complete_recordings:
        log.info(
            "not complete: %s; see llm-proxy ls --partial",
            count_with_noun(incomplete_count, "recording"),
        )
    if counts.missed:
        log.warning("not answered from a cassette: %s", count_with_noun(counts.missed, "request"))
        for line in miss_log_lines(group_misses(journal.misses)):
            log.warning("  %s", line)
    if counts.answered_by_nearest:
        log.warning(
            "answered by the nearest cassette, not the same: %s",
            count_with_noun(counts.answered_by_nearest, "request"),
        )
    if counts.simulated:
        log.info("simulated %s", count_with_noun(counts.simulated, "answer"))
    if counts.unsuccessful:
        failed_requests = count_with_noun(counts.unsuccessful, "request")
        log.warning("not as scripted: %s; see the warnings above", failed_requests)
    if counts.upstream_failed:
        log.warning("the upstream failed %s", count_with_noun(counts.upstream_failed, "request"))
    if counts.clients_left:
        log.warning("%s left before an answer", count_with_noun(counts.clients_left, "client"))
    if counts.lost_recordings:
        log.error("lost: %s", count_with_noun(counts.lost_recordings, "recording"))


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


def write_step_summary(
    command_line: str, journal: Journal, checks: LibraryChecks, environ: Mapping[str, str]
) -> None:
    """Append this run to the CI job's summary, if there is one and anything to report.

    `command_line` is the operator's command.  Never raises.
    """
    summary_path = environ.get(SUMMARY_FILE_VARIABLE, "")
    if not summary_path:
        return
    usage = journal.library_usage
    age_suffix = "" if checks.max_age is None else f", and older than {checks.max_age}"
    nearest_counts = Counter(
        (
            f"{entry.method} {entry.path}",
            entry.session,
            entry.origin,
            format_percent(entry.likeness),
        )
        for entry in journal.entries
        if entry.likeness is not None
    )
    sections = [
        SummarySection(
            f"{count_with_noun(journal.counts.answered_by_nearest, 'request')} answered by the "
            "nearest cassette",
            ("request", "session", "cassette", "alike", "times"),
            [(*values, f"{times:,}") for values, times in nearest_counts.items()],
        ),
        SummarySection(
            f"{count_with_noun(len(usage.unused_files), 'cassette')} not played",
            ("cassette",),
            [(file,) for file in usage.unused_files],
            "`llm-proxy prune` deletes what is used no more.",
        ),
        SummarySection(
            f"{count_with_noun(len(usage.too_old_cassettes), 'cassette')} played{age_suffix}",
            ("cassette", "recorded", "days"),
            [
                (cassette.file, cassette.recorded, f"{cassette.days:.0f}")
                for cassette in usage.too_old_cassettes
            ],
            "`llm-proxy record` replaces them.",
        ),
    ]
    text = render_summary(f"llm-proxy {command_line}", group_misses(journal.misses), sections)
    if not text:
        return
    try:
        with Path(summary_path).open("a", encoding="utf-8", errors="replace") as page:
            page.write(text)
    except OSError as error:
        log.warning(
            "%s %s cannot be written: %s", SUMMARY_FILE_VARIABLE, summary_path, error.strerror
        )


def has_failed(journal: Journal, settings: Settings) -> bool:
    """Whether lost recordings, unused or too old cassettes, or in strict runs misses, fail it."""
    counts, usage = journal.counts, journal.library_usage
    max_age = settings.library_checks.max_age
    return (
        bool(counts.lost_recordings)
        or (settings.strict and bool(counts.missed or counts.unsuccessful))
        or bool(usage.unused_files)
        or (max_age is not None and max_age.fails_when_exceeded and bool(usage.too_old_cassettes))
    )


def _first_file_names(files: Iterable[str]) -> str:
    names = [printable_excerpt(file, _MAX_PATH_CHARS) for file in files]
    more = len(names) - _MAX_SHOWN_FILES
    return ", ".join(names[:_MAX_SHOWN_FILES]) + (f", and {more} more" if more > 0 else "")
