"""Selects the connection for an upstream request: new, or idle without surplus bytes."""

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

REUSED_CONNECTION: Final[ContextVar[UpstreamProtocol | None]] = ContextVar("REUSED", default=None)
"""The connection that this task got last, if it had served before; None otherwise.  (An aiohttp
trace would show that too, but would double the time that each request costs us.)"""

_OUR_VIA: Final = re.compile(r"1\.1 llm-proxy-[0-9a-f]{16}")


class CheckedConnector(aiohttp.TCPConnector):
    """Connector without a connection limit, whose connections are `UpstreamProtocol`s."""

    def __init__(
        self, *, keep_alive: bool, via_pseudonym: str, on_surplus_response: Callable[[str], None]
    ) -> None:
        """`via_pseudonym` names this process in `Via` headers to local upstreams.

        `on_surplus_response` is called with the reason why responses may be mixed up.
        """
        super().__init__(limit=0, force_close=not keep_alive)
        self._via_pseudonym = via_pseudonym
        protocol_factory: Callable[..., ResponseHandler] = UpstreamProtocol
        self._factory = partial(protocol_factory, self._loop, on_surplus_response)

    @property
    def has_multi_response_connection(self) -> bool:
        """Whether any idle connection has delivered more than one response."""
        return any(protocol.response_count > 1 for protocol in self._idle_connections())

    def close_idle_with_surplus(self) -> None:
        """Close each idle connection that has unread bytes."""
        for protocol in self._idle_connections():
            if surplus := protocol.peek_socket():
                protocol.data_received(surplus)

    def _idle_connections(self) -> list[UpstreamProtocol]:
        protocols = [
            protocol
            for host_connections in self._conns.values()
            for protocol, _ in host_connections
        ]
        return [protocol for protocol in protocols if isinstance(protocol, UpstreamProtocol)]

    async def connect(self, req: aiohttp.ClientRequest, *args: Any, **kwargs: Any) -> Connection:
        """A connection for a request, new or reused, with nothing to read; aiohttp calls this.

        Raises `UnexpectedBytes` if the upstream sends first on a new one.
        """
        while True:
            connection = await super().connect(req, *args, **kwargs)
            protocol = connection.protocol
            assert isinstance(protocol, UpstreamProtocol)  # noqa: S101 # we make no other
            if (surplus := protocol.peek_socket()) is None:
                REUSED_CONNECTION.set(protocol if protocol.has_served else None)
                is_local = req.proxy is None and protocol.is_local_upstream()
                _set_via(req.headers, self._via_pseudonym if is_local else "")
                return connection
            if surplus:
                protocol.data_received(surplus)
            connection.close()
            if not protocol.has_served:
                raise UnexpectedBytes if surplus else aiohttp.ServerDisconnectedError


def _set_via(headers: CIMultiDict[str], via_pseudonym: str) -> None:
    """Add `via_pseudonym` to `Via`; without one, remove every llm-proxy's.

    So no pseudonym of an llm-proxy leaves this machine.
    """
    if via_pseudonym:
        headers.add(hdrs.VIA, f"1.1 {via_pseudonym}")
    elif any(map(_OUR_VIA.fullmatch, via_values := headers.getall(hdrs.VIA, []))):
        headers.popall(hdrs.VIA)
        headers.extend((hdrs.VIA, text) for text in via_values if _OUR_VIA.fullmatch(text) is None)
