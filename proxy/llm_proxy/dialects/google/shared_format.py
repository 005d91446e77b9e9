"""Wire format shared by Google's APIs: stream messages, usage and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import CODECS, MAX_MESSAGE_BYTES
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import Failure, Json, Usage


def rejoin_split_stream_messages(response: DialectResponse) -> Sequence[bytes]:
    """The messages, where those that framing cut at `MAX_MESSAGE_BYTES` are whole again.

    An inline image is one event, which may exceed the limit.
    """
    if all(len(message) < MAX_MESSAGE_BYTES for message in response.framed_messages):
        return response.framed_messages
    body = json_api.joined_body(response)
    codec = CODECS[response.codec_name](len(body) + 1)
    return [*codec.feed(body), *codec.close()]


def parse_json_objects(body: bytes) -> list[Fields]:
    """The object of a body, or the objects of its array; none where it is not JSON."""
    try:
        value = lenient_json.parse_json(body)
    except ValueError:
        return []
    return lenient_json.array_objects(value if isinstance(value, list) else [value])


def decode_event(message: bytes) -> Fields:
    """The document of an event, or of an error that is sent between events without SSE framing."""
    data = parse_event(message).data
    return lenient_json.parse_object(message if data is None else data)


def decode_usage(counts: Fields, wire_names: Mapping[str, str]) -> Usage | None:
    """The usage out of these counts; None where all are missing.

    `wire_names` maps fields of `Usage` to fields of `counts`.  The output excludes reasoning.
    """
    usage = Usage(
        **{
            name: lenient_json.first_integer(counts.get(wire_name))
            for name, wire_name in wire_names.items()
        }
    )
    return None if usage == Usage() else usage


def error_document(status: int, canonical_status: str, message: str) -> Document:
    """The JSON body of an error; the canonical status is such as `INVALID_ARGUMENT`."""
    return {"error": {"code": status, "message": message, "status": canonical_status}}


def error_body(status: int, canonical_status: str, message: str) -> bytes:
    """The same as `error_document`, as bytes."""
    return orjson.dumps(error_document(status, canonical_status, message))


def decode_failure(error: Json) -> Failure:
    """The failure in one of Google's errors; its type is the canonical status."""
    failure = json_api.decode_failure(error)
    return replace(
        failure,
        type=lenient_json.value_as_text(lenient_json.object_fields(error).get("status"))
        or failure.type,
    )


def decode_http_error(response: DialectResponse) -> Failure:
    """The failure of an HTTP error; for a streaming request it may be in an array."""
    errors = (
        document.get("error") for document in parse_json_objects(json_api.joined_body(response))
    )
    error = next((value for value in errors if value and value is not True), None)
    return decode_failure(error) if error else json_api.decode_http_error(response)
