"""What a run reports at its end: its log, a CI job's summary page, its journal, its exit code."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from llm_proxy.ages import MaxAge
from llm_proxy.display import count_with_noun, format_percent
from llm_proxy.errors import LlmProxyError, printable_excerpt
from llm_proxy.misses.run_summary import (
    SummarySection,
    group_misses,
    render_summary,
    repeat_lines,
)
from llm_proxy.shell.library import last_played
from llm_proxy.shell.private_files import private_opener, replace_file
from llm_proxy.shell.running.environment import no_request_message
from llm_proxy.shell.running.proxy import RunningProxy
from llm_proxy.shell.running.settings import Settings, resolve_link
from llm_proxy.shell.server.journal import Journal
from llm_proxy.shell.server.server import MISS_LABEL

log: Final = logging.getLogger("llm_proxy")

SUMMARY_FILE_VARIABLE: Final = "GITHUB_STEP_SUMMARY"
"""The variable in which GitHub Actions names the summary file."""
_MAX_SHOWN_FILES: Final = 20
"""Maximum number of files in a message."""
_MAX_PATH_CHARS: Final = 250
"""Maximum length of a path in the log."""
_MISSING_RECORDING: Final = (
    "a response was sent to a client but not recorded; please report this bug"
)


async def report_run(
    mode: str, settings: Settings, proxy: RunningProxy, command_line: str, *, has_command: bool
) -> bool:
    """Log and write what the run reports; returns whether it has failed.

    `command_line` is the operator's command; `has_command` is whether the proxy ran a command.
    Lost recordings, unused or too old cassettes, a journal that cannot be written, and in strict
    runs failed requests or none at all fail a run.
    """
    journal = proxy.journal
    usage, counts = journal.library_usage, journal.counts
    upstream, recorder = proxy.active_mode.upstream, proxy.active_mode.recorder
    if upstream is not None and recorder is not None and not recorder.is_disk_hanging:
        # Also responses that may belong to another request.
        missing_count = upstream.recorded_response_count - recorder.settled_count
        for reason in (*upstream.surplus_warnings, *([_MISSING_RECORDING] * missing_count)):
            journal.add_recording_failure(reason)
            log.error("not recorded: %s", reason)
    if mode in {"replay", "auto"}:
        await asyncio.to_thread(finish_library_usage, settings, proxy)
    if counts.requests:
        log.info("%s", run_summary(mode, settings, journal))
        _log_problem_counts(journal)
    else:
        log.log(
            logging.ERROR if settings.strict else logging.WARNING,
            "%s",
            no_request_message(mode, settings, os.environ, has_command=has_command),
        )
    if usage.unused_files:
        log.error(
            "%s not played in this run (--fail-on-unused): %s; to delete unused cassettes, run "
            "llm-proxy prune --journal %s",
            count_with_noun(len(usage.unused_files), "cassette"),
            _first_file_names(usage.unused_files),
            settings.journal or "FILE",
        )
    max_age, too_old_cassettes = settings.max_age, usage.too_old_cassettes
    too_old_fails = max_age is not None and max_age.fails_when_exceeded and bool(too_old_cassettes)
    if too_old_cassettes and max_age is not None:
        log.log(
            logging.ERROR if too_old_fails else logging.WARNING,
            "%s older than %s; record them again: %s",
            count_with_noun(len(too_old_cassettes), "played cassette"),
            max_age,
            _first_file_names(cassette.file for cassette in too_old_cassettes),
        )
    if summary_path := os.environ.get(SUMMARY_FILE_VARIABLE):
        _write_step_summary(summary_path, command_line, journal, max_age)
    failed_requests = (
        counts.missed + counts.unsuccessful + counts.upstream_failed + counts.incomplete_recordings
    )
    if settings.strict and failed_requests:
        log.error("%s failed (--strict)", count_with_noun(failed_requests, "request"))
    has_failed = (
        bool(counts.lost_recordings)
        or (settings.strict and (bool(failed_requests) or not counts.requests))
        or bool(usage.unused_files)
        or too_old_fails
    )
    if settings.journal is not None:
        try:
            write_journal(settings.journal, journal.to_json_document())
        except LlmProxyError as error:
            log.error("%s", error)  # noqa: TRY400 # a sentence of ours, for the operator
            return True
        log.info("wrote the journal; to print a summary, run llm-proxy report %s", settings.journal)
    return has_failed


def finish_library_usage(settings: Settings, proxy: RunningProxy) -> None:
    """Determine the unused cassettes, and store the played ones for `prune --unused-since`."""
    usage, library = proxy.journal.library_usage, proxy.active_mode.library
    if settings.fail_on_unused and library is not None:
        usage.determine_unused_files(library.unsorted_paths())
    if settings.state is not None and usage.played_file_names and library is not None:
        try:
            last_played.mark_played(
                settings.state, library.root, usage.played_file_names, datetime.now(UTC)
            )
        except LlmProxyError as error:  # must not fail the run
            log.warning("cannot record when the cassettes were replayed: %s", error)


def run_summary(mode: str, settings: Settings, journal: Journal) -> str:
    """What happened in the run, in one line: `replayed 4 responses from 3 cassettes, 0 misses`."""
    counts = journal.counts
    parts: list[str] = []
    if mode in {"replay", "auto"}:
        responses = count_with_noun(counts.replayed, "response")
        cassettes = count_with_noun(journal.library_usage.played_count, "cassette")
        parts.append(f"replayed {responses} from {cassettes}")
    if settings.may_record(mode):
        parts.append(f"recorded {count_with_noun(counts.recorded, 'exchange')}")
    if mode == "record":
        parts.append(f"{counts.complete_recordings:,} complete")
    if counts.passed_through:
        requests = count_with_noun(counts.passed_through, "request")
        parts.append(f"forwarded {requests} without recording")
    if mode == "simulate" or counts.simulated:
        parts.append(f"simulated {count_with_noun(counts.simulated, 'response')}")
    if mode in {"replay", "auto"}:
        parts.append(count_with_noun(counts.missed, "miss", "misses"))
    if counts.injected_faults or journal.rule_documents():
        parts.append(f"injected {count_with_noun(counts.injected_faults, 'fault')}")
    if counts.refused:
        parts.append(f"refused {count_with_noun(counts.refused, 'request')}")
    again = f" (--again {settings.again})" if mode == "auto" and settings.may_record(mode) else ""
    return ", ".join(parts) + again


def _log_problem_counts(journal: Journal) -> None:
    """Log what went wrong in the run, as far as the summary does not state it."""
    counts = journal.counts
    if counts.incomplete_recordings:
        log.info(
            "%s incomplete; to list them, run llm-proxy ls --partial",
            count_with_noun(counts.incomplete_recordings, "recording"),
        )
    for line in repeat_lines(journal.repeated_misses.times_by_label):
        log.warning("%s", line, extra=MISS_LABEL)
    if counts.answered_by_nearest:
        log.warning(
            "%s replayed from the nearest cassette, because no cassette matched",
            count_with_noun(counts.answered_by_nearest, "request"),
        )
    if counts.unsuccessful:
        failed_requests = count_with_noun(counts.unsuccessful, "request")
        log.warning(
            "%s matched no scenario or failed a check; see the warnings above", failed_requests
        )
        for line in repeat_lines(journal.repeated_mismatches.times_by_label):
            log.warning("  %s", line)
    if counts.upstream_failed:
        failed_requests = count_with_noun(counts.upstream_failed, "request")
        log.warning("%s failed because of a provider or connection error", failed_requests)
    if counts.clients_left:
        clients = count_with_noun(counts.clients_left, "client")
        log.warning("%s disconnected before a response", clients)
    if counts.lost_recordings:
        log.error("%s lost", count_with_noun(counts.lost_recordings, "recording"))


def _write_step_summary(
    summary_path: str, command_line: str, journal: Journal, max_age: MaxAge | None
) -> None:
    """Append this run to the CI job's summary, if there is anything to report."""
    usage = journal.library_usage
    age_suffix = "" if max_age is None else f", and older than {max_age}"
    nearest_counts = Counter(
        (
            f"{entry.method} {entry.path}",
            entry.session,
            entry.origin,
            format_percent(entry.similarity),
        )
        for entry in journal.entries
        if entry.similarity is not None
    )
    sections = [
        SummarySection(
            f"{count_with_noun(journal.counts.answered_by_nearest, 'request')} replayed from the "
            "nearest cassette",
            ("request", "session", "cassette", "similarity", "times"),
            [(*values, f"{times:,}") for values, times in nearest_counts.items()],
        ),
        SummarySection(
            f"{count_with_noun(len(usage.unused_files), 'cassette')} not played",
            ("cassette",),
            [(file,) for file in usage.unused_files],
            "`llm-proxy prune` deletes unused cassettes.",
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
        with open(
            summary_path, "a", encoding="utf-8", errors="replace", opener=private_opener
        ) as page:
            page.write(text)
    except OSError as error:
        log.warning("cannot write %s %s: %s", SUMMARY_FILE_VARIABLE, summary_path, error.strerror)


def _first_file_names(files: Iterable[str]) -> str:
    names = [printable_excerpt(file, _MAX_PATH_CHARS) for file in files]
    more = len(names) - _MAX_SHOWN_FILES
    return ", ".join(names[:_MAX_SHOWN_FILES]) + (f", and {more} more" if more > 0 else "")


def write_journal(path: Path, document: Mapping[str, Any]) -> None:
    """Write a journal document atomically.  Raises `LlmProxyError` if that fails."""
    content = orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
    try:
        replace_file(resolve_link(path), content)
    except OSError as error:
        raise LlmProxyError(f"cannot write --journal {path}: {error.strerror}") from None
