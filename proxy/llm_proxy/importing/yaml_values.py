"""YAML as recording libraries write it, read by the events of PyYAML's parser; the meaning is ours.

Text is text: only what every one of those libraries puts in quotes means something else without
them, so `1e3`, `no` and a date stay as they stand.  A file can do nothing but be refused: tags make
no objects, and what aliases repeat is counted in full.
"""

from __future__ import annotations

import re
from base64 import b64decode
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
from llm_proxy.importing.source import Unreadable

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
_BINARY: Final = frozenset(("!binary", "tag:yaml.org,2002:binary"))
_COLLECTIONS: Final = frozenset(
    ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:python/tuple",
     "tag:yaml.org,2002:python/list", "tag:yaml.org,2002:python/dict")
)  # fmt: skip
_NOTHING: Final = object()


def read(data: bytes) -> Any:
    """The first document of a file.  Raises `Unreadable`."""
    composer = _Composer()
    try:
        for event in yaml.parse(data, Loader=_LOADER):
            if isinstance(event, DocumentStartEvent) and composer.is_done:
                break
            composer.take(event)
    except yaml.YAMLError as error:
        raise Unreadable(f"line {_line(error)}: it is no valid YAML: {_problem(error)}") from None
    return composer.document


class _Open:
    """A list or an object that is not closed yet."""

    def __init__(self, value: list[Any] | dict[str, Any], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
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
                self._add(event, it.value, it.weight, it.anchor)
            case MappingStartEvent():
                self._begin(event, {}, event.tag, event.anchor)
            case SequenceStartEvent():
                self._begin(event, [], event.tag, event.anchor)
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
        self, event: Event, value: list[Any] | dict[str, Any], tag: str | None, anchor: str | None
    ) -> None:
        if tag is not None and tag not in _COLLECTIONS:
            _refuse(event, _no_tag(tag))
        if len(self._open) >= MAX_DEPTH:
            _refuse(event, f"values stand within each other more than {MAX_DEPTH} deep")
        self._count(event, _NODE)
        self._open.append(_Open(value, anchor))

    def _count(self, event: Event, weight: int) -> None:
        self._weight += weight
        if self._weight > MAX_WEIGHT:
            _refuse(event, f"its values take more than {MAX_WEIGHT} bytes, repetitions included")

    def _add(self, event: Event, value: Any, weight: int, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = (value, weight)
        if not self._open:
            self.document, self.is_done = value, True
            return
        within = self._open[-1]
        within.weight += weight
        if isinstance(within.value, list):
            within.value.append(value)
        elif within.name is _NOTHING:
            within.name = _name(event, value)
        else:
            within.value[within.name] = value
            within.name = _NOTHING


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
        _refuse(event, _no_tag(tag))
    if tag is not None or not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _no_tag(tag: str) -> str:
    name = printable(tag.replace("tag:yaml.org,2002:", "!!"), 80)
    return f"the tag {name} stands for an object of a program, which is not made"


def _refuse(event: Event, why: str) -> Any:
    mark = event.start_mark
    raise Unreadable(f"line {1 if mark is None else mark.line + 1}: {why}")


def _line(error: yaml.YAMLError) -> int:
    mark = getattr(error, "problem_mark", None)
    return 1 if mark is None else int(mark.line) + 1


def _problem(error: yaml.YAMLError) -> str:
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or "it breaks off"
    return printable(str(said), 200)
