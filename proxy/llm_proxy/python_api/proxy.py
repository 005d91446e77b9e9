"""`LLMProxy`: starts a proxy for this process; `ProxySession`: one session of it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Literal, Self, TypeVar

import msgspec

from llm_proxy import providers
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.faults.fault_record import FaultRecord
from llm_proxy.miss_report import MissReport
from llm_proxy.python_api.calls import Call, Expected, assert_called_with
from llm_proxy.python_api.connection import ChildProcess, Connection, Response, ServerThread
from llm_proxy.routing import is_valid_name
from llm_proxy.session_documents import (
    CallDocument,
    ReadyDocument,
    ServerStart,
    SessionFaults,
    SessionReport,
    SessionStart,
    readable_session_name,
)
from llm_proxy.turns import Turn

T = TypeVar("T")

Mode = Literal["replay", "record", "auto", "simulate"]

_DEFAULT_SESSION: Final = "default"
_SUCCESS: Final = 200


class _Calls(msgspec.Struct):
    calls: tuple[CallDocument, ...]


class _Late(msgspec.Struct):
    late: tuple[str, ...]


class _Error(msgspec.Struct):
    error: str = ""


class ProxySession:
    """One session: where its clients connect, what they sent, and what they received."""

    def __init__(self, proxy: LLMProxy, name: str) -> None:
        self._proxy = proxy
        self.name = name

    @property
    def url(self) -> str:
        """The URL of the proxy for this session, whatever other sessions are running."""
        return f"{self._proxy.url}/@{self.name}"

    def base_url(self, provider: str) -> str:
        """The base URL for clients of a provider, such as `openai`: `url` with its path.

        Raises `UsageError` for a provider without a variable for its base URL.
        """
        known = {each.provider: each.path for each in providers.BASE_URL_VARIABLES.values()}
        if provider not in known:
            raise UsageError(f"unknown provider {provider!r}; known: {', '.join(known)}")
        return self.url + known[provider]

    @property
    def report(self) -> SessionReport:
        """What has happened since the session started."""
        return self._proxy.request("GET", self._path, {}, SessionReport)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The requests of this session with their responses, in order; the latest 1,000."""
        documents = self._proxy.request("GET", f"{self._path}/calls", {}, _Calls).calls
        return tuple(map(Call, documents))

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The decoded responses, in order."""
        return tuple(turn for call in self.calls for turn in call.turns)

    @property
    def faults(self) -> tuple[FaultRecord, ...]:
        """The faults that were injected, in order."""
        return tuple(fault for call in self.calls for fault in call.faults)

    @property
    def misses(self) -> tuple[MissReport, ...]:
        """The requests that no cassette matched, and why."""
        return self.report.misses

    def scenario(self, scenario_id: str) -> None:
        """Respond to all further requests with this scenario.  Raises `LlmProxyError`."""
        self._change(SessionStart(mode="simulate", scenario=scenario_id, change=True))

    def inject_faults(self, *rules: str) -> None:
        """Replace the faults of this session by these rules, such as `reset,after=3`.

        Raises `LlmProxyError` for an invalid rule.
        """
        self._proxy.request("PUT", f"{self._path}/faults", SessionFaults(rules), msgspec.Raw)

    def set_pace(self, pace: str) -> None:
        """Set the pace of this session, such as `50tps`.  Raises `LlmProxyError`."""
        body = {"pace": pace, "session": self.name}
        self._proxy.request("PUT", "/_proxy/pace", body, msgspec.Raw)

    def reset(self) -> None:
        """Start again with the first takes, turns and attempts."""
        self._proxy.request("POST", f"{self._path}/reset", {}, msgspec.Raw)

    def assert_called_with(self, **expected: Expected) -> Call:
        """The first call that has all expected values.

        Request: `provider`, `dialect`, `model`, `path`, `system`, `user` (the last user text),
        `tools` (names), `tool_results` (texts) and `temperature`.  Response: `status`, `text`,
        `tool_calls` (names with arguments) and `finish`.  An expected value is an equal value, a
        compiled pattern to search for, or a function that returns whether the value is right.

        Raises `AssertionError` with the values of every call.
        """
        return assert_called_with(self.calls, expected)

    def assert_all_played(self) -> None:
        """Raise `AssertionError` if a cassette of this session was not played."""
        report = self._proxy.request("GET", f"{self._path}/unplayed", {}, SessionReport)
        if files := report.unplayed_files:
            raise AssertionError("\n".join([f"{len(files)} cassettes not played:", *files]))

    @property
    def _path(self) -> str:
        return f"/_proxy/sessions/{self.name}"

    def _change(self, start: SessionStart) -> None:
        self._proxy.request("PUT", self._path, start, msgspec.Raw)


class LLMProxy(ProxySession):
    """A proxy for this process, as a context manager, sync or async.

    While it runs, `OPENAI_BASE_URL` and similar variables point to it, and missing API keys have
    dummy values where no provider needs them.  It is also the view of its first session.
    """

    def __init__(
        self,
        mode: Mode = "replay",
        *,
        cassettes: str | os.PathLike[str] | None = None,
        scenarios: str | os.PathLike[str] | None = None,
        pace: str | None = None,
        faults: str | Sequence[str] = (),
        match: str | None = None,
        normalise: str | Sequence[str] = (),
        upstreams: Mapping[str, str] | None = None,
        session: str = _DEFAULT_SESSION,
        options: Mapping[str, object] | None = None,
        defaults: Mapping[str, str] | None = None,
        respond: Callable[..., object] | None = None,
        in_process: bool = False,
        patch_environment: bool = True,
        strict: bool = False,
        folder: str | os.PathLike[str] = ".",
        record_command: str = "llm-proxy record",
        log: IO[bytes] | None = None,
    ) -> None:
        """Arguments have the values of the command-line options with their names.

        `options` are further options, by name without dashes, `True` for a flag; `defaults` apply
        where neither the environment nor a settings file sets an option.  `respond` is a function
        that returns the replies of a mock, which requires `in_process`: the proxy runs in a thread
        then, not in a child process, and `folder` and `log` have no effect.  With `strict`, the
        end of the context raises `AssertionError` after a miss or a scenario mismatch.  `folder`
        is the working folder of the proxy.  `record_command` is the command that errors advise
        for recording.  `log` is the file for its whole log; without one, warnings go to stderr.
        """
        super().__init__(self, _valid_session_name(session))
        if respond is not None and not in_process:
            raise UsageError("respond is a function of this process: set in_process=True")
        named = {
            "cassettes": cassettes,
            "scenarios": scenarios,
            "pace": pace,
            "match": match,
        }
        pairs = [(name, os.fspath(value)) for name, value in named.items() if value is not None]
        pairs += [("fault", rule) for rule in _as_rules(faults)]
        pairs += [("normalise", rule) for rule in _as_rules(normalise)]
        pairs += [("upstream", f"{name}={url}") for name, url in (upstreams or {}).items()]
        pairs += [
            (name, "" if value is True else str(value)) for name, value in (options or {}).items()
        ]
        self._start_document = ServerStart(
            mode, tuple(pairs), dict(defaults or {}), record_command, is_quiet=log is None
        )
        self._connection: Connection = (
            ServerThread(respond) if in_process else ChildProcess(Path(folder), log)
        )
        self._lock = threading.Lock()
        self.current_session = self.name
        """The session of requests that name none."""
        self._patches_environment = patch_environment
        self._is_strict = strict
        self._ready: ReadyDocument | None = None
        self._saved_environment: dict[str, str | None] = {}

    def start(self) -> Self:
        """Start the proxy and its first session.  Raises `UsageError` if it cannot run."""
        self._ready = self._connection.start(self._start_document)
        with ExitStack() as stack:
            stack.callback(self._connection.stop)  # after an error, and after Ctrl-C
            self.start_session(self.name, SessionStart())
            stack.pop_all()
        if self._patches_environment:
            self.patch_environment()
        return self

    def stop(
        self, *, keep_recordings: bool = True, restore_environment: bool = True
    ) -> SessionReport:
        """End the first session, restore the environment and stop the proxy.

        With `keep_recordings`, new recordings replace the older ones of the same requests.
        """
        if restore_environment:
            self.restore_environment()
        try:
            return self.end_session(self.name, keep_recordings=keep_recordings)
        finally:
            self._ready = None
            self._connection.stop()

    @property
    def mode(self) -> str:
        """The mode of the run: `auto` runs as `replay` if CI is set."""
        return self._running.mode

    @property
    def url(self) -> str:
        """The URL of the proxy; requests without a session belong to the running one."""
        return self._running.url

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables with which clients use the proxy."""
        return self._running.environment

    @property
    def late_requests(self) -> tuple[str, ...]:
        """One sentence for each request that arrived after the end of its session."""
        return self.request("GET", "/_proxy/late", {}, _Late).late

    def patch_environment(self) -> None:
        """Set the variables in the environment of this process."""
        for name, value in self.environment.items():
            self._saved_environment.setdefault(name, os.environ.get(name))
            os.environ[name] = value

    def restore_environment(self) -> None:
        """Undo `patch_environment`, except for variables that have been set since."""
        for name, value in self._saved_environment.items():
            if os.environ.get(name) != self.environment.get(name):
                continue
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        self._saved_environment = {}

    @contextmanager
    def session(
        self, name: str, *, mode: Mode | None = None, scenario: str = "", pace: str = "",
        faults: Sequence[str] = (),
    ) -> Iterator[ProxySession]:  # fmt: skip
        """Run a session; until its end, requests that name no session belong to it.

        A name that is not valid gets a readable form with a hash.  Raises `LlmProxyError` if the
        session cannot start.
        """
        name = _valid_session_name(name)
        start = SessionStart(
            mode=mode or "", scenario=scenario, pace=pace, faults=tuple(_as_rules(faults))
        )
        previous = self.current_session
        session = self.start_session(name, start)
        has_failed = True
        try:
            yield session
            has_failed = False
        finally:
            self.end_session(name, keep_recordings=not has_failed)
            self.resume_session(previous)

    def start_session(self, name: str, start: SessionStart) -> ProxySession:
        """Start a session.  Raises `LlmProxyError` if it cannot start."""
        self.request("PUT", f"/_proxy/sessions/{name}", start, msgspec.Raw)
        self.current_session = name
        return ProxySession(self, name)

    def resume_session(self, name: str) -> None:
        """Make a running session the one of requests that name none."""
        self.request("PUT", f"/_proxy/sessions/{name}", SessionStart(resume=True), msgspec.Raw)
        self.current_session = name

    def end_session(self, name: str, *, keep_recordings: bool) -> SessionReport:
        """End a session: open responses end or are cut off, and recordings are written.

        Without `keep_recordings`, older recordings of the same requests stay instead.
        """
        body = {"keep": keep_recordings}
        return self.request("DELETE", f"/_proxy/sessions/{name}", body, SessionReport)

    def request(self, method: str, path: str, body: Any, document_type: type[T]) -> T:
        """Send a request to a control page; returns its document.

        Raises `LlmProxyError` with the error that the page reports.
        """
        with self._lock:
            response: Response = self._connection.request(method, path, body)
        if response.status != _SUCCESS:
            raise LlmProxyError(msgspec.json.decode(response.document, type=_Error).error)
        return msgspec.json.decode(response.document, type=document_type)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        report = self.stop(keep_recordings=error is None)
        failures = [*(miss.text for miss in report.misses), *report.scenario_failures]
        if self._is_strict and error is None and failures:
            raise AssertionError("\n".join(failures))

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.__exit__, error_type, error, traceback)

    @property
    def _running(self) -> ReadyDocument:
        if self._ready is None:
            raise LlmProxyError("the proxy is not running; use it as a context manager")
        return self._ready


def _valid_session_name(name: str) -> str:
    """The name if it is valid; else a readable form of it with a hash."""
    return name if is_valid_name(name) else readable_session_name(name)


def _as_rules(rules: str | Sequence[str]) -> Sequence[str]:
    return [rules] if isinstance(rules, str) else rules
