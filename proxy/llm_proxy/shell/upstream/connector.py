"""Selects the connection for an upstream request: a new one, or an idle one without surplus."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp import hdrs
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from multidict import CIMultiDict

from llm_proxy.shell.upstream.connection import UnexpectedBytes, UpstreamProtocol

REUSED: Final[ContextVar[UpstreamProtocol | None]] = ContextVar("REUSED", default=None)
"""The connection that this task was given last, if it had served before.  (A trace of aiohttp's
would tell as well, and cost each request as much time as all the rest that we do with it.)"""

_OUR_VIA: Final = re.compile(r"1\.1 llm-proxy-[0-9a-f]{16}")


class CheckedConnector(aiohttp.TCPConnector):
    """Makes connections with a memory, and as many as are asked for."""

    def __init__(self, *, keep_alive: bool, identity: str, doubt: Callable[[str], None]) -> None:
        """`identity` is what this process calls itself in `Via`, where that may come back.

        `doubt` learns why answers on one connection may be each other's.
        """
        super().__init__(limit=0, force_close=not keep_alive)
        self._identity = identity
        make: Callable[..., ResponseHandler] = UpstreamProtocol
        self._factory = partial(make, self._loop, doubt)

    @property
    def has_multiple_responses(self) -> bool:
        """Whether a connection that is idle has brought more than one answer."""
        return any(receiver.answers > 1 for receiver in self._idle_connections())

    def check_idle(self) -> None:
        """See whether anything waits to be read on the connections that are idle."""
        for receiver in self._idle_connections():
            if waiting := receiver.peek_waiting():
                receiver.data_received(waiting)

    def _idle_connections(self) -> list[UpstreamProtocol]:
        kept = [receiver for same in self._conns.values() for receiver, _ in same]
        return [
            response_handler
            for response_handler in kept
            if isinstance(response_handler, UpstreamProtocol)
        ]

    async def connect(self, req: aiohttp.ClientRequest, *args: Any, **more: Any) -> Connection:
        """A connection for a request, new or kept, with nothing to read; aiohttp calls this.

        Raises `UnexpectedBytes` where the upstream speaks first on a new one.
        """
        while True:
            connection = await super().connect(req, *args, **more)
            receiver = connection.protocol
            assert isinstance(receiver, UpstreamProtocol)  # noqa: S101 # we make no other
            if (waiting := receiver.peek_waiting()) is None:
                REUSED.set(receiver if receiver.has_served else None)
                is_here = req.proxy is None and receiver.is_local_upstream()
                _append_via(req.headers, self._identity if is_here else "")
                return connection
            if waiting:
                receiver.data_received(waiting)
            connection.close()
            if not receiver.has_served:
                raise UnexpectedBytes if waiting else aiohttp.ServerDisconnectedError


def _append_via(headers: CIMultiDict[str], identity: str) -> None:
    """Add `identity` to those that a request came through; none of ours leave this machine."""
    if identity:
        headers.add(hdrs.VIA, f"1.1 {identity}")
    elif any(map(_OUR_VIA.fullmatch, passed := headers.getall(hdrs.VIA, []))):
        headers.popall(hdrs.VIA)
        headers.extend((hdrs.VIA, text) for text in passed if _OUR_VIA.fullmatch(text) is None)
