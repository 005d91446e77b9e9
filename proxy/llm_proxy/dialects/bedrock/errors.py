"""Amazon Bedrock's errors and headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.capabilities import with_message
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.exchange import Headers
from llm_proxy.turns import Failure

TYPE: Final = "x-amzn-ErrorType"
"""The header that names the kind of an HTTP error."""

_WORDS: Final[Mapping[int, tuple[str, str]]] = {
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
"""Type and message of a status."""

_OTHERS: Final[Mapping[str, int]] = {
    "ServiceQuotaExceededException": 400,
    "UnrecognizedClientException": 403,
    "ExpiredTokenException": 403,
    "ModelStreamErrorException": 424,
    "ModelNotReadyException": 429,
}
"""Types that share a status with another."""

_STATUS: Final = {**{name: status for status, (name, _) in _WORDS.items()}, **_OTHERS}

_OF_STREAM: Final = "modelStreamErrorException"
"""The one that may tell a status of the model's own, and stands for what has no name."""

IN_CONVERSE: Final = frozenset(
    (
        _OF_STREAM,
        "internalServerException",
        "serviceUnavailableException",
        "throttlingException",
        "validationException",
    )
)
"""What can end a stream of Converse: clients drop the message of any other type."""

IN_INVOKE: Final = IN_CONVERSE | {"modelTimeoutException"}
"""What can end a stream of a model's own."""

_NAME: Final = re.compile(r"[\w.-]+", re.ASCII)
_NUMBER: Final = re.compile("[1-9][0-9]{0,8}")


def error_response(
    status: int, failure: Failure, context: EncodeContext, retry_after: float | None = None
) -> DialectResponse:
    """An HTTP error; `retry_after` is in s."""
    said = _with_status_defaults(status, failure)
    fields = (*response_headers(context), (TYPE, said.type), *_retry_headers(retry_after))
    return response_encoding.json_response({"message": said.message}, fields, status)


def whole_error_response(failure: Failure, context: EncodeContext) -> DialectResponse:
    """The HTTP error that stands in place of an answer."""
    return error_response(_status_of_type(failure), failure, context)


def with_known_type(failure: Failure) -> Failure:
    """An error in place of an answer, as it is told: of a type that clients know."""
    if failure.type in _STATUS:
        return _with_status_defaults(_status_of_type(failure), replace(failure, code=""))
    return _with_status_defaults(
        _status_of_type(failure), Failure(failure.message or failure.type or failure.code)
    )


def stream_error_of(failure: Failure, known: frozenset[str]) -> Failure:
    """An error amid a stream, as it is told: of one of the `known` types."""
    named = failure.type[:1].lower() + failure.type[1:]
    kind = named if named in known else _OF_STREAM
    has_status = kind == _OF_STREAM and _NUMBER.fullmatch(failure.code)
    return Failure(with_message(failure).message, kind, failure.code if has_status else "")


def response_headers(context: EncodeContext) -> Headers:
    """What the request is known by."""
    return (("x-amzn-RequestId", context.uuid("request")),)


def _with_status_defaults(status: int, failure: Failure) -> Failure:
    """The error with the words that come with the status, where it has none."""
    kind, message = _WORDS.get(status, _WORDS[400 if status < 500 else 500])
    named = failure.type if _NAME.fullmatch(failure.type) else kind
    return Failure(failure.message or message, named)


def _retry_headers(after: float | None) -> Headers:
    """When to ask again, in s and in ms."""
    if after is None:
        return ()
    return (("retry-after", str(ceil(after))), ("x-amz-retry-after", f"{after * 1000:.0f}"))


def _status_of_type(failure: Failure) -> int:
    return _STATUS.get(failure.type, 500)
