"""Renders failures: error status and body, silence, reset, invalid JSON.

None of them is kept by a pace: what a client is told to wait, it is told as it was written.
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
from llm_proxy.turns import Failure, Finish, Json, Text, Turn

_BEGUN: Final = Turn((Text("The"),), finish=Finish.STOP)
"""What a stream begins with that is broken off."""
_STATUS: Final = ("status", "statusCode")
"""Fields of an error that stand for its HTTP status, where they are one; the first wins."""
_STATUSES: Final = range(400, 600)
_MESSAGE: Final = "message"
_NEVER_AGAIN: Final = ("x-should-retry", "false")
"""The header by which SDKs do not ask again."""


@dataclass(frozen=True, slots=True)
class FailureLimits:
    """What ends a failure that a client does not end."""

    silence_ms: float = 660_000.0
    """The longest silence of a `timeout`, in ms: a minute more than the SDKs of OpenAI and
    Anthropic wait unless they are told otherwise."""


def failure_actions(
    fail: FailResponse, decoded_request: DecodedRequest, limits: FailureLimits
) -> Burst:
    """The actions of this failure.

    Raises `NotRepresentable` where an answer would have to begin that the dialect has no words for.
    """
    match fail.status:
        case "timeout":
            return (Wait(limits.silence_ms), Abort("fin"))
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
    """A connection that is lost where no SDK asks again: amid a stream; else a gateway's error."""
    response = _initial_stream_messages(decoded_request)
    if response.codec == "whole":
        return _http_error_actions(502, fail, decoded_request)
    return (Begin(response.head), Send(response.messages[0]), Abort("rst"))


def _invalid_json_actions(decoded_request: DecodedRequest) -> Burst:
    response = _initial_stream_messages(decoded_request)
    body = truncate_json(response.codec, response.messages[0])
    return (Begin(_with_content_length(response.head, body)), Send(body))


def _initial_stream_messages(decoded_request: DecodedRequest) -> DialectResponse:
    return decoded_request.dialect.encode(
        decoded_request.request, (_BEGUN,), decoded_request.context
    )


def _rate_limit_actions(fail: FailResponse, decoded_request: DecodedRequest) -> Burst:
    """The one failure that says when to ask again, and never that nobody should."""
    ms = fail.retry_after_ms
    response = _dialect_error_response(
        429, fail, decoded_request, None if ms is None else ms / 1000
    )
    return _whole_response_actions(retry_delay.with_retry_headers(response, ms))


def _http_error_actions(status: int, fail: FailResponse, decoded_request: DecodedRequest) -> Burst:
    """An HTTP error, which says where it must not be asked again."""
    response = _dialect_error_response(status, fail, decoded_request)
    if not fail.retryable:
        head = response.head
        response = replace(response, head=replace(head, headers=(*head.headers, _NEVER_AGAIN)))
    return _whole_response_actions(response)


def _dialect_error_response(
    status: int,
    fail: FailResponse,
    decoded_request: DecodedRequest,
    retry_after: float | None = None,
) -> DialectResponse:
    """The dialect's error with the fields that its author gave it; `retry_after` is in s."""
    document = dict(fail.error or {})
    message = lenient_json.str_or_empty(document.get(_MESSAGE)) or fail.message
    statuses = [it for name in _STATUS if (it := _error_status(document.get(name))) is not None]
    placed = {
        _MESSAGE,
        *(name for name in _STATUS if _error_status(document.get(name)) is not None),
    }
    fields = {name: value for name, value in document.items() if name not in placed}
    failure = Failure(message, type=lenient_json.str_or_empty(document.get("type")))
    number = next(iter(statuses), status)
    response = decoded_request.dialect.error_response(
        number, failure, decoded_request.context, retry_after
    )
    return _with_error_fields(response, fields) if fields else response


def _error_status(value: Json) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in _STATUSES:
        return None
    return int(value)


def _with_error_fields(response: DialectResponse, fields: Mapping[str, Json]) -> DialectResponse:
    """The error with these fields in its object: that of its `error`, else the document."""
    document = response_encoding.Document(lenient_json.parse_object(b"".join(response.messages)))
    value = document.get("error")
    (value if isinstance(value, dict) else document).update(fields)
    body = response_encoding.json_line(document)
    return replace(response, head=_with_content_length(response.head, body), messages=(body,))


def _with_content_length(head: ResponseHead, body: bytes) -> ResponseHead:
    """The head of this body, where it declares a length."""
    return replace(head, length=len(body)) if head.framing == "length" else head


def _whole_response_actions(response: DialectResponse) -> Burst:
    return (Begin(response.head), *map(Send, response.messages))
