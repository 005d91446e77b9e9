"""Amazon Bedrock's errors and headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.wire import with_default_error_message
from llm_proxy.exchange import Headers
from llm_proxy.turns import Failure

ERROR_TYPE_HEADER: Final = "x-amzn-ErrorType"
"""The header of an HTTP error's type."""

_DEFAULTS_BY_STATUS: Final[Mapping[int, tuple[str, str]]] = {
    400: ("ValidationException", "The request is not valid."),
    401: ("UnrecognizedClientException", "The security token in the request is invalid."),
    403: ("AccessDeniedException", "You don't have access to the model."),
    404: ("ResourceNotFoundException", "The model was not found."),
    408: ("ModelTimeoutException", "The model took too long."),
    424: ("ModelErrorException", "The model failed."),
    429: ("ThrottlingException", "Too many requests, please wait before trying again."),
    500: ("InternalServerException", "The service failed."),
    503: ("ServiceUnavailableException", "The service is not available."),
}  # fmt: skip
"""Default type and message by status."""

_STATUS_OF_OTHER_TYPES: Final[Mapping[str, int]] = {
    "ServiceQuotaExceededException": 400,
    "UnrecognizedClientException": 403,
    "ExpiredTokenException": 403,
    "ModelStreamErrorException": 424,
    "ModelNotReadyException": 429,
}
"""The status of types that share it with another."""

_STATUS_BY_TYPE: Final = {
    **{name: status for status, (name, _) in _DEFAULTS_BY_STATUS.items()},
    **_STATUS_OF_OTHER_TYPES,
}

_MODEL_STREAM_ERROR: Final = "modelStreamErrorException"
"""The type that may hold the model's own status, and the default for unknown types."""

CONVERSE_EXCEPTIONS: Final = frozenset(
    (
        _MODEL_STREAM_ERROR,
        "internalServerException",
        "serviceUnavailableException",
        "throttlingException",
        "validationException",
    )
)
"""The exceptions of ConverseStream: clients drop the message of any other type."""

INVOKE_EXCEPTIONS: Final = CONVERSE_EXCEPTIONS | {"modelTimeoutException"}
"""The exceptions of InvokeModelWithResponseStream."""

_TYPE_PATTERN: Final = re.compile(r"[\w.-]+", re.ASCII)
_STATUS_PATTERN: Final = re.compile("[1-9][0-9]{0,8}")


def error_response(
    status: int, failure: Failure, context: EncodeContext, retry_after: float | None = None
) -> DialectResponse:
    """An HTTP error; `retry_after` is in s."""
    failure_with_defaults = _with_status_defaults(status, failure)
    headers = (
        *common_response_headers(context),
        (ERROR_TYPE_HEADER, failure_with_defaults.type),
        *_retry_headers(retry_after),
    )
    return response_encoding.json_response(
        {"message": failure_with_defaults.message}, headers, status
    )


def error_response_of_failure(failure: Failure, context: EncodeContext) -> DialectResponse:
    """The HTTP error in place of a response; the status is by its type."""
    return error_response(_status_of_type(failure), failure, context)


def with_known_error_type(failure: Failure) -> Failure:
    """The failure for an HTTP error: an unknown type becomes the default of its status."""
    if failure.type in _STATUS_BY_TYPE:
        return _with_status_defaults(_status_of_type(failure), replace(failure, code=""))
    return _with_status_defaults(
        _status_of_type(failure), Failure(failure.message or failure.type or failure.code)
    )


def with_stream_error_type(failure: Failure, known: frozenset[str]) -> Failure:
    """The failure for a stream; an unknown type becomes `modelStreamErrorException`."""
    camel_case_type = failure.type[:1].lower() + failure.type[1:]
    kind = camel_case_type if camel_case_type in known else _MODEL_STREAM_ERROR
    has_status = kind == _MODEL_STREAM_ERROR and _STATUS_PATTERN.fullmatch(failure.code)
    return Failure(
        with_default_error_message(failure).message, kind, failure.code if has_status else ""
    )


def common_response_headers(context: EncodeContext) -> Headers:
    """The headers of every response: the request id."""
    return (("x-amzn-RequestId", context.fake_uuid("request")),)


def _with_status_defaults(status: int, failure: Failure) -> Failure:
    """The failure without code; an empty message or invalid type defaults to the status's."""
    kind, message = _DEFAULTS_BY_STATUS.get(
        status, _DEFAULTS_BY_STATUS[400 if status < 500 else 500]
    )
    error_type = failure.type if _TYPE_PATTERN.fullmatch(failure.type) else kind
    return Failure(failure.message or message, error_type)


def _retry_headers(delay_s: float | None) -> Headers:
    """The retry delay, in s and in ms."""
    if delay_s is None:
        return ()
    return (("retry-after", str(ceil(delay_s))), ("x-amz-retry-after", f"{delay_s * 1000:.0f}"))


def _status_of_type(failure: Failure) -> int:
    return _STATUS_BY_TYPE.get(failure.type, 500)
