r"""One message as JSON fields, and back to the very same bytes.

A message is spelled so that a reviewer can read it, in the first of these ways that gives
back every byte:

    {"data": {...}}                    data: {...}⏎⏎
    {"event": "ping", "data": {...}}   event: ping⏎data: {...}⏎⏎
    {"line": {...}}                    {...}⏎
    {"json": {...}}                    {...}
    {"text": "data: [DONE]\n\n"}       the bytes as UTF-8
    {"base64": "//4="}                 any bytes

JSON is embedded only where writing it again gives the same bytes: padding, escapes, spaces
and number spellings that differ are kept as text.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

import orjson

_SSE: Final = re.compile(rb"(?:event: ([^\r\n]*)\n)?data: ([{\[][^\r\n]*[}\]])\n\n")
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
    if (text := _text(message)) is not None:
        return {"text": text}
    return {"base64": b64encode(message).decode("ascii")}


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
        case {"json": document, **rest} if not rest:
            return _dumps(document)
        case {"text": str(text), **rest} if not rest:
            return text.encode()
        case {"base64": str(encoded), **rest} if not rest:
            return b64decode(encoded, validate=True)
        case _:
            raise ValueError(
                "a message is one of data (with or without event), line, json, text and base64, "
                "and nothing else"
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
