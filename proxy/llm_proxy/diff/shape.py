"""Compares the shape of two responses: event types and the fields of each.

Values do not count, nor how often something comes: a field that is new, gone or of another type
is what clients stumble over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import dialect_response
from llm_proxy.dialects import lenient_json
from llm_proxy.diff.difference import DifferenceKind
from llm_proxy.diff.json_leaves import path_step
from llm_proxy.framing import eventstream, sse
from llm_proxy.framing.eventstream import parse_frame
from llm_proxy.turns import Json

_DEEPEST: Final = 30
_FREE: Final = frozenset(
    ("args", "arguments", "input", "metadata", "parameters", "properties", "schema")
)
"""Members whose own members are the caller's, or the model's: what a tool is given."""
_TYPES: Final = {bool: "boolean", int: "number", float: "number", str: "text"}
_BY_CHANCE: Final = frozenset(("ping",))
"""Events that come or not as time passes."""
_SEPARATORS: Final = b"[],\r\n\t "
"""What stands around the elements of an array that is streamed."""

Found = tuple[DifferenceKind, str, str, str]
Shape = dict[str, dict[str, frozenset[str]]]
"""The types of each field, by the kind of event that has it."""


def compare_shapes(one: Cassette, other: Cassette) -> Iterator[Found]:
    """What has another shape: the framing, an event, the order of first events, a field."""
    if one.codec != other.codec:
        yield DifferenceKind.SHAPE, "framing", one.codec, other.codec
    before, after = response_shape(one), response_shape(other)
    for event in dict.fromkeys((*before, *after)):
        if event not in before or event not in after:
            there = ["no such event", f"event {event}"]
            yield (
                DifferenceKind.SHAPE,
                _event_shape(event),
                there[event in before],
                there[event in after],
            )
        else:
            yield from _compare_event_fields(event, before[event], after[event])
    first, second = (
        [text for text in shape if text in before and text in after] for shape in (before, after)
    )
    if first != second:
        yield DifferenceKind.SHAPE, "order of events", ", ".join(first), ", ".join(second)


def response_shape(cassette: Cassette) -> Shape:
    """The shape of an answer; its events in the order in which they first come."""
    response = dialect_response(cassette)
    found: dict[str, dict[str, frozenset[str]]] = {}
    for message in response.messages:
        for event, value in _read_event(response.codec, message):
            fields = found.setdefault(event, {})
            for path, kind in _value_types("$", value, _DEEPEST):
                fields[path] = fields.get(path, frozenset()) | {kind}
    return found


def _compare_event_fields(
    event: str, before: dict[str, frozenset[str]], after: dict[str, frozenset[str]]
) -> Iterator[Found]:
    for path in dict.fromkeys((*before, *after)):
        one, other = (" or ".join(sorted(fields.get(path, ()))) for fields in (before, after))
        if one != other:
            yield DifferenceKind.SHAPE, f"{_event_shape(event)} {path}".lstrip(), one, other


def _event_shape(event: str) -> str:
    return event or "body"


def _read_event(codec: str, message: bytes) -> Iterator[tuple[str, Json]]:
    """The event of a message, if it is one: its kind, and its value."""
    name, data = _unwrap_message(codec, message)
    if data == sse.DONE:
        yield data.decode(), None
    elif data and name not in _BY_CHANCE:
        try:
            value = lenient_json.parse_json(data)
        except ValueError:
            yield name, "text that is no JSON"
            return
        yield (
            name or lenient_json.str_or_empty(lenient_json.object_fields(value).get("type")),
            value,
        )


def _unwrap_message(codec: str, message: bytes) -> tuple[str, bytes]:
    """What a message is called by its framing, and what it carries; nothing where it is none."""
    match codec:
        case "sse":
            event = sse.parse_event(message)
            return event.encode_event, (event.data or b"").strip()
        case eventstream.NAME:
            frame = parse_frame(message)
            if frame is None:
                return "", b""
            return frame.header(":event-type") or frame.header(":exception-type"), frame.payload
        case "json-array":
            return "", message.strip(_SEPARATORS)
        case _:
            return "", message.strip()


def _value_types(path: str, value: Json, depth: int) -> Iterator[tuple[str, str]]:
    """The type of every value under its path, in which every index is `[*]`."""
    match value:
        case None:
            yield path, "null"
        case dict() if depth:
            yield path, "object"
            for name, item in value.items():
                if name in _FREE:
                    yield path + path_step(name), _json_type(item)
                else:
                    yield from _value_types(path + path_step(name), item, depth - 1)
        case list() if depth:
            yield path, "array"
            for item in value:
                yield from _value_types(f"{path}[*]", item, depth - 1)
        case _:
            yield path, _json_type(value)


def _json_type(value: Json) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return "object"
        case list():
            return "array"
        case _:
            return _TYPES[type(value)]
