r"""Encodes one message as JSON fields, and decodes it to the same bytes.

A message is encoded so that a reviewer can read it, in the first of these forms that restores
every byte:

    {"data": {...}}                    data: {...}⏎⏎
    {"event": "ping", "data": {...}}   event: ping⏎data: {...}⏎⏎
    {"line": {...}}                    {...}⏎
    {"json": {...}}                    {...}
    {"frame": {...}, "json": {...}}    a frame of an AWS event stream: its headers, its payload
    {"text": "data: [DONE]\n\n"}       the bytes as UTF-8
    {"base64": "//4="}                 any bytes

JSON is embedded only if serialising it again gives the same bytes: with other padding, escapes,
spaces or number spellings it is kept as text.

A frame's lengths and checksums are recomputed.  Its payload is encoded as `json`, `text` or
`base64`; a payload that wraps the model's JSON event in base64, as Amazon Bedrock's do, as

    {"frame": {...}, "chunk": {...}, "p": "abcd"}    {"bytes":"<chunk>","p":"abcd"}
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

import orjson

from llm_proxy.framing.eventstream import encode_frame, parse_frame

_SSE_JSON_EVENT: Final = re.compile(rb"(?:event: ([^\r\n]*)\n)?data: ([{\[][^\r\n]*[}\]])\n\n")
_BASE64_CHUNK_PAYLOAD: Final = re.compile(
    rb'\{"bytes":"([A-Za-z0-9+/=]*)"(?:,"p":"([A-Za-z0-9]*)")?\}'
)
_JSON_STARTS: Final = (b"{", b"[")


def encode_message(message: bytes) -> dict[str, Any]:
    """The JSON fields for `message`; they may hold `orjson.Fragment`: serialise with orjson."""
    if (event := _SSE_JSON_EVENT.fullmatch(message)) is not None and _json_round_trips(event[2]):
        data = {"data": orjson.Fragment(event[2])}
        if event[1] is None:
            return data
        if (name := _decode_utf8(event[1])) is not None:
            return {"event": name, **data}
    if message.startswith(_JSON_STARTS):
        line = message.removesuffix(b"\n")
        if _json_round_trips(line):
            return {"json" if line == message else "line": orjson.Fragment(line)}
    frame = parse_frame(message)
    if frame is None or encode_frame(frame.headers, frame.payload) != message:
        return _plain_to_json_fields(message)
    return {"frame": dict(frame.headers), **_payload_to_json_fields(frame.payload)}


def decode_message(fields: Mapping[str, Any]) -> bytes:
    """The message that `encode_message` encoded as these fields.

    Raises `ValueError` with the problem of invalid fields.
    """
    match dict(fields):
        case {"event": str(name), "data": data, **rest} if not rest:
            return b"event: " + name.encode() + b"\ndata: " + _dump_json(data) + b"\n\n"
        case {"data": data, **rest} if not rest:
            return b"data: " + _dump_json(data) + b"\n\n"
        case {"line": line, **rest} if not rest:
            return _dump_json(line) + b"\n"
        case {"frame": dict(headers), **payload}:
            return _frame_from_json_fields(headers, payload)
        case other:
            return _plain_from_json_fields(other)


def _payload_to_json_fields(payload: bytes) -> dict[str, Any]:
    if (chunk := _BASE64_CHUNK_PAYLOAD.fullmatch(payload)) is not None and (
        event := _decode_base64_event(chunk[1])
    ):
        return {
            "chunk": orjson.Fragment(event),
            **({} if chunk[2] is None else {"p": chunk[2].decode("ascii")}),
        }
    if payload.startswith(_JSON_STARTS) and _json_round_trips(payload):
        return {"json": orjson.Fragment(payload)}
    return _plain_to_json_fields(payload)


def _decode_base64_event(encoded: bytes) -> bytes | None:
    """The JSON in a base64 text, if both can be restored byte for byte; else None."""
    try:
        event = b64decode(encoded, validate=True)
    except ValueError:
        return None
    round_trips = (
        event.startswith(_JSON_STARTS) and b64encode(event) == encoded and _json_round_trips(event)
    )
    return event if round_trips else None


def _plain_to_json_fields(data: bytes) -> dict[str, Any]:
    if (text := _decode_utf8(data)) is not None:
        return {"text": text}
    return {"base64": b64encode(data).decode("ascii")}


def _frame_from_json_fields(headers: dict[str, Any], payload: dict[str, Any]) -> bytes:
    """The frame with these headers and the payload fields of `_payload_to_json_fields`."""
    pairs = [(name, value) for name, value in headers.items() if isinstance(value, str)]
    if len(pairs) != len(headers):
        raise ValueError('a header value in "frame" is not a string')
    match payload:
        case {"chunk": chunk, **padding} if not padding or _is_padding(padding):
            event = b64encode(_dump_json(chunk)).decode("ascii")
            return encode_frame(pairs, orjson.dumps({"bytes": event, **padding}))
        case _:
            return encode_frame(pairs, _plain_from_json_fields(payload))


def _is_padding(fields: dict[str, Any]) -> bool:
    return fields.keys() == {"p"} and isinstance(fields["p"], str)


def _plain_from_json_fields(fields: dict[str, Any]) -> bytes:
    match fields:
        case {"json": document, **rest} if not rest:
            return _dump_json(document)
        case {"text": str(text), **rest} if not rest:
            return text.encode()
        case {"base64": str(encoded), **rest} if not rest:
            return b64decode(encoded, validate=True)
        case _:
            raise ValueError(
                "wrong fields: a message needs exactly one of data, line, json, text and base64 "
                "(event is allowed only with data); a frame needs exactly one of json, chunk, "
                "text and base64"
            )


def _json_round_trips(document: bytes) -> bool:
    """Whether parsing and serialising the JSON gives the same bytes."""
    try:
        return orjson.dumps(orjson.loads(document)) == document
    except (ValueError, TypeError):  # not JSON, or nested too deep to be serialised
        return False


def _dump_json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        raise ValueError("the JSON is nested too deeply") from None


def _decode_utf8(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
