"""Starts a proxy and sends it requests: in a child process, or in a thread of this one.

Requests to a child process go through pipes.  So they also work in tests that block the network,
record HTTP in this process, or freeze the clock.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, Final, Protocol

import msgspec

from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.session_documents import STOP_PATH, ReadyDocument, ServerStart

_PROGRAM: Final = (
    f"import sys; sys.path.append({str(Path(__file__).parents[2])!r}); "
    "from llm_proxy.cli.embedded import main; main()"
)
"""The program of the child process: it finds the package where this process has found it."""
_START_TIMEOUT_S: Final = 60.0
"""Seconds that a proxy gets to start."""
_REQUEST_TIMEOUT_S: Final = 60.0
"""Seconds that it gets for a response: at the end of a session, recordings are written."""
_STOP_TIMEOUT_S: Final = 60.0
"""Seconds that it gets to write all recordings and end."""
_MAX_LOG_BYTES: Final = 4 * 1024
"""Bytes of the log's end in an error."""
_READ_BYTES: Final = 1024 * 1024


class Response(msgspec.Struct, frozen=True):
    """A response of the proxy: its status, and its document as JSON."""

    id: int
    """The id of the request."""
    status: int
    document: msgspec.Raw


class Connection(Protocol):
    """A running proxy.  Its methods may be called from any thread, one call at a time."""

    def start(self, start: ServerStart) -> ReadyDocument:
        """Start the proxy.  Raises `UsageError` if it cannot run."""

    def request(self, method: str, path: str, body: Any) -> Response:
        """Send a request.  Raises `LlmProxyError` if the proxy does not respond."""

    def stop(self) -> None:
        """Stop the proxy; all recordings are written then."""


class ChildProcess:
    """A proxy in a child process, which ends when this process does."""

    def __init__(self, folder: Path, log: IO[bytes] | None) -> None:
        """`folder` is its working folder; `log` is the file for its log, None for stderr."""
        self._folder = folder
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._request_ids = itertools.count(1)
        self._owner_pid = os.getpid()
        """The process that starts the proxy; one that is forked from it must not stop the proxy."""
        self._buffer = bytearray()

    def start(self, start: ServerStart) -> ReadyDocument:
        """Start the process.  Raises `UsageError`."""
        # -P: a file in the working folder must not replace a module of the proxy.
        # In its own session: Ctrl-C stops this process first, which then stops the proxy.
        self._owner_pid = os.getpid()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                cwd=self._folder,
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(
                f"cannot start llm-proxy in {self._folder}: {error.strerror}"
            ) from None
        with ExitStack() as stack:
            stack.callback(self.stop)  # after an error, and after Ctrl-C
            self._write_line(start)
            ready = msgspec.json.decode(self._read_line(_START_TIMEOUT_S), type=ReadyDocument)
            if ready.error:
                raise UsageError(ready.error)
            stack.pop_all()
        return ready

    def request(self, method: str, path: str, body: Any) -> Response:
        """Send a request to the process."""
        request_id = next(self._request_ids)
        self._write_line({"id": request_id, "method": method, "path": path, "body": body})
        while True:
            line = self._read_line(_REQUEST_TIMEOUT_S)
            response = msgspec.json.decode(line, type=Response)
            if response.id == request_id:
                return response
            # An exception, such as that of Ctrl-C, has interrupted an earlier request.

    def stop(self) -> None:
        """Close the pipe, and wait until the process has ended."""
        process, self._process = self._process, None
        if process is None or os.getpid() != self._owner_pid:
            return
        assert process.stdin is not None  # noqa: S101 # it is a pipe
        assert process.stdout is not None  # noqa: S101 # it is a pipe
        with suppress(BrokenPipeError):  # it has ended already
            # Closing is not enough: a process that was forked may have the pipe, too.
            process.stdin.write(msgspec.json.encode({"path": STOP_PATH}) + b"\n")
            process.stdin.close()
        try:
            # Not `wait`: its limit needs a clock, which a test may have frozen.
            while _wait_until_readable(process.stdout.fileno(), _STOP_TIMEOUT_S):
                if not os.read(process.stdout.fileno(), _READ_BYTES):
                    break
            else:
                process.kill()
        finally:
            process.stdout.close()
            process.wait()  # it has closed its pipe, or was killed

    def _write_line(self, document: Any) -> None:
        process = self._running_process()
        assert process.stdin is not None  # noqa: S101 # it is a pipe
        try:
            process.stdin.write(msgspec.json.encode(document) + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise self._ended_error() from None

    def _read_line(self, timeout_s: float) -> bytes:
        process = self._running_process()
        assert process.stdout is not None  # noqa: S101 # it is a pipe
        fd = process.stdout.fileno()
        while b"\n" not in self._buffer:
            if not _wait_until_readable(fd, timeout_s):
                raise LlmProxyError(f"llm-proxy did not respond within {timeout_s:g} s")
            received = os.read(fd, _READ_BYTES)
            if not received:
                raise self._ended_error()
            self._buffer += received
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer[:] = rest
        return line

    def _ended_error(self) -> LlmProxyError:
        log_end = ""
        if self._log is not None:
            size = os.fstat(self._log.fileno()).st_size
            tail = os.pread(self._log.fileno(), _MAX_LOG_BYTES, max(0, size - _MAX_LOG_BYTES))
            log_end = f"; its log ends with:\n{tail.decode('utf-8', 'replace')}" if tail else ""
        return LlmProxyError(f"the llm-proxy process has ended unexpectedly{log_end}")

    def _running_process(self) -> subprocess.Popen[bytes]:
        if self._process is None or os.getpid() != self._owner_pid:
            raise LlmProxyError("the proxy is not running in this process")
        return self._process


def _wait_until_readable(fd: int, timeout_s: float) -> bool:
    """Wait without a clock of Python, which a test may have frozen."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


class ServerThread:
    """A proxy in a thread of this process, which can call a function of it."""

    def __init__(self, respond: Callable[..., object] | None) -> None:
        """`respond` is the function that returns the replies of a mock; None without one."""
        self._respond = respond
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_event = asyncio.Event()
        """A new one for each start: an event belongs to one loop."""
        self._embedded: Any = None

    def start(self, start: ServerStart) -> ReadyDocument:
        """Start the thread.  Raises `UsageError`."""
        from llm_proxy.cli.embedded import run_server  # noqa: PLC0415 # with aiohttp

        ready_future: Future[ReadyDocument] = Future()
        stop_event = self._stop_event = asyncio.Event()

        async def serve(ready: ReadyDocument, embedded: Any) -> None:
            self._loop, self._embedded = asyncio.get_running_loop(), embedded
            ready_future.set_result(ready)
            await stop_event.wait()  # without a limit: until `stop`

        def run() -> None:
            error = LlmProxyError("llm-proxy could not start")
            try:
                asyncio.run(run_server(start, serve, self._respond))
            except LlmProxyError as raised:
                error = raised
            finally:
                if not ready_future.done():
                    ready_future.set_exception(error)

        self._thread = threading.Thread(target=run, name="llm-proxy", daemon=True)
        self._thread.start()
        return ready_future.result(_START_TIMEOUT_S)

    def request(self, method: str, path: str, body: Any) -> Response:
        """Send a request to the proxy in the thread."""
        if self._loop is None:
            raise LlmProxyError("the proxy is not running")
        response = self._embedded.respond(method, path, msgspec.json.encode(body))
        status, document = asyncio.run_coroutine_threadsafe(response, self._loop).result(
            _REQUEST_TIMEOUT_S
        )
        return Response(0, status, msgspec.Raw(msgspec.json.encode(document)))

    def stop(self) -> None:
        """Stop the proxy, and wait until its thread has ended."""
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(self._stop_event.set)
            self._thread.join(_STOP_TIMEOUT_S)
