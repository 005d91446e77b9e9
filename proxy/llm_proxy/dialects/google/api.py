"""What Google's APIs have in common: their errors, and the messages of their streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import CODECS, MESSAGE_LIMIT
from llm_proxy.framing.sse import read_event
from llm_proxy.turns import Failure, Json, Usage


def messages(response: Response) -> Sequence[bytes]:
    """The messages, joined again where they were cut for their length: images come in one event."""
    if all(len(message) < MESSAGE_LIMIT for message in response.messages):
        return response.messages
    body = json_api.body(response)
    cutter = CODECS[response.codec](len(body) + 1)
    return [*cutter.feed(body), *cutter.close()]


def documents(body: bytes) -> list[Fields]:
    """The one document of a body, or each of an array; none where it is not JSON."""
    try:
        said = lenient_json.parse(body)
    except ValueError:
        return []
    return lenient_json.objects(said if isinstance(said, list) else [said])


def event(message: bytes) -> Fields:
    """The document of an event; an error may stand between events as a document that is none."""
    data = read_event(message).data
    return lenient_json.document(message if data is None else data)


def usage(counts: Fields, names: Mapping[str, str]) -> Usage | None:
    """The counts that stand under these names: what was thought is no part of the output."""
    found = Usage(**{name: lenient_json.count(counts.get(word)) for name, word in names.items()})
    return None if found == Usage() else found


def error_document(status: int, kind: str, message: str) -> Document:
    """An error as Google writes one, the kind in place of its canonical status."""
    return {"error": {"code": status, "message": message, "status": kind}}


def error_body(status: int, kind: str, message: str) -> bytes:
    """The same, as a body."""
    return orjson.dumps(error_document(status, kind, message))


def failure(error: Json) -> Failure:
    """An error as Google writes one: the canonical status is its type."""
    said = json_api.failure(error)
    return replace(
        said, type=lenient_json.words(lenient_json.fields(error).get("status")) or said.type
    )


def http_failure(response: Response) -> Failure:
    """What an HTTP error says, which an array wraps where a stream was asked for."""
    errors = (it.get("error") for it in documents(json_api.body(response)))
    error = next((it for it in errors if it and it is not True), None)
    return failure(error) if error else json_api.http_failure(response)
