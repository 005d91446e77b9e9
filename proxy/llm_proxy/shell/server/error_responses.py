"""Answers that say what went wrong, in the dialect's own error shape."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from llm_proxy.dialects import Dialect
from llm_proxy.errors import (
    CannotSay,
    CassetteError,
    CassetteTooNew,
    LlmProxyError,
    Miss,
    RequestRefused,
    RespondFailed,
    ScriptExhausted,
    UpstreamFailed,
)
from llm_proxy.exchange import Head
from llm_proxy.routing import ERROR_HEADER
from llm_proxy.shell.server.response_writer import Wire

_MISSED: Final = 424
"""No SDK retries it, and no client has a habit on it."""


async def fail(wire: Wire, dialect: Dialect, error: LlmProxyError) -> None:
    """Answer with an error of our own.  Raises `ConnectionError` when the client has gone."""
    status, kind = _as_http(error)
    body = dialect.error(status, kind, _advised(error))
    headers: list[tuple[str, str]] = [
        ("Content-Type", "application/json"),
        (ERROR_HEADER, kind),
    ]
    if not isinstance(error, UpstreamFailed) or status == HTTPStatus.LOOP_DETECTED:
        # What an upstream failed at may be asked again, as without us.
        headers.append(("x-should-retry", "false"))
    await wire.whole(Head(status, "llm-proxy", tuple(headers), "length", len(body)), body)


def _advised(error: LlmProxyError) -> str:
    """What an error says, with what to do about it."""
    if isinstance(error, CassetteError) and not isinstance(error, CassetteTooNew):
        return f"{error}. Delete it, or record it again with llm-proxy record."
    return str(error)


def _as_http(error: LlmProxyError) -> tuple[int, str]:
    """The status and the error type that an error is answered with."""
    match error:
        case Miss():
            return _MISSED, "cassette_not_found"
        case CassetteError():
            return _MISSED, "cassette_unusable"
        case UpstreamFailed(status=status):
            return status, "upstream_failed"
        case ScriptExhausted():
            return _MISSED, "script_exhausted"
        case CannotSay():
            return _MISSED, "cannot_say"
        case RespondFailed():
            return 500, "respond_failed"
        case RequestRefused(status=status):
            return status, "request_refused"
        case _:
            return 500, "llm_proxy_error"
