"""Parses YAML as recording libraries write it, from the events of PyYAML's parser.

Plain scalars stay text unless all of those libraries quote such text, so `1e3`, `no` and dates are
text.  Files are untrusted: tags build no language objects, and aliases count in full towards the
size limit.

Of the objects that VCR.py writes, those that hold text, bytes or lists are decoded by the names of
their tags (`OBJECT_DECODERS`).  An exchange with another object becomes an `UnsupportedYamlObject`.
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

from llm_proxy.errors import printable_excerpt
from llm_proxy.importing.source import UnreadableFile, UnsupportedYamlObject

MAX_DEPTH: Final = 100
MAX_VALUE_BYTES: Final = 256 * 1024 * 1024
"""Limit of the approximate bytes of a file's values, each alias counted in full."""

_LOADER: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_NODE_OVERHEAD_BYTES: Final = 64
"""Bytes counted for a value beside its text."""
_SCALAR_CONSTANTS: Final = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,39})")
_FLOAT: Final = re.compile(r"[-+]?[0-9]{1,40}\.[0-9]{0,40}(?:[eE][-+][0-9]{1,4})?")
_TEXT_TAGS: Final = frozenset(
    ("!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:python/unicode",
     "tag:yaml.org,2002:python/str")
)  # fmt: skip
_BINARY_TAGS: Final = frozenset(
    ("!binary", "tag:yaml.org,2002:binary", "tag:yaml.org,2002:python/bytes")
)
_COLLECTION_TAGS: Final = frozenset(
    ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:python/tuple",
     "tag:yaml.org,2002:python/list", "tag:yaml.org,2002:python/dict")
)  # fmt: skip
_NO_PENDING_NAME: Final = object()
_OBJECT_TAG: Final = re.compile(
    r"tag:yaml\.org,2002:python/object/(?:new|apply):"
    r"(?:multidict|_io|io|builtins)\.(?:\w{1,99}\.){0,9}(?P<name>\w{1,99})"
)
"""Tags of objects that may be decoded; the last part of the name selects the decoder."""


def _decode_single_argument(arguments: Any, _: Any) -> Any:
    match arguments:
        case [str() | list() as value]:
            return value
        case []:
            return ""
        case _:
            raise ValueError


def _decode_bytesio(_: Any, state: Any) -> bytes:
    """The content of an `io.BytesIO`, as which VCR.py stores some request bodies."""
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


OBJECT_DECODERS: Final = MappingProxyType[str, Callable[[Any, Any], Any]](
    {
        "istr": _decode_single_argument,
        "MultiDict": _decode_single_argument,
        "CIMultiDict": _decode_single_argument,
        "BytesIO": _decode_bytesio,
        "bytearray": _decode_bytearray,
        "iter": _decode_iterator,
    }
)
"""Functions from an object's arguments and state to its text, bytes or list, by class name.  Each
raises `ValueError` for other arguments."""


def parse_yaml(data: bytes) -> Any:
    """The document of a file.  Raises `UnreadableFile`, also for a second document."""
    composer = _YamlComposer()
    try:
        for event in yaml.parse(data, Loader=_LOADER):
            if isinstance(event, DocumentStartEvent) and composer.is_done:
                _raise_unreadable(event, "a second document begins, and only one is read")
            composer.feed(event)
    except yaml.YAMLError as error:
        raise UnreadableFile(
            f"line {_error_line_number(error)}: it is no valid YAML: {_problem_text(error)}"
        ) from None
    return composer.document


class _OpenYamlCollection:
    """A list or a mapping whose end event has not come yet."""

    def __init__(
        self, value: list[Any] | dict[str, Any], event: MappingStartEvent | SequenceStartEvent
    ) -> None:
        self.value = value
        self.event = event
        self.unsupported: UnsupportedYamlObject | None = None
        """The first unsupported object in it."""
        self.pending_name: Any = _NO_PENDING_NAME
        """The member name whose value comes next."""
        self.size_bytes = _NODE_OVERHEAD_BYTES


class _YamlComposer:
    def __init__(self) -> None:
        self.document: Any = None
        self.is_done = False
        self._open_collections: list[_OpenYamlCollection] = []
        self._values_by_anchor: dict[str, tuple[Any, int]] = {}
        self._total_bytes = 0

    def feed(self, event: Event) -> None:
        """Handle the next event.  Raises `UnreadableFile`."""
        match event:
            case ScalarEvent():
                size_bytes = _NODE_OVERHEAD_BYTES + len(event.value)
                self._enforce_byte_limit(event, size_bytes)
                self._add_value(event, _scalar_value(event), size_bytes, event.anchor)
            case CollectionEndEvent():
                open_yaml_collection = self._open_collections.pop()
                self._add_value(
                    event,
                    _collection_value(open_yaml_collection),
                    open_yaml_collection.size_bytes,
                    open_yaml_collection.event.anchor,
                )
            case MappingStartEvent():
                self._start_collection(event, {})
            case SequenceStartEvent():
                self._start_collection(event, [])
            case AliasEvent():
                name = str(event.anchor)
                if name not in self._values_by_anchor:
                    _raise_unreadable(
                        event, f"*{printable_excerpt(name, 80)} repeats nothing that ends before it"
                    )
                value, size_bytes = self._values_by_anchor[name]
                self._enforce_byte_limit(event, size_bytes)
                self._add_value(event, value, size_bytes, None)
            case _:
                return

    def _start_collection(
        self, event: MappingStartEvent | SequenceStartEvent, value: list[Any] | dict[str, Any]
    ) -> None:
        if len(self._open_collections) >= MAX_DEPTH:
            _raise_unreadable(event, f"values stand within each other more than {MAX_DEPTH} deep")
        self._enforce_byte_limit(event, _NODE_OVERHEAD_BYTES)
        self._open_collections.append(_OpenYamlCollection(value, event))

    def _enforce_byte_limit(self, event: Event, size_bytes: int) -> None:
        self._total_bytes += size_bytes
        if self._total_bytes > MAX_VALUE_BYTES:
            _raise_unreadable(
                event, f"its values take more than {MAX_VALUE_BYTES} bytes, repetitions included"
            )

    def _add_value(self, event: Event, value: Any, size_bytes: int, anchor: str | None) -> None:
        if anchor:
            self._values_by_anchor[anchor] = (value, size_bytes)
        if isinstance(value, UnsupportedYamlObject) and not any(
            isinstance(open_yaml_collection.value, list)
            for open_yaml_collection in self._open_collections[:2]
        ):
            raise UnreadableFile(value.reason)
        if not self._open_collections:
            self.document, self.is_done = value, True
            return
        parent = self._open_collections[-1]
        parent.size_bytes += size_bytes
        if isinstance(value, UnsupportedYamlObject) and not self._is_exchange_list(parent):
            parent.unsupported = parent.unsupported or value
            value = ""
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.pending_name is _NO_PENDING_NAME:
            parent.pending_name = _member_name(event, value)
        else:
            parent.value[parent.pending_name] = value
            parent.pending_name = _NO_PENDING_NAME

    def _is_exchange_list(self, collection: _OpenYamlCollection) -> bool:
        return isinstance(collection.value, list) and len(self._open_collections) < 3


def _collection_value(open_yaml_collection: _OpenYamlCollection) -> Any:
    tag = open_yaml_collection.event.tag
    if open_yaml_collection.unsupported is not None:
        return open_yaml_collection.unsupported
    if tag is None or tag in _COLLECTION_TAGS:
        return open_yaml_collection.value
    tag_match = _OBJECT_TAG.fullmatch(tag)
    decode_object = OBJECT_DECODERS.get(tag_match["name"]) if tag_match else None
    arguments, state = open_yaml_collection.value, None
    if isinstance(arguments, dict) and not arguments.keys() - {"args", "state"}:
        arguments, state = arguments.get("args", []), arguments.get("state")
    try:
        return (
            decode_object(arguments, state)
            if decode_object
            else _unsupported_object(open_yaml_collection.event, tag)
        )
    except ValueError:
        return _unsupported_object(open_yaml_collection.event, tag)


def _member_name(event: Event, value: Any) -> str:
    if isinstance(value, list | dict | bytes):
        _raise_unreadable(event, "a name must be text, and this is none")
    return value if isinstance(value, str) else str(value)


def _scalar_value(event: ScalarEvent) -> Any:
    tag, text = event.tag, event.value
    if tag in _BINARY_TAGS:
        try:
            return b64decode("".join(text.split()), validate=True)
        except ValueError:
            _raise_unreadable(event, "this is no base64")
    if tag is not None and tag not in _TEXT_TAGS:
        return _unsupported_object(event, tag)
    if tag is not None or not event.implicit[0]:
        return text
    if text in _SCALAR_CONSTANTS:
        return _SCALAR_CONSTANTS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _unsupported_object(event: Event, tag: str) -> UnsupportedYamlObject:
    name = printable_excerpt(tag.replace("tag:yaml.org,2002:", "!!"), 80)
    reason = f"the tag {name} stands for an object of a program, which is not made"
    return UnsupportedYamlObject(f"{_event_line_label(event)}: {reason}")


def _raise_unreadable(event: Event, reason: str) -> Any:
    raise UnreadableFile(f"{_event_line_label(event)}: {reason}")


def _event_line_label(event: Event) -> str:
    mark = event.start_mark
    return f"line {1 if mark is None else mark.line + 1}"


def _error_line_number(error: yaml.YAMLError) -> int:
    mark = getattr(error, "problem_mark", None)
    return 1 if mark is None else int(mark.line) + 1


def _problem_text(error: yaml.YAMLError) -> str:
    value = getattr(error, "problem", None) or getattr(error, "reason", None) or "it breaks off"
    return printable_excerpt(str(value), 200)
