"""What Google's APIs share: stream messages, and errors.

An error has a canonical status in addition to the HTTP one, and details, which hold the retry
delay; there are no headers for it or for rate limits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeGuard

import orjson

from llm_proxy.dialects import json_api, response_encoding, wire
from llm_proxy.dialects.base import Dialect, DialectResponse, MetadataNames
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_text,
    object_fields,
    one_or_more_objects,
    parse_json,
    parse_object,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import Errors
from llm_proxy.framing import CODECS, MAX_MESSAGE_BYTES
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import Failure, Json, Reasoning, TokenCounting

_NOT_FOUND_MESSAGE: Final = (
    "is not found for API version v1beta, or is not supported for generateContent. "
    "Call ModelService.ListModels to see the list of available models and their supported methods."
)
_DEFAULT_ERRORS: Final = {
    400: Failure("Request contains an invalid argument.", "INVALID_ARGUMENT"),
    401: Failure("Request had invalid authentication credentials.", "UNAUTHENTICATED"),
    403: Failure(
        "Method doesn't allow unregistered callers (callers without established identity). "
        "Please use API Key or other form of API consumer identity to call this API.",
        "PERMISSION_DENIED",
    ),
    404: Failure(f"The model {_NOT_FOUND_MESSAGE}", "NOT_FOUND"),
    409: Failure("The operation was aborted.", "ABORTED"),
    429: Failure(
        "You exceeded your current quota, please check your plan and billing details.",
        "RESOURCE_EXHAUSTED",
    ),
    499: Failure("The operation was cancelled.", "CANCELLED"),
    500: Failure(
        "An internal error has occurred. Please retry or report in "
        "https://developers.generativeai.google/guide/troubleshooting",
        "INTERNAL",
    ),
    501: Failure("The method is not implemented.", "UNIMPLEMENTED"),
    503: Failure("The model is overloaded. Please try again later.", "UNAVAILABLE"),
    504: Failure("The request timed out. Please try again.", "DEADLINE_EXCEEDED"),
}
"""Message and canonical status, which is the type of a failure, by HTTP status."""
_ERRORS: Final = Errors(
    _DEFAULT_ERRORS, {error.type: status for status, error in _DEFAULT_ERRORS.items()}
)
_SIGNATURE: Final = re.compile("[A-Za-z0-9+/_-]+={0,2}")
_RPC_TYPE_PREFIX: Final = "type.googleapis.com/google.rpc."


class GoogleDialect(Dialect):
    """A dialect with Google's errors."""

    metadata_names = MetadataNames(
        ("google", "gemini", "vertex"), "google", "thoughtSignature", has_base64_signatures=True
    )
    token_counting = TokenCounting(reasoning_is_output=False)
    errors = _ERRORS

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """Google's error format; every client prints its message and status."""
        return orjson.dumps(error_document(Failure(message, kind), status))

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """Google's error format, with quota (for 429) and retry delay as details."""
        body = error_document(failure, status)
        details: list[Document] = []
        if status == 429:
            violation = {
                "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
                "quotaId": "GenerateContentRequestsPerMinutePerProject",
            }
            limits = context.account_limits
            if limits is not None and limits.request_window is not None:
                violation["quotaValue"] = str(limits.request_window.limit)
            details.append({"@type": f"{_RPC_TYPE_PREFIX}QuotaFailure", "violations": [violation]})
        if retry_after is not None:
            delay = f"{retry_after:.9f}".rstrip("0").rstrip(".") + "s"
            details.append({"@type": f"{_RPC_TYPE_PREFIX}RetryInfo", "retryDelay": delay})
        if details:
            body["error"]["details"] = details
        return response_encoding.json_response(body, status=status)


def model_not_found(name: str) -> Failure:
    """The failure (404) for an unknown model."""
    return Failure(f"models/{name} {_NOT_FOUND_MESSAGE}")


def error_document(failure: Failure, status: int | None = None) -> Document:
    """The JSON body of an error; by default with the HTTP status of the failure.

    A code that is no HTTP status is the message where that is missing: no field has it.
    """
    status = _ERRORS.status(failure) if status is None else status
    code = "" if wire.http_status_code(failure) else failure.code
    error = _ERRORS.with_defaults(replace(failure, message=failure.message or code), status)
    return {"error": {"code": status, "message": error.message, "status": error.type}}


def decode_failure(error: Json) -> Failure:
    """The failure in one of Google's errors; its type is the canonical status."""
    failure = json_api.decode_failure(error)
    return replace(
        failure,
        type=get_text(object_fields(error), "status") or failure.type,
    )


def decode_http_error(response: DialectResponse) -> Failure:
    """The failure of an HTTP error; for a streaming request it may be in an array."""
    errors = (document.get("error") for document in parse_json_objects(response.body))
    error = next((value for value in errors if value and value is not True), None)
    return decode_failure(error) if error else json_api.decode_http_error(response)


def rejoin_split_stream_messages(response: DialectResponse) -> Sequence[bytes]:
    """The messages, where those that framing cut at `MAX_MESSAGE_BYTES` are whole again.

    An inline image is one event, which may exceed the limit.
    """
    if all(len(message) < MAX_MESSAGE_BYTES for message in response.framed_messages):
        return response.framed_messages
    body = response.body
    codec = CODECS[response.codec_name](len(body) + 1)
    return [*codec.feed(body), *codec.close()]


def parse_json_objects(body: bytes) -> list[Fields]:
    """The object of a body, or the objects of its array; none where it is not JSON."""
    try:
        return one_or_more_objects(parse_json(body))
    except ValueError:
        return []


def decode_event(message: bytes) -> Fields:
    """The document of an event, or of an error that is sent between events without SSE framing."""
    data = parse_event(message).data
    return parse_object(message if data is None else data)


def is_signature(value: Json) -> TypeGuard[str]:
    """Whether it is base64: clients reject any other signature."""
    return isinstance(value, str) and bool(_SIGNATURE.fullmatch(value))


def sendable_reasoning(reasoning: Reasoning) -> Reasoning | None:
    """The text of reasoning, and its signature where clients accept that; None without both."""
    signature = reasoning.signature if is_signature(reasoning.signature) else None
    return Reasoning(reasoning.text, signature) if reasoning.text or signature else None
