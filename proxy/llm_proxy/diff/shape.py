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
from llm_proxy.diff.documents import json_path_step
from llm_proxy.framing import eventstream, sse
from llm_proxy.framing.eventstream import parse_frame
from llm_proxy.turns import Json

_MAX_DEPTH: Final = 30
_FREE_FORM_FIELDS: Final = frozenset(
    ("args", "arguments", "input", "metadata", "parameters", "properties", "schema")
)
"""Fields whose members are chosen by the caller or the model, such as a tool's arguments."""
_JSON_TYPE_NAMES: Final = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "text",
    dict: "object",
    list: "array",
}
_TIMED_EVENTS: Final = frozenset(("ping",))
"""Events whose occurrence depends on timing."""
_ARRAY_SEPARATORS: Final = b"[],\r\n\t "
"""Bytes around the elements of a streamed array."""

ResponseShape = dict[str, dict[str, frozenset[str]]]
"""The types of each field path, by event type."""


def compare_shapes(one: Cassette, other: Cassette) -> Iterator[tuple[str, str, str]]:
    """Compares framing, event types, their order of first occurrence, and fields.

    Yields what differs, and both values.
    """
    if one.codec_name != other.codec_name:
        yield "framing", one.codec_name, other.codec_name
    before, after = response_shape(one), response_shape(other)
    for event in dict.fromkeys((*before, *after)):
        label = event or "body"
        if event in before and event in after:
            first_fields, second_fields = before[event], after[event]
            for path in dict.fromkeys((*first_fields, *second_fields)):
                first, second = (
                    " or ".join(sorted(fields.get(path, ())))
                    for fields in (first_fields, second_fields)
                )
                if first != second:
                    yield f"{label} {path}", first, second
        else:
            first, second = (
                f"event {event}" if event in shape else "no such event" for shape in (before, after)
            )
            yield label, first, second
    first_order, second_order = (
        ", ".join(event for event in shape if event in before and event in after)
        for shape in (before, after)
    )
    if first_order != second_order:
        yield "order of events", first_order, second_order


def response_shape(cassette: Cassette) -> ResponseShape:
    """The shape of a response; event types in the order of their first occurrence."""
    response = stored_dialect_response(cassette)
    shape: ResponseShape = {}
    for message in response.framed_messages:
        for event, value in _parse_event(response.codec_name, message):
            fields = shape.setdefault(event, {})
            for path, type_name in _value_types("$", value, _MAX_DEPTH):
                fields[path] = fields.get(path, frozenset()) | {type_name}
    return shape


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
    yield path, _JSON_TYPE_NAMES[type(value)]
    if not depth:
        return
    match value:
        case dict():
            for name, item in value.items():
                # The caller or the model chooses the members of a free-form field.
                inner_depth = 0 if name in _FREE_FORM_FIELDS else depth - 1
                yield from _value_types(path + json_path_step(name), item, inner_depth)
        case list():
            for item in value:
                yield from _value_types(f"{path}[*]", item, depth - 1)
        case _:
            pass
