"""YAML as recording libraries write it, read by the events of PyYAML's parser; the meaning is ours.

Text is text: only what every one of those libraries puts in quotes means something else without
them, so `1e3`, `no` and a date stay as they stand.  A file can do nothing but be refused: tags make
no objects of a program, and what aliases repeat is counted in full.

Of the objects that VCR.py writes, text, bytes and lists are read as such, by the names of their
tags (`OBJECTS`).  An exchange that holds another one becomes a `UnsupportedObject`.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from llm_proxy.errors import printable
from llm_proxy.importing.source import UnreadableFile, UnsupportedObject

MAX_DEPTH: Final = 100
MAX_WEIGHT: Final = 256 * 1024 * 1024
"""Bytes that the values of a file may have, about, each repetition counted in full."""

_LOADER: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_NODE: Final = 64
"""Bytes of a value beyond its own."""
_WORDS: Final = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,39})")
_FLOAT: Final = re.compile(r"[-+]?[0-9]{1,40}\.[0-9]{0,40}(?:[eE][-+][0-9]{1,4})?")
_TEXT: Final = frozenset(
    ("!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:python/unicode",
     "tag:yaml.org,2002:python/str")
)  # fmt: skip
_BINARY: Final = frozenset(
    ("!binary", "tag:yaml.org,2002:binary", "tag:yaml.org,2002:python/bytes")
)
_COLLECTIONS: Final = frozenset(
    ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:python/tuple",
     "tag:yaml.org,2002:python/list", "tag:yaml.org,2002:python/dict")
)  # fmt: skip
_NOTHING: Final = object()
_OBJECT: Final = re.compile(
    r"tag:yaml\.org,2002:python/object/(?:new|apply):"
    r"(?:multidict|_io|io|builtins)\.(?:\w{1,99}\.){0,9}(?P<name>\w{1,99})"
)
"""Tags of objects that may be read, by the last part of their names."""


def _single_argument(arguments: Any, _: Any) -> Any:
    match arguments:
        case [str() | list() as value]:
            return value
        case []:
            return ""
        case _:
            raise ValueError


def _decode_bytesio(_: Any, state: Any) -> bytes:
    """The content of a file in memory, as which VCR.py keeps the body of a request."""
    match state:
        case [bytes() as value, *_]:
            return value
        case [str() as value, *_]:
            return value.encode("utf-8", "surrogatepass")
        case _:
            raise ValueError


def _decode_bytearray(arguments: Any, _: Any) -> bytes:
    match arguments:
        case []:
            return b""
        case [bytes() as value]:
            return value
        case [str() as text, "latin-1" as encoding]:
            return text.encode(encoding)
        case _:
            raise ValueError


def _decode_iterator(arguments: Any, _: Any) -> bytes:
    match arguments:
        case [list() as pieces] if all(isinstance(piece, bytes) for piece in pieces):
            return b"".join(pieces)
        case _:
            raise ValueError


OBJECTS: Final = MappingProxyType[str, Callable[[Any, Any], Any]](
    {
        "istr": _single_argument,
        "MultiDict": _single_argument,
        "CIMultiDict": _single_argument,
        "BytesIO": _decode_bytesio,
        "bytearray": _decode_bytearray,
        "iter": _decode_iterator,
    }
)
"""The text, the bytes or the list that the arguments and the state of an object hold, by its
name.  Each raises `ValueError` for others."""


def read_document(data: bytes) -> Any:
    """The document of a file.  Raises `Unreadable`, also where it has more than one."""
    composer = _YamlComposer()
    try:
        for event in yaml.parse(data, Loader=_LOADER):
            if isinstance(event, DocumentStartEvent) and composer.is_done:
                _unreadable(event, "a second document begins, and only one is read")
            composer.feed(event)
    except yaml.YAMLError as error:
        raise UnreadableFile(
            f"line {_line_of_error(error)}: it is no valid YAML: {_problem_text(error)}"
        ) from None
    return composer.document


class _OpenYamlCollection:
    """A list or an object that is not closed yet."""

    def __init__(
        self, value: list[Any] | dict[str, Any], event: MappingStartEvent | SequenceStartEvent
    ) -> None:
        self.value = value
        self.event = event
        self.not_made: UnsupportedObject | None = None
        """What it holds that is not read."""
        self.name: Any = _NOTHING
        """The name whose value comes next."""
        self.weight = _NODE


class _YamlComposer:
    def __init__(self) -> None:
        self.document: Any = None
        self.is_done = False
        self._open: list[_OpenYamlCollection] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._weight = 0

    def feed(self, event: Event) -> None:
        """The next event.  Raises `Unreadable`."""
        match event:
            case ScalarEvent():
                weight = _NODE + len(event.value)
                self._count_weight(event, weight)
                self._add_value(event, _scalar_value(event), weight, event.anchor)
            case CollectionEndEvent():
                open_yaml_collection = self._open.pop()
                self._add_value(
                    event,
                    _closed_value(open_yaml_collection),
                    open_yaml_collection.weight,
                    open_yaml_collection.event.anchor,
                )
            case MappingStartEvent():
                self._start_collection(event, {})
            case SequenceStartEvent():
                self._start_collection(event, [])
            case AliasEvent():
                name = str(event.anchor)
                if name not in self._anchors:
                    _unreadable(
                        event, f"*{printable(name, 80)} repeats nothing that ends before it"
                    )
                value, weight = self._anchors[name]
                self._count_weight(event, weight)
                self._add_value(event, value, weight, None)
            case _:
                return

    def _start_collection(
        self, event: MappingStartEvent | SequenceStartEvent, value: list[Any] | dict[str, Any]
    ) -> None:
        if len(self._open) >= MAX_DEPTH:
            _unreadable(event, f"values stand within each other more than {MAX_DEPTH} deep")
        self._count_weight(event, _NODE)
        self._open.append(_OpenYamlCollection(value, event))

    def _count_weight(self, event: Event, weight: int) -> None:
        self._weight += weight
        if self._weight > MAX_WEIGHT:
            _unreadable(
                event, f"its values take more than {MAX_WEIGHT} bytes, repetitions included"
            )

    def _add_value(self, event: Event, value: Any, weight: int, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = (value, weight)
        if isinstance(value, UnsupportedObject) and not any(
            isinstance(open_yaml_collection.value, list) for open_yaml_collection in self._open[:2]
        ):
            raise UnreadableFile(value.reason)
        if not self._open:
            self.document, self.is_done = value, True
            return
        within = self._open[-1]
        within.weight += weight
        if isinstance(value, UnsupportedObject) and not self._is_exchange_item(within):
            within.not_made = within.not_made or value
            value = ""
        if isinstance(within.value, list):
            within.value.append(value)
        elif within.name is _NOTHING:
            within.name = _member_name(event, value)
        else:
            within.value[within.name] = value
            within.name = _NOTHING

    def _is_exchange_item(self, within: _OpenYamlCollection) -> bool:
        return isinstance(within.value, list) and len(self._open) < 3


def _closed_value(open_yaml_collection: _OpenYamlCollection) -> Any:
    tag = open_yaml_collection.event.tag
    if open_yaml_collection.not_made is not None:
        return open_yaml_collection.not_made
    if tag is None or tag in _COLLECTIONS:
        return open_yaml_collection.value
    found = _OBJECT.fullmatch(tag)
    make = OBJECTS.get(found["name"]) if found else None
    arguments, state = open_yaml_collection.value, None
    if isinstance(arguments, dict) and not arguments.keys() - {"args", "state"}:
        arguments, state = arguments.get("args", []), arguments.get("state")
    try:
        return (
            make(arguments, state) if make else _unsupported_object(open_yaml_collection.event, tag)
        )
    except ValueError:
        return _unsupported_object(open_yaml_collection.event, tag)


def _member_name(event: Event, value: Any) -> str:
    if isinstance(value, list | dict | bytes):
        _unreadable(event, "a name must be text, and this is none")
    return value if isinstance(value, str) else str(value)


def _scalar_value(event: ScalarEvent) -> Any:
    tag, text = event.tag, event.value
    if tag in _BINARY:
        try:
            return b64decode("".join(text.split()), validate=True)
        except ValueError:
            _unreadable(event, "this is no base64")
    if tag is not None and tag not in _TEXT:
        return _unsupported_object(event, tag)
    if tag is not None or not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _unsupported_object(event: Event, tag: str) -> UnsupportedObject:
    name = printable(tag.replace("tag:yaml.org,2002:", "!!"), 80)
    why = f"the tag {name} stands for an object of a program, which is not made"
    return UnsupportedObject(f"{_line_of_event(event)}: {why}")


def _unreadable(event: Event, why: str) -> Any:
    raise UnreadableFile(f"{_line_of_event(event)}: {why}")


def _line_of_event(event: Event) -> str:
    mark = event.start_mark
    return f"line {1 if mark is None else mark.line + 1}"


def _line_of_error(error: yaml.YAMLError) -> int:
    mark = getattr(error, "problem_mark", None)
    return 1 if mark is None else int(mark.line) + 1


def _problem_text(error: yaml.YAMLError) -> str:
    value = getattr(error, "problem", None) or getattr(error, "reason", None) or "it breaks off"
    return printable(str(value), 200)
