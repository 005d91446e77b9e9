"""YAML as recording libraries write it, read by the events of PyYAML's parser; the meaning is ours.

Text is text: only what every one of those libraries puts in quotes means something else without
them, so `1e3`, `no` and a date stay as they stand.  A file can do nothing but be refused: tags make
no objects of a program, and what aliases repeat is counted in full.

Of the objects that VCR.py writes, text, bytes and lists are read as such, by the names of their
tags (`OBJECTS`).  An exchange that holds another one becomes a `NotMade`.
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
from llm_proxy.importing.source import NotMade, Unreadable

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


def _only(arguments: Any, _: Any) -> Any:
    """The text or the list of pairs that an object was made of."""
    match arguments:
        case [str() | list() as value]:
            return value
        case []:
            return ""
        case _:
            raise ValueError


def _buffer(_: Any, state: Any) -> bytes:
    """The content of a file in memory, as which VCR.py keeps the body of a request."""
    match state:
        case [bytes() as value, *_]:
            return value
        case [str() as value, *_]:
            return value.encode("utf-8", "surrogatepass")
        case _:
            raise ValueError


def _bytearray(arguments: Any, _: Any) -> bytes:
    match arguments:
        case []:
            return b""
        case [bytes() as value]:
            return value
        case [str() as text, "latin-1" as encoding]:
            return text.encode(encoding)
        case _:
            raise ValueError


def _pieces(arguments: Any, _: Any) -> bytes:
    """What an iterator had to give that is the body of a request."""
    match arguments:
        case [list() as pieces] if all(isinstance(it, bytes) for it in pieces):
            return b"".join(pieces)
        case _:
            raise ValueError


OBJECTS: Final = MappingProxyType[str, Callable[[Any, Any], Any]](
    {
        "istr": _only,
        "MultiDict": _only,
        "CIMultiDict": _only,
        "BytesIO": _buffer,
        "bytearray": _bytearray,
        "iter": _pieces,
    }
)
"""The text, the bytes or the list that the arguments and the state of an object hold, by its
name.  Each raises `ValueError` for others."""


def read(data: bytes) -> Any:
    """The document of a file.  Raises `Unreadable`, also where it has more than one."""
    composer = _Composer()
    try:
        for event in yaml.parse(data, Loader=_LOADER):
            if isinstance(event, DocumentStartEvent) and composer.is_done:
                _refuse(event, "a second document begins, and only one is read")
            composer.take(event)
    except yaml.YAMLError as error:
        raise Unreadable(f"line {_line(error)}: it is no valid YAML: {_problem(error)}") from None
    return composer.document


class _Open:
    """A list or an object that is not closed yet."""

    def __init__(
        self, value: list[Any] | dict[str, Any], event: MappingStartEvent | SequenceStartEvent
    ) -> None:
        self.value = value
        self.event = event
        self.not_made: NotMade | None = None
        """What it holds that is not read."""
        self.name: Any = _NOTHING
        """The name whose value comes next."""
        self.weight = _NODE


class _Composer:
    def __init__(self) -> None:
        self.document: Any = None
        self.is_done = False
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._weight = 0

    def take(self, event: Event) -> None:
        """The next event.  Raises `Unreadable`."""
        match event:
            case ScalarEvent():
                weight = _NODE + len(event.value)
                self._count(event, weight)
                self._add(event, _scalar(event), weight, event.anchor)
            case CollectionEndEvent():
                it = self._open.pop()
                self._add(event, _closed(it), it.weight, it.event.anchor)
            case MappingStartEvent():
                self._begin(event, {})
            case SequenceStartEvent():
                self._begin(event, [])
            case AliasEvent():
                name = str(event.anchor)
                if name not in self._anchors:
                    _refuse(event, f"*{printable(name, 80)} repeats nothing that ends before it")
                value, weight = self._anchors[name]
                self._count(event, weight)
                self._add(event, value, weight, None)
            case _:
                return

    def _begin(
        self, event: MappingStartEvent | SequenceStartEvent, value: list[Any] | dict[str, Any]
    ) -> None:
        if len(self._open) >= MAX_DEPTH:
            _refuse(event, f"values stand within each other more than {MAX_DEPTH} deep")
        self._count(event, _NODE)
        self._open.append(_Open(value, event))

    def _count(self, event: Event, weight: int) -> None:
        self._weight += weight
        if self._weight > MAX_WEIGHT:
            _refuse(event, f"its values take more than {MAX_WEIGHT} bytes, repetitions included")

    def _add(self, event: Event, value: Any, weight: int, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = (value, weight)
        if isinstance(value, NotMade) and not any(
            isinstance(it.value, list) for it in self._open[:2]
        ):
            raise Unreadable(value.why)
        if not self._open:
            self.document, self.is_done = value, True
            return
        within = self._open[-1]
        within.weight += weight
        if isinstance(value, NotMade) and not self._is_item(within):
            within.not_made = within.not_made or value
            value = ""
        if isinstance(within.value, list):
            within.value.append(value)
        elif within.name is _NOTHING:
            within.name = _name(event, value)
        else:
            within.value[within.name] = value
            within.name = _NOTHING

    def _is_item(self, within: _Open) -> bool:
        """Whether what stands in this list is an exchange."""
        return isinstance(within.value, list) and len(self._open) < 3


def _closed(it: _Open) -> Any:
    """What a list or an object that ends here stands for."""
    tag = it.event.tag
    if it.not_made is not None:
        return it.not_made
    if tag is None or tag in _COLLECTIONS:
        return it.value
    found = _OBJECT.fullmatch(tag)
    make = OBJECTS.get(found["name"]) if found else None
    arguments, state = it.value, None
    if isinstance(arguments, dict) and not arguments.keys() - {"args", "state"}:
        arguments, state = arguments.get("args", []), arguments.get("state")
    try:
        return make(arguments, state) if make else _not_made(it.event, tag)
    except ValueError:
        return _not_made(it.event, tag)


def _name(event: Event, value: Any) -> str:
    if isinstance(value, list | dict | bytes):
        _refuse(event, "a name must be text, and this is none")
    return value if isinstance(value, str) else str(value)


def _scalar(event: ScalarEvent) -> Any:
    tag, text = event.tag, event.value
    if tag in _BINARY:
        try:
            return b64decode("".join(text.split()), validate=True)
        except ValueError:
            _refuse(event, "this is no base64")
    if tag is not None and tag not in _TEXT:
        return _not_made(event, tag)
    if tag is not None or not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _not_made(event: Event, tag: str) -> NotMade:
    name = printable(tag.replace("tag:yaml.org,2002:", "!!"), 80)
    why = f"the tag {name} stands for an object of a program, which is not made"
    return NotMade(f"{_place(event)}: {why}")


def _refuse(event: Event, why: str) -> Any:
    raise Unreadable(f"{_place(event)}: {why}")


def _place(event: Event) -> str:
    mark = event.start_mark
    return f"line {1 if mark is None else mark.line + 1}"


def _line(error: yaml.YAMLError) -> int:
    mark = getattr(error, "problem_mark", None)
    return 1 if mark is None else int(mark.line) + 1


def _problem(error: yaml.YAMLError) -> str:
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or "it breaks off"
    return printable(str(said), 200)
