"""Shared code of JSON APIs: completeness, one-document bodies, HTTP errors, data URLs."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final, TypeGuard

from llm_proxy.dialects.base import Completeness, DialectResponse, ResponseDecoder
from llm_proxy.dialects.lenient_json import (
    Fields,
    compact_json,
    get_text,
    object_fields,
    parse_json,
    parse_object,
    value_as_text,
)
from llm_proxy.exchange import ResponseHead
from llm_proxy.turns import Failure, Json, Media, Part, Reasoning, Refusal, Text, ToolCall, Turn

_MAX_REASON_CHARS: Final = 60
"""The part of a provider's error message that fits in a table."""

_DATA_URL: Final = re.compile(r"data:([^;,]*)[^,]*;base64,(.*)", re.DOTALL)


def succeeded(head: ResponseHead) -> bool:
    """Whether the status is 2xx."""
    return HTTPStatus(200) <= head.status < HTTPStatus(300)


def completeness(response: DialectResponse) -> Completeness:
    """An HTTP error is complete with any body (gateways send HTML); a document if it parses."""
    if not succeeded(response.head):
        return Completeness(is_complete=True, reason=f"HTTP {response.head.status}")
    body = response.body
    if not body.strip():
        return Completeness(is_complete=False, reason="empty body")
    try:
        parse_json(body)
    except ValueError:
        return Completeness(is_complete=False, reason="body is not JSON")
    return Completeness(is_complete=True, reason="JSON body")


def incomplete(response: DialectResponse, reason: str) -> Completeness:
    """A stream that is incomplete: empty, or for this reason."""
    is_empty = not response.body.strip()
    return Completeness(is_complete=False, reason="empty stream" if is_empty else reason)


def completeness_by_framing(response: DialectResponse) -> Completeness:
    """Complete by HTTP framing, which proves nothing for a body delimited by close."""
    if response.head.framing == "close":
        return Completeness(is_complete=True, reason="delimited by close", is_proven=False)
    return Completeness(is_complete=True, reason="HTTP framing ended")


def completed_by_error(failure: Failure) -> Completeness:
    """Complete: the provider ended the stream with an error."""
    message = " ".join((failure.message or failure.type or failure.code).split())
    if len(message) > _MAX_REASON_CHARS:
        message = message[: _MAX_REASON_CHARS - 1] + "…"
    return Completeness(is_complete=True, reason=f"in-band error: {message}", is_error=True)


def decode_failure(error: Json) -> Failure:
    """Decodes an error field: an object with a message, or the message alone."""
    fields = object_fields(error)
    if not fields:
        return Failure(value_as_text(error))
    return Failure(
        message=get_text(fields, "message") or compact_json(error),
        type=get_text(fields, "type"),
        code=get_text(fields, "code"),
    )


def decode_http_error(response: DialectResponse) -> Failure:
    """Decodes an HTTP error body in any of the formats of providers and gateways."""
    fields: Fields = parse_object(response.body)
    error = fields.get("error")
    if isinstance(error, dict) and error:
        return decode_failure(error)
    if error and error is not True:  # the message, beside its type and code
        kind, code = get_text(fields, "error_type"), get_text(fields, "code")
        return Failure(value_as_text(error), kind, code)
    if fields.get("message"):
        return decode_failure(dict(fields))
    if fields.get("detail"):
        return Failure(get_text(fields, "detail"))
    return Failure(f"HTTP {response.head.status} {response.head.reason}".strip())


def decoded_turns(decoder: ResponseDecoder, response: DialectResponse) -> tuple[Turn, ...]:
    """The turns of a whole successful response."""
    is_document = response.codec_name == "whole"
    for message in [response.body] if is_document else response.framed_messages:
        decoder.feed(message)
    return decoder.turns()


def is_client_call(part: Part) -> TypeGuard[ToolCall]:
    """Whether a complete part is a call of a function of the client."""
    return isinstance(part, ToolCall) and "type" not in dict(part.metadata)


def is_piece(part: Part) -> bool:
    """Whether a decoder returns a part as it arrives: readable text, or the client's call."""
    match part:
        case Text(text=text) | Reasoning(text=text) | Refusal(text=text):
            return bool(text)
        case _:
            return is_client_call(part)


def decode_media_url(url: str, default_media_type: str) -> Media:
    """The media at this URL, inline for a data URL with base64."""
    data_url = _DATA_URL.fullmatch(url)
    return (
        Media(data_url[1] or default_media_type, base64=data_url[2])
        if data_url
        else Media(default_media_type, url=url)
    )
