"""Amazon Bedrock's errors and headers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import json_api, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.lenient_json import Fields, get_text, parse_object
from llm_proxy.dialects.wire import Errors, with_default_error_message
from llm_proxy.exchange import Headers, header_value
from llm_proxy.turns import Failure

_ERROR_TYPE_HEADER: Final = "x-amzn-ErrorType"
"""The header of an HTTP error's type."""

_DEFAULTS: Final = {
    400: Failure("The request is not valid.", "ValidationException"),
    401: Failure("The security token in the request is invalid.", "UnrecognizedClientException"),
    403: Failure("You don't have access to the model.", "AccessDeniedException"),
    404: Failure("The model was not found.", "ResourceNotFoundException"),
    408: Failure("The model took too long.", "ModelTimeoutException"),
    424: Failure("The model failed.", "ModelErrorException"),
    429: Failure("Too many requests, please wait before trying again.", "ThrottlingException"),
    500: Failure("The service failed.", "InternalServerException"),
    503: Failure("The service is not available.", "ServiceUnavailableException"),
}
_ERRORS: Final = Errors(
    _DEFAULTS,
    {default.type: status for status, default in _DEFAULTS.items()}
    | {
        "ServiceQuotaExceededException": 400,
        "UnrecognizedClientException": 403,
        "ExpiredTokenException": 403,
        "ModelStreamErrorException": 424,
        "ModelNotReadyException": 429,
    },
)
"""Type and message by status; the status by type, of further types that share theirs, too."""

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
    """An HTTP error; a type that no header can hold becomes that of the status.

    `retry_after` is in s.
    """
    error_type = failure.type if _TYPE_PATTERN.fullmatch(failure.type) else ""
    error = _ERRORS.with_defaults(Failure(failure.message, error_type), status)
    headers = (
        *common_response_headers(context),
        (_ERROR_TYPE_HEADER, error.type),
        *response_encoding.retry_headers(retry_after, ms_name="x-amz-retry-after"),
    )
    return response_encoding.json_response({"message": error.message}, headers, status)


def error_response_of_failure(failure: Failure, context: EncodeContext) -> DialectResponse:
    """The HTTP error in place of a response: of a known type, which has the status."""
    if failure.type not in _ERRORS.statuses:
        failure = Failure(failure.message or failure.type or failure.code)
    return error_response(_ERRORS.statuses.get(failure.type, 500), failure, context)


def decode_http_error(response: DialectResponse) -> Failure:
    """An HTTP error; its type is in a header, `ValidationException:http://...`, or in the body."""
    fields = parse_object(response.body)
    failure = json_api.decode_http_error(response)
    header = header_value(response.head.headers, _ERROR_TYPE_HEADER)
    error_type = header or get_text(fields, "__type")
    return replace(
        failure,
        message=error_message(fields) or failure.message,
        type=error_type.rpartition("#")[2].partition(":")[0] or failure.type,
    )


def error_message(fields: Fields) -> str:
    """The message, plus the model's own unless it repeats that; some services send `Message`."""
    message, other_message, original = (
        get_text(fields, name) for name in ("message", "Message", "originalMessage")
    )
    message = message or other_message
    return message if original in message else f"{message} ({original})".strip()


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
