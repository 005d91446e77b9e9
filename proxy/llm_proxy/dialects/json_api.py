"""What JSON APIs share: one-document bodies and HTTP errors."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import Final

from llm_proxy import framing
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.exchange import ResponseHead, header_value
from llm_proxy.turns import Failure, Json

_REASON_LENGTH: Final = 60
"""Characters of a provider's message that fit a table."""


def succeeded(head: ResponseHead) -> bool:
    """Whether the status is one of success."""
    return HTTPStatus(200) <= head.status < HTTPStatus(300)


def codec_of_events_or_whole(head: ResponseHead, *, streams: bool) -> str:
    """The codec of an API that streams events: by content type; where there is none, as asked.

    Errors are documents, and some come labelled as the stream that they are not.
    """
    if not succeeded(head):
        return "whole"
    content_type = header_value(head.headers, "content-type")
    if not content_type:
        return "sse" if streams else "whole"
    return "sse" if framing.codec_of_content_type(content_type) == "sse" else "whole"


def joined_body(response: DialectResponse) -> bytes:
    """The body in one piece."""
    return b"".join(response.messages)


def completeness(response: DialectResponse) -> Completeness:
    """An HTTP error is whole whatever its body (gateways send HTML); a document when it parses."""
    if not succeeded(response.head):
        return Completeness(is_complete=True, reason=f"HTTP {response.head.status}")
    content = joined_body(response)
    if not content.strip():
        return Completeness(is_complete=False, reason="empty body")
    try:
        lenient_json.parse_json(content)
    except ValueError:
        return Completeness(is_complete=False, reason="body is not JSON")
    return Completeness(is_complete=True, reason="JSON body")


def completeness_by_framing(response: DialectResponse) -> Completeness:
    """Whole as far as HTTP can say, which of a body that a close delimits is nothing."""
    if response.head.framing == "close":
        return Completeness(is_complete=True, reason="delimited by close", is_proven=False)
    return Completeness(is_complete=True, reason="HTTP framing ended")


def completeness_by_error(failure: Failure) -> Completeness:
    """The provider itself said that nothing more would come."""
    message = " ".join((failure.message or failure.type or failure.code).split())
    if len(message) > _REASON_LENGTH:
        message = message[: _REASON_LENGTH - 1] + "…"
    return Completeness(is_complete=True, reason=f"in-band error: {message}")


def decode_failure(error: Json) -> Failure:
    """An error as providers spell it: an object with a message, or the message alone."""
    fields = lenient_json.object_fields(error)
    if not fields:
        return Failure(lenient_json.printable_text(error))
    return Failure(
        message=lenient_json.printable_text(fields.get("message"))
        or lenient_json.compact_json(error),
        type=lenient_json.printable_text(fields.get("type")),
        code=lenient_json.printable_text(fields.get("code")),
    )


def decode_http_error(response: DialectResponse) -> Failure:
    """What an HTTP error says, in any of the shapes of providers and gateways."""
    fields: Fields = lenient_json.parse_object(joined_body(response))
    error = fields.get("error")
    if error and error is not True:
        return _with_sibling_fields(fields, decode_failure(error))
    if fields.get("message"):
        return decode_failure(dict(fields))
    if fields.get("detail"):
        return Failure(lenient_json.printable_text(fields.get("detail")))
    return Failure(f"HTTP {response.head.status} {response.head.reason}".strip())


def _with_sibling_fields(fields: Fields, found: Failure) -> Failure:
    if lenient_json.object_fields(fields.get("error")):
        return found
    return replace(
        found,
        type=lenient_json.printable_text(fields.get("error_type")),
        code=lenient_json.printable_text(fields.get("code")),
    )
