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

_MISS_STATUS: Final = 424
"""No SDK retries this status, and no client treats it specially."""


async def send_error(writer: ResponseWriter, dialect: Dialect, error: LlmProxyError) -> None:
    """Send `error` in the dialect's shape.  Raises `ConnectionError` if the client has gone."""
    status, error_type = _status_and_type(error)
    body = dialect.error_body(status, error_type, _message_with_advice(error))
    headers: list[tuple[str, str]] = [
        ("Content-Type", "application/json"),
        (ERROR_HEADER, error_type),
    ]
    if not isinstance(error, UpstreamFailed) or status == HTTPStatus.LOOP_DETECTED:
        # An upstream failure may be retried, as without the proxy.
        headers.append(("x-should-retry", "false"))
    await writer.send_response(
        ResponseHead(status, "llm-proxy", tuple(headers), "length", len(body)), body
    )


def _message_with_advice(error: LlmProxyError) -> str:
    if isinstance(error, CassetteError) and not isinstance(error, CassetteTooNew):
        return f"{error}. Delete it, or record it again with llm-proxy record."
    return str(error)


def _status_and_type(error: LlmProxyError) -> tuple[int, str]:
    match error:
        case Miss():
            return _MISS_STATUS, "cassette_not_found"
        case CassetteError():
            return _MISS_STATUS, "cassette_unusable"
        case UpstreamFailed(status=status):
            return status, "upstream_failed"
        case ScriptExhausted():
            return _MISS_STATUS, "script_exhausted"
        case NotRepresentable():
            return _MISS_STATUS, "cannot_say"
        case RespondFunctionFailed():
            return 500, "respond_failed"
        case RequestRefused(status=status):
            return status, "request_refused"
        case _:
            return 500, "llm_proxy_error"
