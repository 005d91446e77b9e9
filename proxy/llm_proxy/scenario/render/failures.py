"""Renders failures: error status and body, silence, reset, invalid JSON.

Paces do not apply to failures: a retry delay is sent exactly as the scenario gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.actions import Abort, Begin, Burst, Send, Wait
from llm_proxy.dialects import lenient_json, response_encoding, retry_delay
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.exchange import ResponseHead
from llm_proxy.framing.truncated_json import truncate_json
from llm_proxy.scenario.scripted_response import FailResponse
from llm_proxy.turns import Failure, FinishReason, Json, Text, Turn

_PARTIAL_TURN: Final = Turn((Text("The"),), finish=FinishReason.STOP)
"""Sent before a stream is aborted or truncated."""
_STATUS_FIELDS: Final = ("status", "statusCode")
"""Fields of an error that set the HTTP status if they hold one; the first wins."""
_ERROR_STATUSES: Final = range(400, 600)
_MESSAGE_FIELD: Final = "message"
_NO_RETRY_HEADER: Final = ("x-should-retry", "false")
"""The header that keeps SDKs from retrying."""


@dataclass(frozen=True, slots=True)
class FailureLimits:
    """Limits of failures that otherwise only the client would end."""

    max_silence_ms: float = 660_000.0
    """The silence of a `timeout` failure: one minute more than the default timeout of the OpenAI
    and Anthropic SDKs."""


def failure_actions(
    fail: FailResponse, decoded_request: DecodedRequest, limits: FailureLimits
) -> Burst:
    """The actions of a failure.

    Raises `NotRepresentable` if it starts with a response that the dialect cannot encode.
    """
    match fail.failure_status:
        case "timeout":
            return (Wait(limits.max_silence_ms), Abort("fin"))
        case "network_error" if fail.retryable:
            return (Abort("rst"),)
        case "network_error":
            return _connection_loss_actions(fail, decoded_request)
        case "invalid_response":
            return _invalid_json_actions(decoded_request)
        case "rate_limit":
            return _rate_limit_actions(fail, decoded_request)
        case "thrown":
            return _http_error_actions(500, fail, decoded_request)
        case "model_error":
            return _http_error_actions(500 if fail.retryable else 400, fail, decoded_request)


def _connection_loss_actions(fail: FailResponse, decoded_request: DecodedRequest) -> Burst:
    """A connection loss that no SDK retries: a reset within a stream; without a stream, a 502."""
    response = _partial_response(decoded_request)
    if response.codec_name == "whole":
        return _http_error_actions(502, fail, decoded_request)
    return (Begin(response.head), Send(response.framed_messages[0]), Abort("rst"))


def _invalid_json_actions(decoded_request: DecodedRequest) -> Burst:
    response = _partial_response(decoded_request)
    body = truncate_json(response.codec_name, response.framed_messages[0])
    return (Begin(_with_content_length(response.head, body)), Send(body))


def _partial_response(decoded_request: DecodedRequest) -> DialectResponse:
    return decoded_request.dialect.encode_response(
        decoded_request.request, (_PARTIAL_TURN,), decoded_request.context
    )


def _rate_limit_actions(fail: FailResponse, decoded_request: DecodedRequest) -> Burst:
    """A 429, the only failure with retry headers; it never forbids a retry."""
    retry_after_ms = fail.retry_after_ms
    response = _dialect_error_response(
        429, fail, decoded_request, None if retry_after_ms is None else retry_after_ms / 1000
    )
    return _whole_response_actions(retry_delay.with_retry_headers(response, retry_after_ms))


def _http_error_actions(status: int, fail: FailResponse, decoded_request: DecodedRequest) -> Burst:
    """An HTTP error, with a header against retries if it is not retryable."""
    response = _dialect_error_response(status, fail, decoded_request)
    if not fail.retryable:
        head = response.head
        response = replace(response, head=replace(head, headers=(*head.headers, _NO_RETRY_HEADER)))
    return _whole_response_actions(response)


def _dialect_error_response(
    status: int,
    fail: FailResponse,
    decoded_request: DecodedRequest,
    retry_after_s: float | None = None,
) -> DialectResponse:
    """The dialect's error response with the `error` fields of the scenario."""
    error_fields = dict(fail.error_fields or {})
    message = lenient_json.str_or_empty(error_fields.get(_MESSAGE_FIELD)) or fail.message
    statuses = [
        error_status
        for name in _STATUS_FIELDS
        if (error_status := _error_status(error_fields.get(name))) is not None
    ]
    consumed_names = {
        _MESSAGE_FIELD,
        *(name for name in _STATUS_FIELDS if _error_status(error_fields.get(name)) is not None),
    }
    extra_fields = {
        name: value for name, value in error_fields.items() if name not in consumed_names
    }
    failure = Failure(message, type=lenient_json.str_or_empty(error_fields.get("type")))
    http_status = next(iter(statuses), status)
    response = decoded_request.dialect.error_response(
        http_status, failure, decoded_request.context, retry_after_s
    )
    return _with_error_fields(response, extra_fields) if extra_fields else response


def _error_status(value: Json) -> int | None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or value not in _ERROR_STATUSES
    ):
        return None
    return int(value)


def _with_error_fields(response: DialectResponse, fields: Mapping[str, Json]) -> DialectResponse:
    """Add fields to the `error` object of a response, or to the document if it has none."""
    document = response_encoding.Document(
        lenient_json.parse_object(b"".join(response.framed_messages))
    )
    error = document.get("error")
    (error if isinstance(error, dict) else document).update(fields)
    body = response_encoding.single_line_json(document)
    return replace(
        response, head=_with_content_length(response.head, body), framed_messages=(body,)
    )


def _with_content_length(head: ResponseHead, body: bytes) -> ResponseHead:
    """The head with the length of this body, if it declares one."""
    return replace(head, content_length=len(body)) if head.framing == "length" else head


def _whole_response_actions(response: DialectResponse) -> Burst:
    return (Begin(response.head), *map(Send, response.framed_messages))
