"""Sends errors in the dialect's own error shape."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from llm_proxy.dialects import Dialect
from llm_proxy.errors import (
    CassetteError,
    CassetteTooNew,
    LlmProxyError,
    Miss,
    NotRepresentable,
    RequestRefused,
    RespondFunctionFailed,
    ScriptExhausted,
    UpstreamFailed,
)
from llm_proxy.exchange import ResponseHead
from llm_proxy.routing import ERROR_HEADER
from llm_proxy.shell.server.response_writer import ResponseWriter

_MISSED: Final = 424
"""No SDK retries it, and no client has a habit on it."""


async def send_error(wire: ResponseWriter, dialect: Dialect, error: LlmProxyError) -> None:
    """Answer with an error of our own.  Raises `ConnectionError` when the client has gone."""
    status, kind = _status_and_type(error)
    body = dialect.error_body(status, kind, _message_with_advice(error))
    headers: list[tuple[str, str]] = [
        ("Content-Type", "application/json"),
        (ERROR_HEADER, kind),
    ]
    if not isinstance(error, UpstreamFailed) or status == HTTPStatus.LOOP_DETECTED:
        # What an upstream failed at may be asked again, as without us.
        headers.append(("x-should-retry", "false"))
    await wire.send_response(
        ResponseHead(status, "llm-proxy", tuple(headers), "length", len(body)), body
    )


def _message_with_advice(error: LlmProxyError) -> str:
    if isinstance(error, CassetteError) and not isinstance(error, CassetteTooNew):
        return f"{error}. Delete it, or record it again with llm-proxy record."
    return str(error)


def _status_and_type(error: LlmProxyError) -> tuple[int, str]:
    match error:
        case Miss():
            return _MISSED, "cassette_not_found"
        case CassetteError():
            return _MISSED, "cassette_unusable"
        case UpstreamFailed(status=status):
            return status, "upstream_failed"
        case ScriptExhausted():
            return _MISSED, "script_exhausted"
        case NotRepresentable():
            return _MISSED, "cannot_say"
        case RespondFunctionFailed():
            return 500, "respond_failed"
        case RequestRefused(status=status):
            return status, "request_refused"
        case _:
            return 500, "llm_proxy_error"
