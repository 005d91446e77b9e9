"""A provider that encodes given turns in the dialect of each request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dialect_manners import ENCODE_CONTEXT
from llm_proxy.dialects import DialectResponse, dialect_of_request
from llm_proxy.dialects.base import Dialect
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.exchange import Headers, Request, head_lines
from llm_proxy.providers import provider_of_request
from stub_upstream import Connection, Script

Responder = Callable[[Dialect, Request, EncodeContext], DialectResponse]
"""Returns the response to a request in a dialect."""


def provider_script(
    respond: Responder, provider_name: str = "", *, answers_auxiliary: bool = True
) -> Script:
    """A script that responds to each request as `provider_name`, one write per message.

    Unless `answers_auxiliary` is false, it responds itself to requests that do not ask for turns.
    """

    async def script(connection: Connection) -> None:
        request = parse_request(connection)
        dialect = dialect_of_request(request)
        context = replace(ENCODE_CONTEXT, provider=provider_name or provider_of_request(request))
        response = dialect.auxiliary_response(request, context) if answers_auxiliary else None
        await write_response(connection, response or respond(dialect, request, context))

    return script


def parse_request(connection: Connection) -> Request:
    """Parse the current request of a connection."""
    request_line, *lines = connection.head.decode("latin-1").split("\r\n")
    method, target, _ = request_line.split(" ")
    path, _, query = target.partition("?")
    pairs = (line.partition(":") for line in lines if line)
    headers: Headers = tuple((name, value.strip()) for name, _, value in pairs)
    return Request(method, path, query, headers, connection.body)


async def write_response(connection: Connection, response: DialectResponse) -> None:
    """Write a response."""
    lines = head_lines(response.head)
    length = response.head.content_length
    lines.append("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")
    await connection.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
    for message in response.framed_messages:
        await (connection.chunk if length is None else connection.send)(message)
    if length is None:
        await connection.finish()
