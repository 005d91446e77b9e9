"""Serves the tools of a test over MCP, in two threads.

The tools have the event loop of the main thread, and MCP has one in another thread: a tool that
blocks its loop keeps neither the end of the client nor a signal from ending the server.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NoReturn, TextIO

import msgspec
from anyio import wrap_file
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from llm_proxy.turns import Json
from llm_proxy.version import __version__
from llm_pytest.evidence import ToolCallRecord
from llm_pytest.server_events import CLEANUP_LIMIT_S, END_SIGNALS, SERVER_NAME
from llm_pytest.toolset import ToolSet

_EXIT_LIMIT_S: Final = CLEANUP_LIMIT_S + 0.5
"""After that the process ends, whatever still runs in it."""


class ToolServer:
    """Serves tools until the client closes stdin, or a signal arrives; then the tools clean up."""

    def __init__(self, toolset: ToolSet) -> None:
        self._toolset = toolset
        self._end = asyncio.Event()
        self._order = asyncio.Lock()
        self._calls: set[asyncio.Task[Any]] = set()

    async def run(self, stdin: TextIO, stdout: TextIO) -> NoReturn:
        """Serve, and end the process."""
        self._streams = wrap_file(stdin), wrap_file(stdout)
        self._loop = asyncio.get_running_loop()
        for number in END_SIGNALS:
            # A handler of asyncio would not run while a tool blocks the loop.
            signal.signal(number, lambda *_: self._stop())
        threading.Thread(target=self._serve_mcp, name="llm-pytest MCP", daemon=True).start()
        await self._end.wait()
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLEANUP_LIMIT_S):
                await self._toolset.aclose()
        atexit._run_exitfuncs()  # noqa: SLF001 # a plugin's, too
        sys.stdout.flush()
        # Python's own end takes 0.2 s, and waits for threads: one of MCP still reads stdin.
        os._exit(0)

    def _stop(self) -> None:
        """End the server: within a limit, also if a tool blocks."""
        watchdog = threading.Timer(_EXIT_LIMIT_S, os._exit, (1,))
        watchdog.daemon = True
        watchdog.start()
        self._loop.call_soon_threadsafe(self._end.set)

    def _serve_mcp(self) -> None:
        try:
            asyncio.run(self._converse())
        finally:
            self._stop()

    async def _converse(self) -> None:
        """Serve MCP until the client closes stdin."""
        tools = [types.Tool.model_validate(each) for each in self._toolset.definitions()]

        async def list_tools(_: ServerRequestContext[Any], __: Any) -> types.ListToolsResult:
            return types.ListToolsResult(tools=tools)

        async def call_tool(
            _: ServerRequestContext[Any], params: types.CallToolRequestParams
        ) -> types.CallToolResult:
            call = self._call(params.name, params.arguments or {})
            record = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))
            text = msgspec.json.encode(record.result).decode()
            return types.CallToolResult(
                content=[types.TextContent(text=text)], is_error=record.is_error
            )

        server = Server(
            SERVER_NAME, version=__version__, on_list_tools=list_tools, on_call_tool=call_tool
        )
        async with stdio_server(*self._streams) as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())

    async def _call(self, name: str, arguments: Mapping[str, Json]) -> ToolCallRecord:
        """Call a tool, in the loop of the tools; calls that arrive together run one by one."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 # it is a task of that loop
        self._calls.add(task)
        try:
            async with self._order:
                return await self._toolset.call(name, arguments)
        finally:
            self._calls.discard(task)
