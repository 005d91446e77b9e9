"""Shared by all tests: skips for missing requirements, their summary, a clean environment."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import hypothesis
import pytest

import corpus
import judge_runner
import thoroughness
from llm_proxy.providers import API_KEY_VARIABLES, BASE_URL_VARIABLES
from thoroughness import quick_or_thorough

collect_ignore = ["sample_agent", "sample_shop"]
"""The tests of applications, which `test_sample_agent` and `test_llm_pytest_shop` run."""

AdvanceClock = Callable[[float], None]

_LIVE_VARIABLES: Final = ("LLM_PROXY_LIVE_SERVER", "LLM_PROXY_LIVE_MODEL")
_KEPT_VARIABLES: Final = frozenset(("LLM_PROXY_CORPUS", thoroughness.VARIABLE, *_LIVE_VARIABLES))
_PROXY_VARIABLES: Final = frozenset(("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"))
_REMOVED_VARIABLES: Final = frozenset(
    ("CI", "GITHUB_STEP_SUMMARY", *_PROXY_VARIABLES, *BASE_URL_VARIABLES, *API_KEY_VARIABLES)
)
"""Variables that change what llm-proxy or an SDK does: tests that need one set it themselves."""

_AUTHORITY_FILE: Final = Path(__file__).with_name("only_authority.pem")
"""The only certificate that clients trust: to load those of a system takes 20 ms a client."""


@dataclass(frozen=True, slots=True)
class Need:
    """A requirement outside the checkout of the tests with a marker."""

    marker: str
    missing: str
    """Why it is missing, and how to provide it; empty where it is present."""


def needs() -> tuple[Need, ...]:
    """The requirements of this suite's markers, and whether this machine has them."""
    return (
        Need("corpus", "" if corpus.available() else corpus.REASON),
        Need("live", missing_live_model(os.environ.get(name) for name in _LIVE_VARIABLES)),
    )


def missing_live_model(paths: Iterable[str | None]) -> str:
    """Why the live server and its model are not at these two paths; empty where they are."""
    for variable, path in zip(_LIVE_VARIABLES, paths, strict=True):
        if not path:
            return f"set {variable} to a file"
        if not Path(path).is_file():
            return f"{variable} names no file: {path}"
    return ""


def pytest_configure() -> None:
    """Set up signal handlers and Hypothesis before any test runs."""
    _restore_signal_handlers()
    _configure_hypothesis()


def _restore_signal_handlers() -> None:
    """Handle SIGINT and SIGHUP as at a terminal: under `nohup` or `&` they are ignored.

    The children of tests would inherit that, and never end.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _configure_hypothesis() -> None:
    """Properties have no deadline, so slow machines pass; CI uses the same examples every time.

    A property without its own number runs 20 examples, 100 in a thorough run, or
    LLM_PROXY_EXAMPLES where that is set.
    """
    ci = bool(os.environ.get("CI"))
    hypothesis.settings.register_profile(
        "llm-proxy",
        deadline=None,
        max_examples=int(os.environ.get("LLM_PROXY_EXAMPLES", quick_or_thorough(20, 100))),
        derandomize=ci,
        database=None if ci else hypothesis.settings().database,
    )
    hypothesis.settings.load_profile("llm-proxy")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Search no garbage among modules and tests, which stay: not as they are made, nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # after pytest-randomly has shuffled them
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave thorough tests out of a daily run; skip tests whose requirement is missing.

    Long tests run first: else one worker would wait for another at the end.
    """
    if not thoroughness.is_thorough():
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("thorough") is None]
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for need in needs():
        for item in items:
            if item.get_closest_marker(need.marker) is None:
                continue
            item.user_properties.append(("needs", need.marker))
            if need.missing:
                item.add_marker(pytest.mark.skip(reason=need.missing))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report how many tests with each requirement ran and how many were skipped."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    for need in needs():
        need_reports = [
            report
            for report in reports
            if isinstance(report, pytest.TestReport)
            and ("needs", need.marker) in report.user_properties
        ]
        skipped = sum(report.skipped for report in need_reports)
        ran = sum(report.when == "call" and not report.skipped for report in need_reports)
        terminalreporter.write_line(f"{need.marker}: {_count_summary(ran, skipped, need.missing)}")
    terminalreporter.write_line(f"judges: {_judge_summary()}")
    tier = "all tests" if thoroughness.is_thorough() else "daily; scripts/test --thorough runs all"
    terminalreporter.write_line(f"tier: {tier}")


def _judge_summary() -> str:
    """Which judges (official clients) are installed, and which are not."""
    not_installed = [
        name for name in judge_runner.judge_names() if judge_runner.missing_reason(name)
    ]
    installed = [name for name in judge_runner.judge_names() if name not in not_installed]
    suffix = (
        f"; not installed, and skipped: {', '.join(not_installed)} (scripts/judges)"
        if not_installed
        else ""
    )
    return f"{', '.join(installed)} are here{suffix}"


def _count_summary(ran: int, skipped: int, missing: str) -> str:
    if not ran and not skipped:
        return "none chosen"
    parts = ([f"{ran} ran"] if ran else []) + ([f"{skipped} skipped"] if skipped else [])
    return ", ".join(parts) + (f": {missing}" if skipped and missing else "")


@pytest.fixture(autouse=True, scope="session")
def plain_environment() -> Iterator[None]:
    """The same environment locally and in CI: no settings, providers, proxies or authorities."""
    with pytest.MonkeyPatch.context() as patch:
        for name in tuple(os.environ):
            is_our_setting = name.startswith("LLM_PROXY_") and name not in _KEPT_VARIABLES
            if is_our_setting or name.upper() in _REMOVED_VARIABLES:
                patch.delenv(name)
        patch.setenv("SSL_CERT_FILE", str(_AUTHORITY_FILE))
        yield


@pytest.fixture
def unreachable_url() -> Iterator[str]:
    """A URL that refuses connections: its port is bound, so nobody else can listen on it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
async def advance_clock(monkeypatch: pytest.MonkeyPatch) -> AdvanceClock:
    """Advance the event loop's clock by so many seconds in which the loop does not run."""
    loop = asyncio.get_running_loop()
    original_time, offset_s = loop.time, 0.0

    def advance(seconds: float) -> None:
        nonlocal offset_s
        offset_s += seconds

    monkeypatch.setattr(loop, "time", lambda: original_time() + offset_s)
    return advance
