"""The sockets on which clients connect: open, except while a fault has them closed."""

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
from llm_proxy.faults.engine import Injector, Standing
from llm_proxy.faults.kinds.refuse import Refuse
from llm_proxy.shell.server.fault_middleware import Injecting

log: Final = logging.getLogger("llm_proxy")

BACKLOG: Final = 1024
_AGAIN: Final = 1000.0
"""ms until we try again to listen on a port that another program has taken meanwhile."""
_SHOWN: Final = 200
"""Characters of a rule in the log."""


class Doors:
    """Closes what a runner listens on in the windows of `refuse`, and opens it again behind them.

    Meanwhile each port is held by a socket that does not listen: connecting to it is refused, and
    no other program gets it.
    """

    def __init__(self, runner: web.ServerRunner, injecting: Injecting) -> None:
        self._runner = runner
        self._injecting = injecting
        self._addresses: list[Any] = list(runner.addresses)
        self._held: list[socket.socket] = []
        self._is_open = True
        self._following: asyncio.Task[None] | None = None

    async def follow(self) -> None:
        """Do what the rules say now, and go on doing so until `stop`."""
        await self._settle()
        self._following = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Listen no more."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
        for site in self._runner.sites:
            await site.stop()
        self._let_go()

    async def _follow(self) -> None:
        changed = self._injecting.changed
        while True:
            left = self._left()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if left is None else left / 1000):
                    await changed.wait()
            changed.clear()
            await self._settle()

    async def _settle(self) -> None:
        """Open or close, as the rules say for this moment."""
        now = self._injecting.now()
        closing = [it for it in _closures(self._injecting.injector) if it[0] <= now < it[1]]
        if closing and self._is_open:
            _, end, standing = max(closing, key=lambda it: it[1])
            what = printable(standing.rule.text, _SHOWN)
            log.info("the listener is closed for %.3g s: fault %s", (end - now) / 1000, what)
            await self._close()
        elif not closing and not self._is_open:
            await self._open()

    def _left(self) -> float | None:
        """ms until there is something to do; None where that is never."""
        now = self._injecting.now()
        closures = list(_closures(self._injecting.injector))
        edges = [edge - now for begin, end, _ in closures for edge in (begin, end) if edge > now]
        if not self._is_open and not any(begin <= now < end for begin, end, _ in closures):
            edges.append(_AGAIN)
        return min(edges, default=None)

    async def _close(self) -> None:
        self._is_open = False
        for site in self._runner.sites:
            await site.stop()
        await asyncio.sleep(0)  # some event loops close a socket in their next turn
        with suppress(
            OSError
        ):  # taken by another program: then it is tried again behind the window
            self._held = _bound(self._addresses)

    async def _open(self) -> None:
        try:
            self._held = self._held or _bound(self._addresses)
            for sock in self._held:
                await web.SockSite(self._runner, sock, backlog=BACKLOG).start()
        except OSError as error:
            for site in self._runner.sites:
                await site.stop()
            self._let_go()
            why = os.strerror(error.errno) if error.errno else str(error)
            log.warning("the listener cannot be opened again (%s); trying on", why)
            return
        self._held = []
        self._is_open = True
        log.info("the listener is open again")

    def _let_go(self) -> None:
        for sock in self._held:
            sock.close()
        self._held = []


def _closures(injector: Injector) -> Iterator[tuple[float, float, Standing]]:
    """When the listener is to be closed, in ms since the run began, and by which rule."""
    for standing in (*injector.given, *injector.added):
        if isinstance(standing.rule.fault, Refuse):
            begin, end = standing.rule.fault.window
            yield standing.since + begin, standing.since + end, standing


def _bound(addresses: list[Any]) -> list[socket.socket]:
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
