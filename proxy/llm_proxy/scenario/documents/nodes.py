"""The nodes of scenario files: values with their positions.

They are composed from YAML or JSON; unquoted YAML text has its value by the core schema of YAML
1.2: `no`, `on` and `12:30` are text, `1e3` is a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from yaml.events import (
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    NodeEvent,
    ScalarEvent,
)

from llm_proxy.scenario.documents.mistakes import ROOT_PATH, DocumentMistake, child_path, quote_text
from llm_proxy.yaml_composer import CORE_CONSTANTS, SourceMark, YamlComposer, start_mark

ScalarValue = None | bool | int | float | str
"""The value of a scalar node."""

MAX_VALUES: Final = 1_000_000

_INT: Final = re.compile(r"[-+]?[0-9]+")
_PREFIXED_INT: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITY: Final = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN_LITERALS: Final = frozenset((".nan", ".NaN", ".NAN"))
_TYPE_BY_TAG: Final = MappingProxyType(
    {"null": type(None), "bool": bool, "int": int, "float": float}
)
_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NUMBER_FIRST_CHARS: Final = frozenset("+-.0123456789")
"""The characters that a number can start with."""
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
_MAX_DIGITS: Final = 400
"""Longer integers are too large in any case, and slow to convert."""


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """Text, a number, true, false or null."""

    value: ScalarValue
    mark: SourceMark
    source_text: str = ""
    """As written in the file, without quotes."""


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list."""

    nodes: tuple[Node, ...]
    mark: SourceMark


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """A member of an object."""

    name: str
    mark: SourceMark
    """The position of the name."""
    node: Node
    written_name: str = ""
    """The name as written in the file, if `name` is the canonical one."""


@dataclass(frozen=True, slots=True)
class ObjectNode:
    """An object; its names are unique."""

    entries: tuple[ObjectEntry, ...]
    mark: SourceMark
    struct: object = None
    """The struct of a checked object without mistakes."""

    def find_entry(self, name: str) -> ObjectEntry | None:
        """The entry with this name; None if there is none."""
        return next((entry for entry in self.entries if entry.name == name), None)


Node = ScalarNode | ListNode | ObjectNode


def plain_value(node: Node) -> Any:
    """The JSON value of a node, without positions; checked objects as their structs."""
    match node:
        case ScalarNode(value=value):
            return value
        case ListNode(nodes=nodes):
            return [plain_value(item) for item in nodes]
        case ObjectNode(entries=entries, struct=None):
            return {entry.name: plain_value(entry.node) for entry in entries}
        case ObjectNode(struct=struct):
            return struct


class NodeComposer(YamlComposer[Node]):
    """Composes the documents of a file; collects mistakes."""

    max_size = MAX_VALUES
    too_large_message = f"the file holds more than {MAX_VALUES:,} values: split it up"

    def __init__(self, file: str) -> None:
        super().__init__()
        self.documents: list[Node] = []
        self.mistakes: list[DocumentMistake] = []
        self.too_large_marks: set[SourceMark] = set()
        """The positions of numbers that are too large; their nodes have the source text."""
        self._file = file

    def compose_all(self, events: Iterator[Event]) -> None:
        """Add all documents of a text.  Raises `UnreadableDocument`."""
        for event in events:
            if isinstance(event, DocumentStartEvent):
                self.documents.append(self.compose(events))

    def size_of(self, event: NodeEvent) -> int:
        """Each value counts as 1."""
        return 1

    def alias_error(self, name: str, *, is_recursive: bool) -> str:
        """The message for an alias without a value."""
        if is_recursive:
            return f"*{name} stands within itself: write the value out"
        return (
            f"*{name} repeats nothing: there is no &{name} before it in this document; text that "
            "begins with * must be in quotes"
        )

    def make_scalar(self, event: ScalarEvent) -> ScalarNode:
        """The node of a scalar; an invalid one is recorded as a mistake."""
        value: ScalarValue = event.value
        try:
            if event.tag is not None:
                value = tagged_value(event.tag, event.value)
            elif event.implicit[0]:
                value = scalar_value(event.value)
        except ValueError as error:
            self._add_mistake(event, str(error))
            if event.tag is None:
                self.too_large_marks.add(start_mark(event))
        if isinstance(value, str) and _SURROGATE.search(value):
            message = (
                "this escape is half of a character: write the character itself, or both halves"
            )
            self._add_mistake(event, message)
            value = ""
        return ScalarNode(value, start_mark(event), event.value)

    def member_name(
        self, event: Event, value: Node, members: dict[str, tuple[Event, Node]]
    ) -> str | None:
        """The name in a node; None, and a mistake, for an invalid or repeated one."""
        if not isinstance(value, ScalarNode):
            message = "a name must be text, and this is a list or an object"
        elif not isinstance(value.value, str):
            shown_value = value.source_text or "nothing"
            message = f"a name must be text, and this is {shown_value}: put it in quotes"
        elif value.value == "<<" and isinstance(event, ScalarEvent) and event.implicit[0]:
            message = "<< takes over nothing here: write the fields out"
        elif value.value in members:
            first_line = start_mark(members[value.value][0]).line
            message = (
                f"{quote_text(value.value)} stands here twice: the first is in line {first_line}"
            )
        else:
            return value.value
        self._add_mistake(event, message)
        return None

    def make_collection(
        self, event: CollectionStartEvent, content: list[Node] | dict[str, tuple[Event, Node]]
    ) -> Node:
        """The node of a list or an object."""
        is_list = isinstance(content, list)
        if event.tag not in {None, "!", f"{_TAG_PREFIX}{'seq' if is_list else 'map'}"}:
            self._add_mistake(event, _unknown_tag_message(event.tag))
        if isinstance(content, list):
            return ListNode(tuple(content), start_mark(event))
        entries = (
            ObjectEntry(name, start_mark(name_event), node)
            for name, (name_event, node) in content.items()
        )
        return ObjectNode(tuple(entries), start_mark(event))

    def _add_mistake(self, event: Event, message: str) -> None:
        """Record a mistake at the current path."""
        path = ROOT_PATH
        for step in self.path:
            path = path if step == "" else child_path(path, step)
        mark = start_mark(event)
        self.mistakes.append(DocumentMistake(self._file, mark.line, mark.column, path, message))


def scalar_value(text: str) -> ScalarValue:
    """The value of unquoted text.  Raises `ValueError` for a number that is too large."""
    if text in CORE_CONSTANTS:
        return CORE_CONSTANTS[text]
    if text[0] not in _NUMBER_FIRST_CHARS:  # the most frequent case
        return text
    value: int | float
    if _INT.fullmatch(text):
        value = int(text) if len(text) <= _MAX_DIGITS else math.inf
    elif _FLOAT.fullmatch(text):
        value = float(text)
    elif _PREFIXED_INT.fullmatch(text):
        value = int(text, 0)
    elif (infinity := _INFINITY.fullmatch(text)) is not None:
        return float(f"{infinity[1]}inf")
    else:
        return math.nan if text in _NAN_LITERALS else text
    is_valid = (
        math.isfinite(value)
        if isinstance(value, float)
        else _MIN_INT <= value <= _MAX_INT  # as JSON parsers limit them
    )
    if not is_valid:
        shown = text if len(text) <= 24 else text[:21] + "…"
        raise ValueError(
            f"the number {shown} is too large: put it in quotes, or write fewer digits"
        )
    return value


def tagged_value(tag: str, text: str) -> ScalarValue:
    """The value of tagged text: `!!str 5`.  Raises `ValueError` if the tag does not fit."""
    tag_name = tag.removeprefix(_TAG_PREFIX)
    if tag in {"!", f"{_TAG_PREFIX}str"}:
        return text
    if tag_name not in _TYPE_BY_TAG or tag_name == tag:
        raise ValueError(_unknown_tag_message(tag))
    value = scalar_value(text)
    if tag_name == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not _TYPE_BY_TAG[tag_name]:
        raise ValueError(f"this is no {tag_name}, as its tag !!{tag_name} says: leave the tag out")
    return value


def _unknown_tag_message(tag: str) -> str:
    name = f"!!{tag.removeprefix(_TAG_PREFIX)}" if tag.startswith(_TAG_PREFIX) else tag
    return f"the tag {name} means nothing here: leave it out, or put the text in quotes"
