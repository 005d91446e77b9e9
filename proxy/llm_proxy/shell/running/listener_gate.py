"""Closes and reopens the listening sockets for the fault `refuse`."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from aiohttp import web

from llm_proxy.errors import printable
from llm_proxy.faults.engine import ActiveRule, FaultEngine
from llm_proxy.faults.kinds.refuse import RefuseConnections
from llm_proxy.shell.server.fault_middleware import FaultMiddleware

log: Final = logging.getLogger("llm_proxy")

BACKLOG: Final = 1024
_AGAIN: Final = 1000.0
"""ms until we try again to listen on a port that another program has taken meanwhile."""
_SHOWN: Final = 200
"""Characters of a rule in the log."""


class ListenerGate:
    """Closes what a runner listens on in the windows of `refuse`, and opens it again behind them.

    Meanwhile each port is held by a socket that does not listen: connecting to it is refused, and
    no other program gets it.
    """

    def __init__(self, runner: web.ServerRunner, injecting: FaultMiddleware) -> None:
        self._runner = runner
        self._fault_middleware = injecting
        self._addresses: list[Any] = list(runner.addresses)
        self._held_sockets: list[socket.socket] = []
        self._is_open = True
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Do what the rules say now, and go on doing so until `stop`."""
        await self._apply_rules()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for site in self._runner.sites:
            await site.stop()
        self._release_sockets()

    async def _run(self) -> None:
        changed = self._fault_middleware.rules_changed
        while True:
            left = self._ms_until_change()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if left is None else left / 1000):
                    await changed.wait()
            changed.clear()
            await self._apply_rules()

    async def _apply_rules(self) -> None:
        now = self._fault_middleware.now_ms()
        closing = [
            closure_window
            for closure_window in _closure_windows(self._fault_middleware.engine)
            if closure_window[0] <= now < closure_window[1]
        ]
        if closing and self._is_open:
            _, end, standing = max(closing, key=lambda values: values[1])
            label = printable(standing.rule.text, _SHOWN)
            log.info("the listener is closed for %.3g s: fault %s", (end - now) / 1000, label)
            await self._close_listener()
        elif not closing and not self._is_open:
            await self._open_listener()

    def _ms_until_change(self) -> float | None:
        """ms until there is something to do; None where that is never."""
        now = self._fault_middleware.now_ms()
        closures = list(_closure_windows(self._fault_middleware.engine))
        edges = [edge - now for begin, end, _ in closures for edge in (begin, end) if edge > now]
        if not self._is_open and not any(begin <= now < end for begin, end, _ in closures):
            edges.append(_AGAIN)
        return min(edges, default=None)

    async def _close_listener(self) -> None:
        self._is_open = False
        for site in self._runner.sites:
            await site.stop()
        await asyncio.sleep(0)  # some event loops close a socket in their next turn
        with suppress(
            OSError
        ):  # taken by another program: then it is tried again behind the window
            self._held_sockets = _bind_sockets(self._addresses)

    async def _open_listener(self) -> None:
        try:
            self._held_sockets = self._held_sockets or _bind_sockets(self._addresses)
            for sock in self._held_sockets:
                await web.SockSite(self._runner, sock, backlog=BACKLOG).start()
        except OSError as error:
            for site in self._runner.sites:
                await site.stop()
            self._release_sockets()
            why = os.strerror(error.errno) if error.errno else str(error)
            log.warning("the listener cannot be opened again (%s); trying on", why)
            return
        self._held_sockets = []
        self._is_open = True
        log.info("the listener is open again")

    def _release_sockets(self) -> None:
        for sock in self._held_sockets:
            sock.close()
        self._held_sockets = []


def _closure_windows(injector: FaultEngine) -> Iterator[tuple[float, float, ActiveRule]]:
    """When the listener is to be closed, in ms since the run began, and by which rule."""
    for standing in (*injector.startup_rules, *injector.runtime_rules):
        if isinstance(standing.rule.fault, RefuseConnections):
            begin, end = standing.rule.fault.window
            yield standing.active_since + begin, standing.active_since + end, standing


def _bind_sockets(addresses: list[Any]) -> list[socket.socket]:
    """Sockets that have these addresses, and do not listen.  Raises `OSError`."""
    sockets: list[socket.socket] = []
    try:
        for address in addresses:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(sock)
            if os.name == "posix":  # elsewhere it would let another program in
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets
