"""The tests of a pytest process as sessions of its proxy; see `pytest_plugin`.

This module is imported when a test, or the whole run, uses the proxy.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, Final, cast

import pytest

from llm_proxy.display import count_with_noun
from llm_proxy.errors import LlmProxyError
from llm_proxy.providers import BASE_URL_ADVICE
from llm_proxy.python_api import LLMProxy, ProxySession
from llm_proxy.session_documents import SessionReport, SessionStart, readable_session_name

KEEPS_RECORDINGS: Final = pytest.StashKey[bool]()
"""Of an item: whether its recordings replace older ones, also if it fails."""
SESSION_RULES: Final = pytest.StashKey[tuple[str, ...]]()
"""Of an item: matching rules of its session besides those of its markers."""
_MARKER: Final = "llm_proxy"
_MARKER_ARGUMENTS: Final = (
    "mode", "scenario", "scenarios", "faults", "pace", "match", "normalise",
)  # fmt: skip
_MAX_LISTED: Final = 20
"""Maximum number of lines of a kind in the terminal summary."""
_URL_VARIABLE: Final = "LLM_PROXY_URL"
"""The variable that `llm-proxy MODE -- COMMAND` sets for its command."""
_LIVE_MODES: Final = ("record", "auto")
_MAX_LOG_BYTES: Final = 64 * 1024
"""Bytes of the log that a failed test shows, the last ones."""
_NOTE: Final = re.compile(r"^llm-proxy: (warning: |.*\bdeleted\b)")
"""Lines of the log that the terminal summary repeats: no report of a test shows them."""
_RECORD_COMMAND: Final = "pytest --llm-proxy=auto"
"""The command that records missing requests only."""
_INCOMPLETE: Final = (
    "the recording {file} is incomplete, so the test cannot be replayed; record the test again, or "
    "set allow-partial in llm-proxy.toml"
)
_RECORD_ADVICE: Final = f"to record the request, run {_RECORD_COMMAND}"
_NO_REQUEST: Final = (
    "no request reached llm-proxy at {url}. Does the code create its client after the start of the "
    "test, and does the client read its base URL from the environment, such as OPENAI_BASE_URL? "
    "Is a base URL fixed in the code?{hint} If the test sends no request, remove the marker "
    "llm_proxy"
)


@dataclass
class RunTotals:
    """The counts of a run for the terminal summary; those of xdist workers are added up."""

    counts: Counter[str] = field(default_factory=Counter)
    played_files: set[str] = field(default_factory=set)
    unplayed_files: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What fails the run, and belongs to no test: late requests, and misses outside of tests."""
    notes: list[str] = field(default_factory=list)
    """Lines of the log about what happened to recordings at the end of their tests."""

    def add_report(self, report: SessionReport) -> None:
        """Add the session of one test."""
        self.counts["tests"] += 1
        self.counts["requests"] += report.requests
        self.counts["missed"] += len(report.misses)
        self.counts["aborted"] += report.aborted
        self.unplayed_files += report.unplayed_files
        self.add_files(report)

    def add_files(self, report: SessionReport) -> None:
        """Add the responses of any session, and its cassettes."""
        self.counts["played"] += report.replayed
        self.counts["simulated"] += report.simulated
        self.counts["recorded"] += len(report.recorded_files)
        self.played_files |= set(report.played_files)

    def to_builtins(self) -> dict[str, Any]:
        """The counts of an xdist worker, for the controller."""
        return {
            "counts": dict(self.counts),
            "played_files": sorted(self.played_files),
            "unplayed_files": self.unplayed_files,
            "problems": self.problems,
            "notes": self.notes,
        }

    def add_worker(self, totals: dict[str, Any]) -> None:
        """Add the counts of an xdist worker."""
        self.counts.update(totals["counts"])
        self.played_files |= set(totals["played_files"])
        self.unplayed_files += totals["unplayed_files"]
        self.problems += totals["problems"]
        self.notes += totals["notes"]

    def lines(self) -> Iterator[str]:
        """The lines of the summary."""
        counts = self.counts
        # A file that one attempt did not play may have been played by another.
        unused_files = [file for file in self.unplayed_files if file not in self.played_files]
        cassettes = count_with_noun(len(self.played_files), "cassette")
        phrases = [f"played {counts['played']} from {cassettes}"]
        phrases += [f"simulated {counts['simulated']}"] if counts["simulated"] else []
        phrases += [
            f"recorded {counts['recorded']}",
            f"missed {counts['missed']}",
            f"{count_with_noun(len(unused_files), 'cassette')} unused",
        ]
        yield ", ".join(phrases)
        if not counts["requests"]:
            yield f"no request reached llm-proxy; check that the application {BASE_URL_ADVICE}"
        if counts["aborted"]:
            yield f"{count_with_noun(counts['aborted'], 'response')} cut off at the end of a test"
        for heading, texts in (
            ("unused: ", unused_files),
            ("", [*dict.fromkeys([*self.problems, *self.notes])]),
        ):
            yield from (f"{heading}{text}" for text in texts[:_MAX_LISTED])
            if len(texts) > _MAX_LISTED:
                yield f"{heading}and {len(texts) - _MAX_LISTED} more"


class ProxySessions:
    """The hooks and the proxy of one pytest process in which a test uses the proxy."""

    def __init__(
        self, config: pytest.Config, mode: str, uses_proxy: Callable[[pytest.Item], bool]
    ) -> None:
        """`mode` is that of all tests; if it is empty, `uses_proxy` selects tests."""
        self.totals = RunTotals()
        self._config = config
        self._mode = mode
        self._uses_proxy = uses_proxy
        self._proxy: LLMProxy | None = None
        self._log: BinaryIO | None = None
        self._session: ProxySession | None = None
        """The session of the running test."""
        self._start = SessionStart()
        """How the session of the running test was started."""
        self._fixture_sessions: list[str] = []
        """The sessions of the shared fixtures that are set up."""
        self._touched_sessions: list[str] = []
        """Those of them that the running test has set up."""
        self._threads_before: frozenset[threading.Thread] = frozenset()
        """The threads at the start of the running test."""
        self._unfinished_threads: dict[str, list[threading.Thread]] = {}
        """The threads that a test has left running, by the name of its session."""
        self._shown_failures: dict[str, Counter[str]] = {}
        """The misses and mismatches that have failed a test, by session."""
        self._has_passed = True
        """Whether the running test has passed so far: it was not skipped, and has not failed."""
        self._log_start = 0

    def start_proxy(self) -> LLMProxy:
        """The proxy of this process, started at its first use.

        Raises `pytest.UsageError` if it cannot start.
        """
        if self._proxy is not None:
            return self._proxy
        if url := os.environ.get(_URL_VARIABLE):
            raise pytest.UsageError(
                f"pytest runs under llm-proxy already ({_URL_VARIABLE}={url}): run pytest "
                "--llm-proxy=record instead of llm-proxy record -- pytest, or unset the variable"
            )
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 # kept open by the proxy
        proxy = LLMProxy(
            cast("Any", self._mode or "replay"),
            defaults={"pace": "instant", "again": "replay", "finish_on_disconnect": "true"},
            folder=self._config.rootpath,
            record_command=_RECORD_COMMAND,
            log=self._log,
            patch_environment=False,
        )
        try:
            self._proxy = proxy.start()
        except LlmProxyError as error:
            raise pytest.UsageError(f"llm-proxy: {error}") from None
        self._config.add_cleanup(self.stop_proxy)
        self.totals.notes += self._notes_since(0)
        return proxy

    def stop_proxy(self) -> None:
        """Stop the proxy, if it is running; the workers of xdist start their own."""
        if self._proxy is None:
            return
        proxy, self._proxy = self._proxy, None
        # A thread that is left must not reach the provider.
        left_threads = [*chain(*self._unfinished_threads.values())]
        has_threads = any(map(threading.Thread.is_alive, left_threads))
        # It was killed, or has crashed: the tests have failed, and the log says why.
        with suppress(LlmProxyError):
            if self._session is not None:  # the run was interrupted
                proxy.end_session(self._session.name, keep_recordings=False)
        with suppress(LlmProxyError):
            proxy.stop(restore_environment=not has_threads)

    @property
    def mode(self) -> str:
        """The mode of all tests, as the proxy runs it; empty if only marked tests use it."""
        return self._mode if self._proxy is None or not self._mode else self._proxy.mode

    @property
    def running_session(self) -> ProxySession | None:
        """The session of the running test."""
        return self._session

    def session_for_fixture(self, item: pytest.Item) -> ProxySession:
        """The session of a test; it starts now if the fixture was requested dynamically."""
        return self._session or self._start_session(item)

    def _start_session(self, item: pytest.Item) -> ProxySession:
        proxy = self.start_proxy()
        if self._session is not None:  # its teardown was never run
            proxy.end_session(self._session.name, keep_recordings=False)
        self._log_start = self._log_size()
        self._threads_before = frozenset(threading.enumerate())
        self._has_passed = True
        self._touched_sessions.clear()
        try:
            start = self._session_start(item)
            self._session = proxy.start_session(session_name(item), start)
            self._start = start
            self._shown_failures.pop(self._session.name, None)
        except LlmProxyError as error:
            raise pytest.fail.Exception(f"llm-proxy: {error}", pytrace=False) from None
        if not self._mode:
            proxy.patch_environment()
        return self._session

    def _session_start(self, item: pytest.Item) -> SessionStart:
        """How the session of a test starts, by its markers; the closest marker counts."""
        arguments: dict[str, Any] = {}
        for mark in reversed(list(item.iter_markers(_MARKER))):
            unknown = [*map(repr, mark.args), *(mark.kwargs.keys() - set(_MARKER_ARGUMENTS))]
            if unknown:
                pytest.fail(
                    f"marker llm_proxy: unknown argument {', '.join(unknown)}; "
                    f"known: {', '.join(_MARKER_ARGUMENTS)}",
                    pytrace=False,
                )
            arguments |= mark.kwargs
        options = [
            (name, str(value))
            for name in ("scenarios", "match", "normalise")
            for value in _as_list(arguments.get(name))
        ]
        options += [("normalise", rule) for rule in item.stash.get(SESSION_RULES, ())]
        is_scripted = bool(arguments.get("scenario") or arguments.get("scenarios"))
        mode = arguments.get("mode") or ("simulate" if is_scripted else "")
        return SessionStart(
            mode=self._allowed_mode(mode),
            options=tuple(options),
            pace=arguments.get("pace") or "",
            faults=tuple(_as_list(arguments.get("faults"))),
            scenario=arguments.get("scenario") or "",
            replaces_session=True,
            unfinished_sessions=tuple(
                name
                for name, threads in self._unfinished_threads.items()
                if any(thread.is_alive() for thread in threads)
            ),
        )

    def _allowed_mode(self, mode: str) -> str:
        """The mode of a test whose marker has this one.

        A run in `replay` connects to no provider, and a run in `record` records all live tests.
        """
        is_live = mode in _LIVE_MODES
        return self._mode if is_live and self._mode in {"replay", "record"} else mode

    def pytest_report_header(self) -> list[str]:
        """The mode, and the warnings of the proxy's start."""
        if self._proxy is None:
            return []
        return [f"llm-proxy: {self._proxy.mode} mode", *self._read_log().splitlines()]

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Start the session of a test before its fixtures are set up.

        A test of pytest-recording keeps its own URLs, also in a run with the proxy.
        """
        if self._uses_proxy(item) or (self._mode and item.get_closest_marker("vcr") is None):
            self._start_session(item)
        elif self._proxy is not None:
            self._proxy.restore_environment()
        yield from self._fail_after_misses()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Fail a test that had a miss, or that never reached the proxy."""
        yield from self._fail_after_misses()
        is_marked = item.get_closest_marker(_MARKER) is not None
        if self._session is not None and is_marked and not self._session.report.requests:
            hint = _blocked_network_hint(item)
            pytest.fail(_NO_REQUEST.format(url=self._session.url, hint=hint), pytrace=False)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """End the session of a test after its fixtures were torn down."""
        has_raised = True
        try:
            yield
            has_raised = False
        finally:
            self._has_passed &= not has_raised
            session, self._session = self._session, None
            if session is not None:
                self._end_session(session, item)
            elif self._proxy is not None and self._mode:
                self._proxy.patch_environment()

    def _end_session(self, session: ProxySession, item: pytest.Item) -> None:
        proxy = self.start_proxy()
        if not self._mode:
            proxy.restore_environment()
        keeps = (
            self._has_passed
            or item.stash.get(KEEPS_RECORDINGS, False)
            or self._config.getoption("llm_proxy_keep_failed")
        )
        log_start = self._log_size()
        try:
            report = proxy.end_session(session.name, keep_recordings=keeps)
        except LlmProxyError as error:
            raise pytest.fail.Exception(f"llm-proxy: {error}", pytrace=False) from None
        self.totals.add_report(report)
        self.totals.notes += self._notes_since(log_start)
        if threads := [*set(threading.enumerate()) - self._threads_before]:
            self._unfinished_threads[session.name] = threads
        failures = [
            *self._new_failures([report]),
            *report.lost_recordings,
            *(_INCOMPLETE.format(file=file) for file in report.incomplete_files),
        ]
        if failures:
            pytest.fail(_failure_text(failures), pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Iterator[None]:
        """Give requests of a fixture that several tests share a session of its own.

        Which test sets the fixture up depends on the order of the tests.
        """
        session = self._session
        if session is None or fixturedef.scope == "function":
            return (yield)
        proxy, start = self.start_proxy(), self._start
        index = getattr(request, "param_index", 0)
        suffix = f"[{index}]" if hasattr(request, "param") else ""
        scope_id = request.node.nodeid or fixturedef.baseid
        name = readable_session_name(f"{scope_id}::{fixturedef.argname}{suffix}")

        previous = proxy.current_session
        # Finalizers run in reverse order: these two surround those of the fixture.
        fixturedef.addfinalizer(partial(self._end_fixture_session, name))
        fixture_start = SessionStart(
            mode=start.mode, options=start.options, pace=start.pace, scenario=start.scenario
        )
        proxy.start_session(name, fixture_start)
        self._fixture_sessions.append(name)
        self._touched_sessions.append(name)
        try:
            return (yield)
        finally:
            fixturedef.addfinalizer(partial(self._enter_fixture_session, name))
            proxy.resume_session(previous)

    def _enter_fixture_session(self, name: str) -> None:
        """Give the requests of a fixture's own finalizers its session."""
        if self._proxy is not None and name in self._fixture_sessions:
            self._proxy.resume_session(name)

    def _end_fixture_session(self, name: str) -> None:
        """End the session of a shared fixture after its finalizers."""
        if self._proxy is None or name not in self._fixture_sessions:
            return
        self._fixture_sessions.remove(name)
        report = self._proxy.end_session(name, keep_recordings=True)
        self.totals.add_files(report)
        if self._session is not None:
            self._proxy.resume_session(self._session.name)
        if failures := self._new_failures([report]):
            pytest.fail(_failure_text(failures), pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        """Remember whether a test has passed, and show the log of the proxy if not."""
        report = cast("pytest.TestReport", (yield))
        self._has_passed &= report.passed
        if report.failed and self._proxy is not None and (text := self._read_log()):
            report.sections.append(("llm-proxy log", text))
        return report  # type: ignore[return-value] # as pluggy returns it

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run if a request arrived after the end of its test."""
        if self._proxy is not None:
            self._end_shared_sessions(self._proxy)
        if (worker_output := getattr(self._config, "workeroutput", None)) is not None:
            worker_output["llm_proxy"] = self.totals.to_builtins()
        if self.totals.problems and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _end_shared_sessions(self, proxy: LLMProxy) -> None:
        """Add what happened outside of tests: at import, in shared fixtures, and too late."""
        try:
            while self._fixture_sessions:
                name = self._fixture_sessions.pop()
                self.totals.add_files(proxy.end_session(name, keep_recordings=True))
            report = proxy.report
            self.totals.add_files(report)
            self.totals.counts["requests"] += report.requests
            self.totals.counts["missed"] += len(report.misses)
            failures = self._new_failures([report])
            self.totals.problems += [f"outside of tests: {failure}" for failure in failures]
            self.totals.problems += [f"late: {text}" for text in proxy.late_requests]
        except LlmProxyError as error:
            self.totals.problems.append(str(error))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was played, recorded, missed and unused."""
        if self.totals.counts["tests"]:
            for line in self.totals.lines():
                terminalreporter.write_line(f"llm-proxy: {line}")

    def _fail_after_misses(self) -> Iterator[None]:
        """Run one phase of a test; it fails after a miss, even if the test has caught the error."""
        has_raised = True
        try:
            yield
            has_raised = False
        except pytest.skip.Exception:
            self._fail_if_missed()
            raise
        finally:
            if has_raised and self._session is not None:
                self._new_failures(self._running_reports())  # the log in the report shows them
        self._fail_if_missed()

    def _fail_if_missed(self) -> None:
        if self._session is not None and (failures := self._new_failures(self._running_reports())):
            pytest.fail(_failure_text(failures), pytrace=False)

    def _running_reports(self) -> Iterator[SessionReport]:
        """The reports of the running test, and of fixtures that several tests share."""
        if self._session is not None:
            yield self._session.report
            for name in self._touched_sessions:
                if name in self._fixture_sessions:
                    yield ProxySession(self.start_proxy(), name).report

    def _new_failures(self, reports: Iterable[SessionReport]) -> list[str]:
        """The misses and mismatches in these reports that have failed no test yet."""
        new_failures: list[str] = []
        for report in reports:
            failures = Counter(report.scenario_failures)
            failures.update(
                miss.text if _RECORD_COMMAND in miss.text else f"{miss.text}\n{_RECORD_ADVICE}"
                for miss in report.misses
            )
            new_failures += failures - self._shown_failures.get(report.session, Counter())
            self._shown_failures[report.session] = failures
        return new_failures

    def _notes_since(self, log_start: int) -> list[str]:
        """The lines of the log that the terminal summary repeats."""
        lines = self._read_log(log_start).splitlines()
        return [line.removeprefix("llm-proxy: ") for line in lines if _NOTE.search(line)]

    def _log_size(self) -> int:
        return 0 if self._log is None else os.fstat(self._log.fileno()).st_size

    def _read_log(self, start: int | None = None) -> str:
        """The log of the proxy since the start of the test, its last part if it is long."""
        if self._log is None:
            return ""
        end = self._log_size()
        start = max(self._log_start if start is None else start, end - _MAX_LOG_BYTES)
        return os.pread(self._log.fileno(), end - start, start).decode("utf-8", "replace")


def session_name(item: pytest.Item) -> str:
    """The name of a test's session: readable, and different for different node ids."""
    node_id = item.nodeid
    for mark in item.iter_markers("xdist_group"):  # with --dist loadgroup, xdist appends it
        group = mark.kwargs.get("name", mark.args[0] if mark.args else "default")
        node_id = node_id.removesuffix(f"@{group}")
    return readable_session_name(node_id)


def _blocked_network_hint(item: pytest.Item) -> str:
    """A hint if another plugin keeps the test from connecting to the proxy."""
    options = item.config.option
    if getattr(options, "disable_socket", False) and not getattr(options, "allow_hosts", None):
        return " pytest-socket blocks the network: add --allow-hosts=127.0.0.1."
    if getattr(options, "block_network", False) or item.get_closest_marker("block_network"):
        return " pytest-recording blocks the network: add --allowed-hosts=127.0.0.1."
    if item.get_closest_marker("vcr") is not None:
        return " The marker vcr makes VCR.py respond to the requests: remove one of the markers."
    return ""


def _failure_text(failures: list[str]) -> str:
    return "\n\n".join(f"llm-proxy: {failure}" for failure in failures)


def _as_list(value: Any) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else [*map(str, value)]
