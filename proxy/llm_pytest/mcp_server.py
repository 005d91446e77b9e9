"""Serves the tools of a project over MCP, on stdin and stdout.

    python -m llm_pytest.mcp_server --project-root DIR

The server ends when its stdin ends, and at SIGTERM and SIGINT; before that, the tools clean up.
It cannot start if a plugin does not load: then it prints the reason to stderr, and its exit code is
2.  What plugins print goes to stderr, as stdout belongs to MCP.

A runner sets in the environment of the server:

    LLM_PYTEST_ALLOWED_HOSTS   hosts that the http_* tools may reach besides this machine, separated
                               by commas
    LLM_PYTEST_INSERTED        variables whose values the tools insert for {{ env.NAME }}, separated
                               by commas
    LLM_PYTEST_EVENTS_FILE     a file to which each `ServerEvent` is appended as a JSON line

Source: owner's document 003, "MCP Server Communication"; Model Context Protocol 2025-11-25.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import select
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn, TextIO

from llm_proxy.errors import LlmProxyError
from llm_pytest.errors import LLMTestError
from llm_pytest.extras import needs_extra
from llm_pytest.server_events import (
    ALLOWED_HOSTS_VARIABLE,
    END_SIGNALS,
    EVENTS_FILE_VARIABLE,
    INSERTED_VARIABLE,
    EventWriter,
    ServerEvent,
)

if TYPE_CHECKING:
    from llm_pytest.tool_server import ToolServer

_RUNNER_LIMIT_S: Final = 3.0
"""Seconds in which a runner ends a client that the server cannot serve."""


def main() -> None:
    """Serve the tools of a project."""
    parser = argparse.ArgumentParser(
        prog="python -m llm_pytest.mcp_server",
        description="Serve the tools of LLM tests over MCP, on stdin and stdout.",
    )
    parser.add_argument(
        "--project-root", type=Path, required=True, metavar="DIR", help="The project's folder."
    )
    root: Path = parser.parse_args().project_root
    # Clients kill a server soon after its end should begin, Claude Code after 0.5 s.  They know
    # only the first process; the tools are in another one, and have their time to clean up.
    child = os.fork()
    if child:
        _wait_for(child)
    _serve(root, os.environ)


def _wait_for(child: int) -> NoReturn:
    """Pass signals on to the process with the tools, and end with its exit code."""

    def pass_on(signal_number: int, _: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(child, signal_number)

    for number in END_SIGNALS:
        signal.signal(number, pass_on)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # the client sees the end of stdout when the other process ends
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _serve(root: Path, environ: Mapping[str, str]) -> None:
    for number in END_SIGNALS:
        signal.signal(number, signal.SIG_DFL)  # until there is something to clean up
    stdin, stdout = _take_streams()
    events_file = environ.get(EVENTS_FILE_VARIABLE)
    writer = EventWriter(Path(events_file)) if events_file else None
    try:
        server = _make_server(root, environ, writer.add if writer else lambda _: None)
    except Exception as error:  # also of the project's own plugins
        is_explained = isinstance(error, LlmProxyError)
        message = str(error) if is_explained else f"{type(error).__name__}: {error}"
        print(f"llm_pytest: error: {message}", file=sys.stderr, flush=True)  # noqa: T201 # a command
        if writer:
            writer.add(ServerEvent(failure=message))
            # The client would go on without tools: the runner ends it first.
            ended = select.poll()
            ended.register(stdin, 0)
            ended.poll(_RUNNER_LIMIT_S * 1000)
        sys.exit(2)
    asyncio.run(server.run(stdin, stdout))


def _make_server(
    root: Path, environ: Mapping[str, str], report: Callable[[ServerEvent], None]
) -> ToolServer:
    """The server with its tools.  Raises `LlmProxyError`, and what plugins raise."""
    # Modules of the project may have the names of libraries; its plugins find them later.
    original_path = sys.path
    project_folders = {Path.cwd(), root.resolve()}
    sys.path = [folder for folder in sys.path if Path(folder).resolve() not in project_folders]
    gc.disable()  # nothing that is imported is garbage; it takes a sixth of the time
    try:
        # A second of imports, which the other process does without.
        with needs_extra():
            from llm_pytest.secrets import Secrets  # noqa: PLC0415 # see above
            from llm_pytest.tool_server import ToolServer  # noqa: PLC0415 # see above
            from llm_pytest.toolset import make_toolset  # noqa: PLC0415 # see above
    finally:
        gc.enable()
        sys.path = original_path
    if not root.is_dir():
        raise LLMTestError(f"no such folder: {root}; set --project-root")
    os.chdir(root)  # Claude Code ignores `cwd` in the configuration of a server
    hosts = [host for host in environ.get(ALLOWED_HOSTS_VARIABLE, "").split(",") if host]
    toolset = make_toolset(
        Path.cwd(),
        hosts,
        lambda call: report(ServerEvent(call=call)),
        Secrets(environ.get(INSERTED_VARIABLE, "").split(","), environ),
    )
    report(ServerEvent(is_ready=True))
    return ToolServer(toolset)


def _take_streams() -> tuple[TextIO, TextIO]:
    """stdin and stdout, for MCP only: other code reads nothing, and prints to stderr."""
    stdin = os.fdopen(os.dup(0), encoding="utf-8", errors="replace")
    stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return stdin, stdout


if __name__ == "__main__":
    main()
