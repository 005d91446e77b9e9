"""Compares two recorded exchanges and classifies the differences.

Two takes are compared exactly: everything is significant but times.  A live response is never equal
to its recording, so there only differences that could break a client are significant.  To detect
drift, the shape is compared: event types and the fields of each, without values and repetitions, as
what breaks clients is a field that is new, missing or of another type.  Of responses in two
dialects, only what every dialect has is compared: the contents of the turns, not the parts that
hold them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

from llm_proxy import matching
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import (
    cassette_dialect,
    cassette_outcome,
    cassette_response_turns,
    stored_dialect_response,
)
from llm_proxy.dialects import lenient_json
from llm_proxy.diff.documents import (
    common_prefix_length,
    differing_values,
    flatten_json,
    json_leaves,
)
from llm_proxy.display import format_duration, json_path_step
from llm_proxy.exchange import Headers
from llm_proxy.framing import eventstream, sse
from llm_proxy.matching import NO_RULES, RuleSet
from llm_proxy.timeline import message_arrivals
from llm_proxy.transcoding.responses import convert_token_counts
from llm_proxy.turns import (
    Failure,
    Json,
    Media,
    Part,
    Reasoning,
    Refusal,
    TokenCounting,
    ToolCall,
    Turn,
)

Strictness = Literal["exact", "live", "shape", "turns"]
"""How strictly two exchanges are compared."""


class DifferenceKind(StrEnum):
    """The kind of value that differs."""

    REQUEST = "request"
    """The request."""
    STATUS = "status"
    HEADER = "header"
    VOLATILE_HEADER = "volatile"
    """A header whose value changes with time, such as remaining limits or time taken."""
    ENDING = "ending"
    SHAPE = "shape"
    """Event types, and the fields of each."""
    MODEL = "model"
    """The model of the response."""
    FINISH = "finish"
    TOOLS = "tools"
    """The names of the tools that were called, in order."""
    CONTENT = "content"
    """Text, reasoning and arguments in the response."""
    ID = "id"
    """Ids, signatures and other values that are new in each response."""
    USAGE = "usage"
    BYTES = "bytes"
    TIME = "time"


_Difference = tuple[DifferenceKind, str, str, str]
"""Kind and path of a difference, and both values."""

_ALL_KINDS: Final = frozenset(DifferenceKind)
_SHAPE_KINDS: Final = frozenset((DifferenceKind.STATUS, DifferenceKind.SHAPE))
_SIGNIFICANT_KINDS: Final[Mapping[Strictness, frozenset[DifferenceKind]]] = {
    "exact": _ALL_KINDS
    - {DifferenceKind.TIME, DifferenceKind.VOLATILE_HEADER, DifferenceKind.SHAPE},
    "live": _SHAPE_KINDS
    | {
        DifferenceKind.ENDING,
        DifferenceKind.MODEL,
        DifferenceKind.FINISH,
        DifferenceKind.TOOLS,
    },
    "shape": _SHAPE_KINDS,
    "turns": frozenset(
        (
            DifferenceKind.STATUS,
            DifferenceKind.ENDING,
            DifferenceKind.FINISH,
            DifferenceKind.TOOLS,
        )
    ),
}
"""The kinds of difference that make two exchanges count as different."""
_REPORTED_KINDS: Final[Mapping[Strictness, frozenset[DifferenceKind]]] = {
    "exact": _ALL_KINDS - {DifferenceKind.SHAPE},
    "live": _ALL_KINDS - {DifferenceKind.REQUEST, DifferenceKind.BYTES},
    "shape": _SHAPE_KINDS,
    "turns": _ALL_KINDS
    - {
        DifferenceKind.REQUEST,
        DifferenceKind.HEADER,
        DifferenceKind.VOLATILE_HEADER,
        DifferenceKind.SHAPE,
        DifferenceKind.ID,
        DifferenceKind.BYTES,
    },
}
"""An exact comparison omits the shape, which would only repeat the differences of bytes and
contents."""
_OPTIONAL_KINDS: Final = (DifferenceKind.MODEL, DifferenceKind.USAGE)
"""Kinds of values that not every dialect has: they are compared where both responses have them."""
_KIND_BY_FIELD: Final[Mapping[str, DifferenceKind]] = {
    **dict.fromkeys(("id", "call_id", "signature", "redacted", "metadata"), DifferenceKind.ID),
    **dict.fromkeys(("finish", "finish_raw", "failure"), DifferenceKind.FINISH),
    "model": DifferenceKind.MODEL,
    "usage": DifferenceKind.USAGE,
}
"""The kind of difference of a turn's or part's field; other fields are `CONTENT`."""
_VOLATILE_HEADER_PATTERN: Final = re.compile(
    r".*ratelimit-.*|.*-ms|.*-latency|retry-after|etag|x-amzn-bedrock-.*-count|num_tokens"
    r"|x-(trial-)?endpoint-.*"
)
"""Headers whose values change with time, such as remaining limits."""
_EMPTY_VALUE: Final = '""'
"""The text for a header without a value; an empty text means no header."""
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
    str: "string",
    dict: "object",
    list: "array",
}
_TIMED_EVENTS: Final = frozenset(("ping",))
"""Events whose occurrence depends on timing."""
_ARRAY_SEPARATORS: Final = b"[],\r\n\t "
"""Bytes around the elements of a streamed array."""
_CAPITAL_PATTERN: Final = re.compile(r"(?<!^)(?=[A-Z])")
_EMPTY_FIELD_VALUES: Final[tuple[Json, ...]] = (None, "", [], {})


@dataclass(frozen=True, slots=True)
class ExchangeDifference:
    """One value in which two exchanges differ."""

    kind: DifferenceKind
    path: str
    """Such as `$.messages[0].content` of a request, `turns[0].parts[1].text`, `content-type`."""
    first_value: str
    """The value in the first exchange; empty where it has none."""
    second_value: str
    """The value in the second exchange; empty where it has none."""
    is_significant: bool


@dataclass(frozen=True, slots=True)
class ExchangeComparison:
    """The differences of two exchanges, in the order of an exchange: request first, times last."""

    first_file: str
    """The file of the first cassette."""
    second_file: str
    strictness: Strictness
    differences: tuple[ExchangeDifference, ...]

    @property
    def is_same(self) -> bool:
        """Whether there is no significant difference."""
        return not any(difference.is_significant for difference in self.differences)


def compare_exchanges(
    one: Cassette, other: Cassette, strictness: Strictness = "exact", rules: RuleSet = NO_RULES
) -> ExchangeComparison:
    """Compares two exchanges; `rules` define which differences of the requests are ignored."""
    differences = (
        *_compare_requests(one, other, rules),
        *_compare_heads(one, other),
        *_compare_endings(one, other),
        *_compare_shapes(one, other),
        *_compare_turns(one, other, strictness),
        *_compare_bodies(one, other),
        *(
            (DifferenceKind.TIME, *difference)
            for difference in differing_values(_time_figures(one), _time_figures(other))
        ),
    )
    return ExchangeComparison(
        one.file,
        other.file,
        strictness,
        tuple(
            ExchangeDifference(kind, path, first, second, kind in _SIGNIFICANT_KINDS[strictness])
            for kind, path, first, second in differences
            if kind in _REPORTED_KINDS[strictness]
        ),
    )


def _compare_requests(one: Cassette, other: Cassette, rules: RuleSet) -> Iterator[_Difference]:
    """The values of the key documents that differ under these rules."""
    first, second = (
        matching.normalized_document(cassette.meta.provider, cassette.request, rules).document
        for cassette in (one, other)
    )
    for difference in differing_values(json_leaves(first), json_leaves(second)):
        yield (DifferenceKind.REQUEST, *difference)


def _compare_heads(one: Cassette, other: Cassette) -> Iterator[_Difference]:
    """Status and headers; the media type counts as part of the shape."""
    first_head, second_head = one.response_head, other.response_head
    before, after = (f"{head.status} {head.reason}".rstrip() for head in (first_head, second_head))
    if before != after:
        is_same_status = first_head.status == second_head.status
        kind = DifferenceKind.HEADER if is_same_status else DifferenceKind.STATUS
        yield kind, "status", before, after
    if first_head.framing != second_head.framing:
        yield DifferenceKind.HEADER, "framing", first_head.framing, second_head.framing
    for name, first, second in differing_values(
        _header_values_by_name(first_head.headers), _header_values_by_name(second_head.headers)
    ):
        if name == "content-type" and _media_type(first) != _media_type(second):
            yield DifferenceKind.SHAPE, name, first, second
        is_volatile = _VOLATILE_HEADER_PATTERN.fullmatch(name)
        kind = DifferenceKind.VOLATILE_HEADER if is_volatile else DifferenceKind.HEADER
        yield kind, name, first, second


def _header_values_by_name(headers: Headers) -> dict[str, str]:
    """The values of each header name, in order, joined by commas."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value)
    return {name: ", ".join(items) or _EMPTY_VALUE for name, items in values.items()}


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _compare_endings(one: Cassette, other: Cassette) -> Iterator[_Difference]:
    """The endings, and whether the exchanges are complete."""
    before, after = (cassette.response_end.ending.value for cassette in (one, other))
    if before != after:
        yield DifferenceKind.ENDING, "ending", before, after
    first, second = cassette_outcome(one), cassette_outcome(other)
    if first.is_complete != second.is_complete:
        yield DifferenceKind.ENDING, "outcome", str(first), str(second)


def _compare_shapes(one: Cassette, other: Cassette) -> Iterator[_Difference]:
    """Framing, event types, their order of first occurrence, and the types of their fields."""
    if one.codec_name != other.codec_name:
        yield DifferenceKind.SHAPE, "framing", one.codec_name, other.codec_name
    before, after = _response_shape(one), _response_shape(other)
    for event in dict.fromkeys((*before, *after)):
        label = event or "body"
        if event in before and event in after:
            for path in dict.fromkeys((*before[event], *after[event])):
                first, second = (
                    " or ".join(sorted(shape[event].get(path, ()))) for shape in (before, after)
                )
                if first != second:
                    yield DifferenceKind.SHAPE, f"{label} {path}", first, second
        else:
            first, second = (
                f"event {event}" if event in shape else "missing" for shape in (before, after)
            )
            yield DifferenceKind.SHAPE, label, first, second
    first, second = (
        ", ".join(event for event in shape if event in before and event in after)
        for shape in (before, after)
    )
    if first != second:
        yield DifferenceKind.SHAPE, "order of events", first, second


def _response_shape(cassette: Cassette) -> dict[str, dict[str, set[str]]]:
    """The types of each field path, by event type in the order of their first occurrence."""
    response = stored_dialect_response(cassette)
    shape: dict[str, dict[str, set[str]]] = {}
    for message in response.framed_messages:
        for event, value in _parse_event(response.codec_name, message):
            fields = shape.setdefault(event, {})
            for path, type_name in _value_types("$", value, _MAX_DEPTH):
                fields.setdefault(path, set()).add(type_name)
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
            yield name, "data that is not valid JSON"
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
            frame = eventstream.parse_frame(message)
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


def _compare_turns(one: Cassette, other: Cassette, strictness: Strictness) -> Iterator[_Difference]:
    """Turns part by part; ids, finish and usage have their own kinds of difference."""
    first, second = cassette_response_turns(one), cassette_response_turns(other)
    if len(first) != len(second):
        yield DifferenceKind.FINISH, "turns", str(len(first)), str(len(second))
    if strictness == "turns":
        counting = cassette_dialect(one).token_counting
        before, after = (_content_values(cassette, counting) for cassette in (one, other))
    else:
        before, after = _turn_values(first), _turn_values(second)
    for path in dict.fromkeys((*before, *after)):
        kind = (before.get(path) or after[path])[0]
        first_value, second_value = (values.get(path, (kind, ""))[1] for values in (before, after))
        is_missing = kind in _OPTIONAL_KINDS and not (first_value and second_value)
        if first_value != second_value and not (strictness == "turns" and is_missing):
            yield kind, path, first_value, second_value


def _content_values(
    cassette: Cassette, counting: TokenCounting
) -> dict[str, tuple[DifferenceKind, str]]:
    """As `_turn_values`, of what every dialect has: each kind of part joined, calls by number.

    Tokens are counted as `counting` says.
    """
    own_counting = cassette_dialect(cassette).token_counting
    values: dict[str, tuple[DifferenceKind, str]] = {}
    for turn_index, turn in enumerate(cassette_response_turns(cassette)):
        path = f"turns[{turn_index}]"
        calls = [part for part in turn.parts if isinstance(part, ToolCall)]
        values[f"{path}.tools"] = (DifferenceKind.TOOLS, ", ".join(call.name for call in calls))
        texts = {
            "text": turn.text,
            "reasoning": "".join(part.text for part in turn.parts if isinstance(part, Reasoning)),
            "refusal": "".join(part.text for part in turn.parts if isinstance(part, Refusal)),
            "media": ", ".join(part.media_type for part in turn.parts if isinstance(part, Media)),
        }
        for name, text in texts.items():
            values[f"{path}.{name}"] = (DifferenceKind.CONTENT, text)
        for index, call in enumerate(calls):
            bare_call = ToolCall("", call.name, call.arguments)
            values |= _field_values(f"{path}.calls[{index}]", bare_call)
        bare_turn = Turn(
            (),
            turn.finish,
            usage=turn.usage and convert_token_counts(turn.usage, own_counting, counting),
            failure=turn.failure and Failure(turn.failure.message),
            model=turn.model,
        )
        values |= _field_values(path, bare_turn)
    return values


def _turn_values(turns: tuple[Turn, ...]) -> dict[str, tuple[DifferenceKind, str]]:
    """The kind and the text of every value of some turns, by its path."""
    values: dict[str, tuple[DifferenceKind, str]] = {}
    for turn_index, turn in enumerate(turns):
        path = f"turns[{turn_index}]"
        tool_names = [part.name for part in turn.parts if isinstance(part, ToolCall)]
        values[f"{path}.tools"] = (DifferenceKind.TOOLS, ", ".join(tool_names))
        for index, part in enumerate(turn.parts):
            part_type = _CAPITAL_PATTERN.sub("_", type(part).__name__).lower()
            values[f"{path}.parts[{index}].type"] = (DifferenceKind.CONTENT, part_type)
            values |= _field_values(f"{path}.parts[{index}]", part)
        values |= _field_values(path, turn)
    return values


def _field_values(path: str, item: Part | Turn) -> Iterator[tuple[str, tuple[DifferenceKind, str]]]:
    """The values of the fields that are not empty; the parts of a turn are left out."""
    for field in dataclasses.fields(item):
        value = getattr(item, field.name)
        if field.name == "parts":
            continue
        if field.name == "arguments":
            with suppress(ValueError):  # parsed, so that white space is ignored
                value = lenient_json.parse_json(value.encode("utf-8", "surrogatepass"))
        elif field.name == "metadata":
            value = dict(value)
        json_value = _to_json_value(value)
        if json_value not in _EMPTY_FIELD_VALUES:
            kind = _KIND_BY_FIELD.get(field.name, DifferenceKind.CONTENT)
            for leaf_path, text in flatten_json(f"{path}.{field.name}", json_value, _plain_text):
                yield leaf_path, (kind, text)


def _to_json_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: _to_json_value(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
        return {name: item for name, item in fields.items() if item not in _EMPTY_FIELD_VALUES}
    return [_to_json_value(item) for item in value] if isinstance(value, tuple) else value


def _plain_text(value: Json) -> str:
    """A string as it is, other values as JSON."""
    return value if isinstance(value, str) else lenient_json.compact_json(value)


def _compare_bodies(one: Cassette, other: Cassette) -> Iterator[_Difference]:
    """The stored bodies: sizes, hashes, and the first message that differs."""
    first, second = one.response_end, other.response_end
    if first.sha256 == second.sha256:
        return
    yield DifferenceKind.BYTES, "size", str(first.size_bytes), str(second.size_bytes)
    yield DifferenceKind.BYTES, "sha256", first.sha256, second.sha256
    offset = common_prefix_length(one.response_body, other.response_body)
    before, after = (_describe_stream_message_at(cassette, offset) for cassette in (one, other))
    yield DifferenceKind.BYTES, f"from byte {offset}", before, after
    if len(one.framed_messages) != len(other.framed_messages):
        before, after = (str(len(cassette.framed_messages)) for cassette in (one, other))
        yield DifferenceKind.BYTES, "messages", before, after


def _describe_stream_message_at(cassette: Cassette, offset: int) -> str:
    """The message that contains this byte; empty after the last message."""
    message_end = 0
    for number, message in enumerate(cassette.framed_messages, 1):
        message_end += len(message)
        if message_end > offset:
            return f"message {number}: {message.decode('utf-8', 'backslashreplace').strip()}"
    return ""


def _time_figures(cassette: Cassette) -> dict[str, str]:
    """The times of head, first byte, longest gap and end, and the number of reads."""
    arrivals = message_arrivals(cassette.framed_messages, cassette.reads)
    gaps = [arrival.gap_ms for arrival in arrivals][1:]
    figures = {
        "head": format_duration(cassette.response_head_at_ms),
        "first byte": format_duration(cassette.reads[0].at_ms) if cassette.reads else "",
        "longest gap": format_duration(max(gaps)) if gaps else "",
        "end": format_duration(cassette.response_end.at_ms),
        "reads": str(len(cassette.reads)),
    }
    return {name: value for name, value in figures.items() if value}
