"""A provider that says what it is told to, in the words of whichever dialect it is asked in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dialect_manners import DELIVERY
from llm_proxy import http_heads
from llm_proxy.dialects import DialectResponse, find_dialect
from llm_proxy.dialects.base import Dialect
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.exchange import Headers, Request
from llm_proxy.providers import provider_of_request
from stub_upstream import Connection, Script

Answer = Callable[[Dialect, Request, EncodeContext], DialectResponse]
"""What is answered to a request in this dialect."""


def provider(answer: Answer, name: str = "", *, side: bool = True) -> Script:
    """A script that answers each request, a message a write; `name` is who speaks.

    What is asked beside turns it answers itself, unless `side` says not to.
    """

    async def script(connection: Connection) -> None:
        request = asked(connection)
        dialect = find_dialect(request)
        delivery = replace(DELIVERY, provider=name or provider_of_request(request))
        response = dialect.auxiliary_response(request, delivery) if side else None
        await perform(connection, response or answer(dialect, request, delivery))

    return script


def asked(connection: Connection) -> Request:
    """The request that a connection is answered."""
    first, *lines = connection.head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    path, _, query = target.partition("?")
    pairs = (line.partition(":") for line in lines if line)
    headers: Headers = tuple((name, value.strip()) for name, _, value in pairs)
    return Request(method, path, query, headers, connection.body)


async def perform(connection: Connection, response: DialectResponse) -> None:
    """Write a response."""
    lines = http_heads.head_lines(response.head)
    length = response.head.length
    lines.append("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")
    await connection.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
    for message in response.messages:
        await (connection.chunk if length is None else connection.send)(message)
    if length is None:
        await connection.finish()
