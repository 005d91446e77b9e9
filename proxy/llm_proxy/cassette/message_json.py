r"""One message as JSON fields, and back to the very same bytes.

A message is spelled so that a reviewer can read it, in the first of these ways that gives
back every byte:

    {"data": {...}}                    data: {...}⏎⏎
    {"event": "ping", "data": {...}}   event: ping⏎data: {...}⏎⏎
    {"line": {...}}                    {...}⏎
    {"json": {...}}                    {...}
    {"frame": {...}, "json": {...}}    a frame of an AWS event stream: its headers, its payload
    {"text": "data: [DONE]\n\n"}       the bytes as UTF-8
    {"base64": "//4="}                 any bytes

JSON is embedded only where writing it again gives the same bytes: padding, escapes, spaces
and number spellings that differ are kept as text.

A frame's lengths and checksums are computed again.  Its payload is spelled as `json`, `text`
or `base64`; one that wraps the JSON event of a model in base64, as Amazon Bedrock's do, as

    {"frame": {...}, "chunk": {...}, "p": "abcd"}    {"bytes":"<chunk>","p":"abcd"}
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

import orjson

from llm_proxy.framing.eventstream import frame, read_frame

_SSE: Final = re.compile(rb"(?:event: ([^\r\n]*)\n)?data: ([{\[][^\r\n]*[}\]])\n\n")
_CHUNK: Final = re.compile(rb'\{"bytes":"([A-Za-z0-9+/=]*)"(?:,"p":"([A-Za-z0-9]*)")?\}')
_JSON_STARTS: Final = (b"{", b"[")


def spell(message: bytes) -> dict[str, Any]:
    """The fields that stand for `message`; hand them to `orjson.dumps` as they are."""
    if (event := _SSE.fullmatch(message)) is not None and _same_again(event[2]):
        data = {"data": orjson.Fragment(event[2])}
        if event[1] is None:
            return data
        if (name := _text(event[1])) is not None:
            return {"event": name, **data}
    if message.startswith(_JSON_STARTS):
        line = message.removesuffix(b"\n")
        if _same_again(line):
            return {"json" if line == message else "line": orjson.Fragment(line)}
    return _framed(message) or _plain(message)


def unspell(fields: Mapping[str, Any]) -> bytes:
    """The message that `spell` was given.

    Raises `ValueError` naming what is wrong with the fields.
    """
    match dict(fields):
        case {"event": str(name), "data": data, **rest} if not rest:
            return b"event: " + name.encode() + b"\ndata: " + _dumps(data) + b"\n\n"
        case {"data": data, **rest} if not rest:
            return b"data: " + _dumps(data) + b"\n\n"
        case {"line": line, **rest} if not rest:
            return _dumps(line) + b"\n"
        case {"frame": dict(headers), **payload}:
            return _frame(headers, payload)
        case other:
            return _body(other)


def _framed(message: bytes) -> dict[str, Any] | None:
    """The fields of a frame; None for what is none, or holds more than fields can say."""
    read = read_frame(message)
    if read is None or frame(read.headers, read.payload) != message:
        return None
    return {"frame": dict(read.headers), **_payload(read.payload)}


def _payload(payload: bytes) -> dict[str, Any]:
    if (chunk := _CHUNK.fullmatch(payload)) is not None and (event := _event(chunk[1])):
        return {
            "chunk": orjson.Fragment(event),
            **({} if chunk[2] is None else {"p": chunk[2].decode("ascii")}),
        }
    if payload.startswith(_JSON_STARTS) and _same_again(payload):
        return {"json": orjson.Fragment(payload)}
    return _plain(payload)


def _event(encoded: bytes) -> bytes | None:
    """The JSON that stands in base64, where both can be written again as they are."""
    try:
        event = b64decode(encoded, validate=True)
    except ValueError:
        return None
    again = event.startswith(_JSON_STARTS) and b64encode(event) == encoded and _same_again(event)
    return event if again else None


def _plain(data: bytes) -> dict[str, Any]:
    if (text := _text(data)) is not None:
        return {"text": text}
    return {"base64": b64encode(data).decode("ascii")}


def _frame(headers: dict[str, Any], payload: dict[str, Any]) -> bytes:
    """The frame with these headers and this payload, spelled as `_framed` spells it."""
    pairs = [(name, value) for name, value in headers.items() if isinstance(value, str)]
    if len(pairs) != len(headers):
        raise ValueError("the headers of a frame must be text")
    match payload:
        case {"chunk": chunk, "p": str(padding), **rest} if not rest:
            return frame(pairs, orjson.dumps({"bytes": _base64(chunk), "p": padding}))
        case {"chunk": chunk, **rest} if not rest:
            return frame(pairs, orjson.dumps({"bytes": _base64(chunk)}))
        case _:
            return frame(pairs, _body(payload))


def _base64(event: Any) -> str:
    return b64encode(_dumps(event)).decode("ascii")


def _body(fields: dict[str, Any]) -> bytes:
    """What stands in the one field."""
    match fields:
        case {"json": document, **rest} if not rest:
            return _dumps(document)
        case {"text": str(text), **rest} if not rest:
            return text.encode()
        case {"base64": str(encoded), **rest} if not rest:
            return b64decode(encoded, validate=True)
        case _:
            raise ValueError(
                "a message is one of data (with or without event), line, json, text and base64, "
                "or a frame with json, chunk, text or base64, and nothing else"
            )


def _same_again(document: bytes) -> bool:
    """Whether parsing and writing the JSON gives the same bytes."""
    try:
        return orjson.dumps(orjson.loads(document)) == document
    except (ValueError, TypeError):  # not JSON, or nested too deep to be written again
        return False


def _dumps(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        raise ValueError("nested too deep") from None


def _text(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
