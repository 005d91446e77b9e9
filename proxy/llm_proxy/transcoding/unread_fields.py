"""Finds the fields of a request body that its conversation does not contain.

A field counts as unread if the body without it, and with another value, decodes to the same
conversation, so that every dialect is covered without a table of its fields.  So does an item of a
list, such as a block of content, if the body without the items of its shape does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import Dialect
from llm_proxy.dialects.lenient_json import (
    Fields,
    compact_json,
    get_text,
    object_fields,
    parse_object,
)
from llm_proxy.display import json_path_step
from llm_proxy.exchange import Request
from llm_proxy.turns import Json

_MAX_DEPTH: Final = 4
"""The most names in a path: `$.messages[*].content[*].source.data` has four."""
_EMPTY_VALUES: Final[tuple[Json, ...]] = (None, "", [], {})
_FORM_FIELDS: Final = frozenset(("id", "index", "object", "role", "status", "type"))
"""Fields that identify an object, or name its kind."""
_NO_CONTENT_FIELDS: Final = _FORM_FIELDS | {"format"}
_DELIVERY_FIELDS: Final = frozenset(("model", "stream", "stream_options"))
"""Fields of the body that say who responds, and how the response is sent."""

_MAX_TEXT_CHARS: Final = 1024
_KEPT_CHARS: Final = 256
"""The start of a long text, such as the type of media in a data URL, is enough for a decoder."""

_Path = tuple[str, ...]
"""The names of nested members; a list between them stands for each of its items."""
_Change = Callable[[Json], Json]
_Shape = tuple[object, ...]
"""The type of an item, and the types and names of its members."""


@dataclass(frozen=True, slots=True)
class UnreadField:
    """A field of a body, or the items of a list, that the conversation does not contain."""

    path: str
    """The JSONPath; for items with their type: `$.messages[*].content[*] (document)`."""
    is_content: bool
    """Whether the model reads it as part of the prompt: documents, a file by its id."""


def unread_fields(dialect: Dialect, request: Request) -> tuple[UnreadField, ...]:
    """The fields that have a value and are not in the request's conversation."""
    body = _shortened(dict(parse_object(request.body)), {})

    def decode(value: Json) -> Conversation | None:
        changed_body = compact_json(value).encode("utf-8", "surrogatepass")
        conversation = dialect.decode_request(replace(request, body=changed_body))
        # These only report the fields of a request; encoders do not read them.
        return conversation and replace(
            conversation, reasoning_enabled=False, is_stored_by_provider=False
        )

    conversation = decode(body)

    def is_unread(path: _Path) -> bool:
        # Most fields are read, which the few items that have them prove sooner than the body does.
        relevant_items = _only_with(body, path)
        for part, decoded in ((relevant_items, decode(relevant_items)), (body, conversation)):
            changed_parts = (_replaced(part, path, change) for change in (_removed, _altered))
            if any(decode(changed) != decoded for changed in changed_parts):
                return False
        return True

    def fields_below(prefix: _Path) -> Iterator[UnreadField]:
        nonlocal body
        for name in _member_names(body, prefix):
            path = (*prefix, name)
            is_prompt = path[0] in dialect.prompt_fields
            if is_unread(path):
                yield UnreadField(_json_path(body, path), is_prompt and len(path) == 1)
                continue
            for shape, item in _items_by_shape(body, path).items() if is_prompt else ():
                without_items = _replaced(body, path, partial(_without_shape, shape))
                if decode(without_items) == conversation:
                    kind = get_text(item, "type") or ", ".join(item)
                    label = f"{_json_path(body, path)}[*] ({kind})"
                    yield UnreadField(label, _has_text(dict(item)))
                    body = without_items
            if len(path) < _MAX_DEPTH:
                yield from fields_below(path)

    return tuple(fields_below(()))


def _shortened(value: Json, numbers: dict[str, int]) -> Json:
    """The value with the start of each long text, and a number by text, in place of the text.

    Texts that may be JSON stay whole, since some dialects parse them.
    """
    match value:
        case list():
            return [*map(_shortened, value, repeat(numbers))]
        case dict():
            return dict(zip(value, map(_shortened, value.values(), repeat(numbers)), strict=True))
        case str() if len(value) > _MAX_TEXT_CHARS and not value.lstrip().startswith(("{", "[")):
            return f"{value[:_KEPT_CHARS]}{numbers.setdefault(value, len(numbers))}"
        case _:
            return value


def _only_with(value: Json, path: _Path) -> Json:
    """The value without items that have nothing at the end of a path, and with one of others."""
    match value:
        case list():
            return [_only_with(item, path) for item in value if _has_member(item, path)]
        case dict() if len(path) > 1 and path[0] in value:
            others = {
                name: member[:1] if isinstance(member, list) else member
                for name, member in value.items()
            }
            return {**others, path[0]: _only_with(value[path[0]], path[1:])}
        case _:
            return value


def _has_member(value: Json, path: _Path) -> bool:
    """Whether there is a member at the end of a path."""
    parents = _values_at(value, path[:-1])
    return any(path[-1] in object_fields(parent) for parent in parents)


def _values_at(value: Json, path: _Path) -> Iterator[Json]:
    """The members at a path, or their items."""
    match value:
        case list():
            for item in value:
                yield from _values_at(item, path)
        case dict() if path:
            yield from _values_at(value.get(path[0]), path[1:])
        case _ if not path:
            yield value
        case _:
            pass


def _lists_at(body: Json, path: _Path) -> Iterator[list[Json]]:
    """The members at a path that are lists."""
    for parent in _values_at(body, path[:-1]):
        member = object_fields(parent).get(path[-1])
        if isinstance(member, list):
            yield member


def _member_names(body: Json, path: _Path) -> tuple[str, ...]:
    """The names of the members at a path that have a value, and more than the form of one."""
    ignored_names = _FORM_FIELDS if path else _DELIVERY_FIELDS
    return tuple(
        dict.fromkeys(
            name
            for value in _values_at(body, path)
            for name, member in object_fields(value).items()
            if name not in ignored_names and member not in _EMPTY_VALUES
        )
    )


def _items_by_shape(body: Json, path: _Path) -> dict[_Shape, Fields]:
    """The first item of each shape, of the lists at a path."""
    items = (item for items in _lists_at(body, path) for item in items)
    return {_shape(item): item for item in items if isinstance(item, dict)}


def _shape(item: Json) -> _Shape:
    fields = object_fields(item)
    members = ((name, object_fields(value)) for name, value in fields.items())
    return (
        get_text(fields, "type"),
        *((name, get_text(member, "type"), *member) for name, member in members),
    )


def _without_shape(shape: _Shape, value: Json) -> Json:
    if not isinstance(value, list):
        return value
    return [item for item in value if not isinstance(item, dict) or _shape(item) != shape]


def _has_text(value: Json) -> bool:
    """Whether a value has a text that is not only a part of its form."""
    match value:
        case dict():
            return any(
                _has_text(item) for name, item in value.items() if name not in _NO_CONTENT_FIELDS
            )
        case list():
            return any(map(_has_text, value))
        case _:
            return isinstance(value, str) and bool(value)


def _replaced(value: Json, path: _Path, change: _Change) -> Json:
    """The value with the members at a path changed; one that is changed to None is removed."""
    match value:
        case list():
            return [_replaced(item, path, change) for item in value]
        case dict() if path[0] in value:
            member, others = value[path[0]], path[1:]
            changed = _replaced(member, others, change) if others else change(member)
            if changed is None:
                return {name: item for name, item in value.items() if name != path[0]}
            return {**value, path[0]: changed}
        case _:
            return value


def _removed(_value: Json) -> Json:
    return None


def _altered(value: Json) -> Json:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}x"
        case list():
            return [*map(_altered, value)]
        case dict():
            return {name: _altered(item) for name, item in value.items()}
        case None:
            return None


def _json_path(body: Json, path: _Path) -> str:
    """The JSONPath, with `[*]` after each name of a list except the last."""
    text = "$"
    for length, name in enumerate(path, 1):
        text += json_path_step(name)
        if length < len(path) and any(True for _ in _lists_at(body, path[:length])):
            text += "[*]"
    return text
