"""What is said at the end of the cassettes that a run did not use, or that were too old."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from llm_proxy.display import counted
from llm_proxy.errors import LlmProxyError, printable
from llm_proxy.misses.step_summary import Section
from llm_proxy.shell.library import last_played
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.running.settings import Care, Settings
from llm_proxy.shell.server.library_usage import Usage

log: Final = logging.getLogger("llm_proxy")

SHOWN: Final = 20
"""Files that are named at the end."""
_LONGEST: Final = 250
"""Characters of a path in the log."""
_PLAYS: Final = ("replay", "auto")


def settle(mode: str, settings: Settings, library: Library, usage: Usage) -> None:
    """Find out what was not used, and remember what was, for `prune --unused-since`."""
    if mode not in _PLAYS:
        return
    if settings.care.fail_on_unused:
        usage.close(library.paths())
    if settings.state is not None and usage.played:
        try:
            last_played.note(settings.state, library.root, usage.played, datetime.now(UTC))
        except LlmProxyError as error:  # a convenience, which costs no run its success
            log.info("it is not remembered which cassettes were played: %s", error)


def last_word(usage: Usage, care: Care) -> None:
    """Name what was not used and what was too old, where that was asked for."""
    if usage.unused:
        log.error(
            "not played in this run (--fail-on-unused): %s; see llm-proxy prune: %s",
            counted(len(usage.unused), "cassette"),
            _first_few(usage.unused),
        )
    if usage.too_old and care.max_age is not None:
        level = logging.ERROR if care.max_age.fails else logging.WARNING
        files = [it.file for it in usage.too_old]
        what = counted(len(files), "cassette")
        age = f"older than {care.max_age}"
        log.log(level, "played, and %s: %s; record again: %s", age, what, _first_few(files))


def sections(usage: Usage, care: Care) -> list[Section]:
    """The same for the summary page of a CI job."""
    old = "" if care.max_age is None else f", and older than {care.max_age}"
    return [
        Section(
            f"{counted(len(usage.unused), 'cassette')} not played",
            ("cassette",),
            [(it,) for it in usage.unused],
            "`llm-proxy prune` deletes what is used no more.",
        ),
        Section(
            f"{counted(len(usage.too_old), 'cassette')} played{old}",
            ("cassette", "recorded", "days"),
            [(it.file, it.recorded, f"{it.days:.0f}") for it in usage.too_old],
            "`llm-proxy record` replaces them.",
        ),
    ]


def fails(usage: Usage, care: Care) -> bool:
    """Whether that is a failure of the run."""
    return bool(usage.unused) or (
        care.max_age is not None and care.max_age.fails and bool(usage.too_old)
    )


def _first_few(files: Iterable[str]) -> str:
    every = [printable(file, _LONGEST) for file in files]
    more = f", and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more
