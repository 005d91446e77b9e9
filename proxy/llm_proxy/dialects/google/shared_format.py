"""What Google's APIs share: errors and stream messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import CODECS, MESSAGE_LIMIT
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import Failure, Json, Usage


def join_split_messages(response: DialectResponse) -> Sequence[bytes]:
    """The messages, joined again where they were cut for their length: images come in one event."""
    if all(len(message) < MESSAGE_LIMIT for message in response.messages):
        return response.messages
    body = json_api.joined_body(response)
    cutter = CODECS[response.codec](len(body) + 1)
    return [*cutter.feed(body), *cutter.close()]


def parse_documents(body: bytes) -> list[Fields]:
    """The one document of a body, or each of an array; none where it is not JSON."""
    try:
        value = lenient_json.parse_json(body)
    except ValueError:
        return []
    return lenient_json.object_items(value if isinstance(value, list) else [value])


def decode_event(message: bytes) -> Fields:
    """The document of an event; an error may stand between events as a document that is none."""
    data = parse_event(message).data
    return lenient_json.parse_object(message if data is None else data)


def decode_usage(counts: Fields, names: Mapping[str, str]) -> Usage | None:
    """The counts that stand under these names: what was thought is no part of the output."""
    found = Usage(
        **{name: lenient_json.first_count(counts.get(word)) for name, word in names.items()}
    )
    return None if found == Usage() else found


def error_document(status: int, kind: str, message: str) -> Document:
    """An error as Google writes one, the kind in place of its canonical status."""
    return {"error": {"code": status, "message": message, "status": kind}}


def error_body(status: int, kind: str, message: str) -> bytes:
    """The same, as a body."""
    return orjson.dumps(error_document(status, kind, message))


def decode_failure(error: Json) -> Failure:
    """An error as Google writes one: the canonical status is its type."""
    failure = json_api.decode_failure(error)
    return replace(
        failure,
        type=lenient_json.printable_text(lenient_json.object_fields(error).get("status"))
        or failure.type,
    )


def decode_http_error(response: DialectResponse) -> Failure:
    """What an HTTP error says, which an array wraps where a stream was asked for."""
    errors = (
        parse_document.get("error")
        for parse_document in parse_documents(json_api.joined_body(response))
    )
    error = next((value for value in errors if value and value is not True), None)
    return decode_failure(error) if error else json_api.decode_http_error(response)
