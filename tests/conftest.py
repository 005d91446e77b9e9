"""What all tests share: skips for what this machine lacks, a count of them, a plain environment."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import hypothesis
import pytest

import corpus
import judge_runner
import thoroughness
from llm_proxy.shell.running.environment import BASE_URLS, KEYS
from thoroughness import enough

_LIVE: Final = ("LLM_PROXY_LIVE_SERVER", "LLM_PROXY_LIVE_MODEL")
_OURS: Final = frozenset(("LLM_PROXY_CORPUS", thoroughness.VARIABLE, *_LIVE))
_PROXIES: Final = frozenset(("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"))
_MISLEADING: Final = frozenset(("CI", "GITHUB_STEP_SUMMARY", *_PROXIES, *BASE_URLS, *KEYS))
"""Variables that change what llm-proxy or an SDK does, and that a test sets when it means to."""


@dataclass(frozen=True, slots=True)
class Need:
    """Something outside the checkout that the tests of a marker need."""

    marker: str
    missing: str
    """Why it is not there, and how to name it; empty where it is."""


def needs() -> tuple[Need, ...]:
    """What the markers of this suite stand for, and whether it is on this machine."""
    return (
        Need("corpus", "" if corpus.available() else corpus.REASON),
        Need("live", live_missing(os.environ.get(name) for name in _LIVE)),
    )


def live_missing(paths: Iterable[str | None]) -> str:
    """Why there is no live model at these paths, of a server and its model; empty if there is."""
    for variable, path in zip(_LIVE, paths, strict=True):
        if not path:
            return f"set {variable} to a file"
        if not Path(path).is_file():
            return f"{variable} names no file: {path}"
    return ""


def pytest_configure() -> None:
    """What holds before any test runs."""
    _hear_signals()
    _judge_properties()


def _hear_signals() -> None:
    """Take the signals as at a terminal: `nohup` and a script's `&` have children ignore some.

    Those that a test starts would ignore them as well, and never end.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _judge_properties() -> None:
    """Properties hold however slow the machine is; CI tries the same examples every time.

    A property without a number of its own is tried on 20 examples, or 100 where all is wanted; on
    LLM_PROXY_EXAMPLES, where that is set.
    """
    ci = bool(os.environ.get("CI"))
    hypothesis.settings.register_profile(
        "llm-proxy",
        deadline=None,
        max_examples=int(os.environ.get("LLM_PROXY_EXAMPLES", enough(20, 100))),
        derandomize=ci,
        database=None if ci else hypothesis.settings().database,
    )
    hypothesis.settings.load_profile("llm-proxy")


@pytest.hookimpl(trylast=True)  # after pytest-randomly has shuffled them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what cannot run here, and note what each test needs, for the count at the end.

    What takes long begins first, or else one process would wait for the other in the end.
    """
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for need in needs():
        for item in items:
            if item.get_closest_marker(need.marker) is None:
                continue
            item.user_properties.append(("needs", need.marker))
            if need.missing:
                item.add_marker(pytest.mark.skip(reason=need.missing))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many of these tests ran and how many did not: a skip is no proof."""
    reports = [one for found in terminalreporter.stats.values() for one in found]
    for need in needs():
        mine = [
            report
            for report in reports
            if isinstance(report, pytest.TestReport)
            and ("needs", need.marker) in report.user_properties
        ]
        skipped = sum(report.skipped for report in mine)
        ran = sum(report.when == "call" and not report.skipped for report in mine)
        terminalreporter.write_line(f"{need.marker}: {_count(ran, skipped, need.missing)}")
    terminalreporter.write_line(f"judges: {_judges()}")


def _judges() -> str:
    """Which official clients can judge here, and which cannot."""
    absent = [name for name in judge_runner.judges() if judge_runner.missing(name)]
    here = [name for name in judge_runner.judges() if name not in absent]
    why = f"; not installed, and skipped: {', '.join(absent)} (scripts/judges)" if absent else ""
    return f"{', '.join(here)} are here{why}"


def _count(ran: int, skipped: int, missing: str) -> str:
    if not ran and not skipped:
        return "none chosen"
    parts = ([f"{ran} ran"] if ran else []) + ([f"{skipped} skipped"] if skipped else [])
    return ", ".join(parts) + (f": {missing}" if skipped and missing else "")


@pytest.fixture(autouse=True, scope="session")
def a_plain_environment() -> Iterator[None]:
    """The same environment at a desk and in CI: no settings of ours, no providers, no proxies."""
    with pytest.MonkeyPatch.context() as patch:
        for name in tuple(os.environ):
            ours = name.startswith("LLM_PROXY_") and name not in _OURS
            if ours or name.upper() in _MISLEADING:
                patch.delenv(name)
        yield


@pytest.fixture
def nobody() -> Iterator[str]:
    """A URL at which nobody listens, and nobody can begin to."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
