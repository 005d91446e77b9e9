"""What Google's APIs have in common: their errors, and the messages of their streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import orjson

from llm_proxy.dialects import plain, reading
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.reading import Fields
from llm_proxy.framing import CODECS, MESSAGE_LIMIT
from llm_proxy.turns import Failure, Json


def messages(response: Response) -> Sequence[bytes]:
    """The messages, joined again where they were cut for their length: images come in one event."""
    if all(len(message) < MESSAGE_LIMIT for message in response.messages):
        return response.messages
    body = plain.body(response)
    cutter = CODECS[response.codec](len(body) + 1)
    return [*cutter.feed(body), *cutter.close()]


def documents(body: bytes) -> list[Fields]:
    """The one document of a body, or each of an array; none where it is not JSON."""
    try:
        said = reading.parse(body)
    except ValueError:
        return []
    return reading.objects(said if isinstance(said, list) else [said])


def error_body(status: int, kind: str, message: str) -> bytes:
    """An error as Google writes one, the kind in place of its canonical status."""
    return orjson.dumps({"error": {"code": status, "message": message, "status": kind}})


def failure(error: Json) -> Failure:
    """An error as Google writes one: the canonical status is its type."""
    said = plain.failure(error)
    return replace(said, type=reading.words(reading.fields(error).get("status")) or said.type)


def http_failure(response: Response) -> Failure:
    """What an HTTP error says, which an array wraps where a stream was asked for."""
    errors = (it.get("error") for it in documents(plain.body(response)))
    error = next((it for it in errors if it and it is not True), None)
    return failure(error) if error else plain.http_failure(response)
