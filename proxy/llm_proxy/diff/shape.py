"""Compares the shape of two responses: event types and the fields of each.

Values and repetitions are ignored: what breaks clients is a field that is new, missing or of
another type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import stored_dialect_response
from llm_proxy.dialects import lenient_json
from llm_proxy.diff.difference import DifferenceKind
from llm_proxy.diff.json_leaves import json_path_step
from llm_proxy.framing import eventstream, sse
from llm_proxy.framing.eventstream import parse_frame
from llm_proxy.turns import Json

_MAX_DEPTH: Final = 30
_FREE_FORM_FIELDS: Final = frozenset(
    ("args", "arguments", "input", "metadata", "parameters", "properties", "schema")
)
"""Fields whose members are chosen by the caller or the model, such as a tool's arguments."""
_JSON_TYPE_NAMES: Final = {bool: "boolean", int: "number", float: "number", str: "text"}
_TIMED_EVENTS: Final = frozenset(("ping",))
"""Events whose occurrence depends on timing."""
_ARRAY_SEPARATORS: Final = b"[],\r\n\t "
"""Bytes around the elements of a streamed array."""

KindPathValues = tuple[DifferenceKind, str, str, str]
ResponseShape = dict[str, dict[str, frozenset[str]]]
"""The types of each field path, by event type."""


def compare_shapes(one: Cassette, other: Cassette) -> Iterator[KindPathValues]:
    """Compares framing, event types, their order of first occurrence, and fields."""
    if one.codec_name != other.codec_name:
        yield DifferenceKind.SHAPE, "framing", one.codec_name, other.codec_name
    before, after = response_shape(one), response_shape(other)
    for event in dict.fromkeys((*before, *after)):
        if event not in before or event not in after:
            presence_texts = ["no such event", f"event {event}"]
            yield (
                DifferenceKind.SHAPE,
                _event_label(event),
                presence_texts[event in before],
                presence_texts[event in after],
            )
        else:
            yield from _compare_event_fields(event, before[event], after[event])
    first, second = (
        [text for text in shape if text in before and text in after] for shape in (before, after)
    )
    if first != second:
        yield DifferenceKind.SHAPE, "order of events", ", ".join(first), ", ".join(second)


def response_shape(cassette: Cassette) -> ResponseShape:
    """The shape of a response; event types in the order of their first occurrence."""
    response = stored_dialect_response(cassette)
    shape: dict[str, dict[str, frozenset[str]]] = {}
    for message in response.framed_messages:
        for event, value in _parse_event(response.codec_name, message):
            fields = shape.setdefault(event, {})
            for path, type_name in _value_types("$", value, _MAX_DEPTH):
                fields[path] = fields.get(path, frozenset()) | {type_name}
    return shape


def _compare_event_fields(
    event: str, before: dict[str, frozenset[str]], after: dict[str, frozenset[str]]
) -> Iterator[KindPathValues]:
    for path in dict.fromkeys((*before, *after)):
        one, other = (" or ".join(sorted(fields.get(path, ()))) for fields in (before, after))
        if one != other:
            yield DifferenceKind.SHAPE, f"{_event_label(event)} {path}".lstrip(), one, other


def _event_label(event: str) -> str:
    return event or "body"


def _parse_event(codec: str, message: bytes) -> Iterator[tuple[str, Json]]:
    """Yields the event type and the value of a message, if it is an event that is compared."""
    name, data = _name_and_payload(codec, message)
    if data == sse.DONE_DATA:
        yield data.decode(), None
    elif data and name not in _TIMED_EVENTS:
        try:
            value = lenient_json.parse_json(data)
        except ValueError:
            yield name, "text that is no JSON"
            return
        yield (
            name or lenient_json.str_or_empty(lenient_json.object_fields(value).get("type")),
            value,
        )


def _name_and_payload(codec: str, message: bytes) -> tuple[str, bytes]:
    """The event type by the framing, and the payload; empty where it has none."""
    match codec:
        case "sse":
            event = sse.parse_event(message)
            return event.event_type, (event.data or b"").strip()
        case eventstream.CODEC_NAME:
            frame = parse_frame(message)
            if frame is None:
                return "", b""
            return frame.header(":event-type") or frame.header(":exception-type"), frame.payload
        case "json-array":
            return "", message.strip(_ARRAY_SEPARATORS)
        case _:
            return "", message.strip()


def _value_types(path: str, value: Json, depth: int) -> Iterator[tuple[str, str]]:
    """Yields the path and the type of every value; every index in a path is `[*]`."""
    match value:
        case None:
            yield path, "null"
        case dict() if depth:
            yield path, "object"
            for name, item in value.items():
                if name in _FREE_FORM_FIELDS:
                    yield path + json_path_step(name), _json_type(item)
                else:
                    yield from _value_types(path + json_path_step(name), item, depth - 1)
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
            return _JSON_TYPE_NAMES[type(value)]
