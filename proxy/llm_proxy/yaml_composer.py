"""Composes the values of documents from the events of PyYAML's parser.

Documents are untrusted: values stand within each other at most `MAX_DEPTH` deep, and their size is
limited, where each alias (`*name`) counts in full.  Tags build no language objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final, Generic, NamedTuple, TypeVar

import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    Event,
    MappingEndEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

T = TypeVar("T")

Loader = type[yaml.BaseLoader] | type[yaml.CBaseLoader]

DEFAULT_LOADER: Final[Loader] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Its parser is in C if available; only the parser is used."""
MAX_DEPTH: Final = 100
TOO_DEEP_MESSAGE: Final = f"values are nested more than {MAX_DEPTH} levels deep"

CORE_CONSTANTS: Final = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
"""The values of the plain scalars that are neither text nor a number."""


class SourceMark(NamedTuple):
    """A position in a text: line, and column in characters, both from 1."""

    line: int
    column: int


class UnreadableDocument(Exception):
    """A text that cannot be parsed beyond this position."""

    def __init__(
        self, mark: SourceMark, message: str, *, discards_last_document: bool = False
    ) -> None:
        """`discards_last_document`: the last document that was parsed is incomplete."""
        self.mark = mark
        self.message = message
        self.discards_last_document = discards_last_document
        super().__init__(message)


def start_mark(event: Event) -> SourceMark:
    """The position at which an event begins."""
    mark = event.start_mark
    return SourceMark(1, 1) if mark is None else SourceMark(mark.line + 1, mark.column + 1)


class YamlComposer(ABC, Generic[T]):
    """Composes documents; a subclass makes their values and measures their size."""

    max_size: int
    too_large_message: str

    def __init__(self) -> None:
        self.path: list[str | int] = []
        """The names and indexes that lead to the value being composed."""
        self._size = 0
        self._deepest = 0
        """The depth of the deepest value so far within the one that is being composed."""
        self._anchored: dict[str, tuple[T, int, int] | None] = {}
        """Value, size and height by anchor; None while the value is being composed."""

    def compose(self, events: Iterator[Event]) -> T:
        """The document whose start event came last.

        Raises `UnreadableDocument` beyond the limits, and for an unknown or recursive alias.
        """
        self._anchored = {}
        return self._compose_value(events, next(events), 0)

    @abstractmethod
    def size_of(self, event: NodeEvent) -> int:
        """The size of a scalar, or of a collection without its items."""

    @abstractmethod
    def alias_error(self, name: str, *, is_recursive: bool) -> str:
        """The message for an alias of an unknown value, or of one that it is part of."""

    @abstractmethod
    def make_scalar(self, event: ScalarEvent) -> T:
        """The value of a scalar."""

    @abstractmethod
    def member_name(
        self, event: Event, value: T, members: dict[str, tuple[Event, T]]
    ) -> str | None:
        """The name in a value that begins with `event`; None to drop the member.

        `members` are those so far, as for `make_collection`.
        """

    @abstractmethod
    def make_collection(
        self, event: CollectionStartEvent, content: list[T] | dict[str, tuple[Event, T]]
    ) -> T:
        """The value of a list, or of the members of an object: name event and value by name."""

    def _compose_value(self, events: Iterator[Event], event: Event, depth: int) -> T:
        """The value that begins with this event."""
        size_before, deepest_before = self._size, self._deepest
        self._deepest = depth
        match event:  # most frequent first
            case ScalarEvent():
                self._enforce_limits(event, self.size_of(event), depth)
                value = self.make_scalar(event)
            case CollectionStartEvent():
                self._enforce_limits(event, self.size_of(event), depth + 1)
                if event.anchor:
                    self._anchored[event.anchor] = None
                compose_content = (
                    self._compose_items
                    if isinstance(event, SequenceStartEvent)
                    else self._compose_members
                )
                value = self.make_collection(event, compose_content(events, depth + 1))
            case AliasEvent():
                name = str(event.anchor)
                if (anchored := self._anchored.get(name)) is None:
                    message = self.alias_error(name, is_recursive=name in self._anchored)
                    raise UnreadableDocument(start_mark(event), message)
                value, size, height = anchored
                self._enforce_limits(event, size, depth + height)
            case _:
                raise AssertionError(f"no value begins with {event}")
        if event.anchor and not isinstance(event, AliasEvent):
            size = self._size - size_before
            self._anchored[event.anchor] = (value, size, self._deepest - depth)
        self._deepest = max(self._deepest, deepest_before)
        return value

    def _compose_items(self, events: Iterator[Event], depth: int) -> list[T]:
        items: list[T] = []
        while not isinstance(event := next(events), SequenceEndEvent):
            self.path.append(len(items))
            items.append(self._compose_value(events, event, depth))
            self.path.pop()
        return items

    def _compose_members(self, events: Iterator[Event], depth: int) -> dict[str, tuple[Event, T]]:
        members: dict[str, tuple[Event, T]] = {}
        while not isinstance(name_event := next(events), MappingEndEvent):
            name_value = self._compose_value(events, name_event, depth)
            name = self.member_name(name_event, name_value, members)
            self.path.append(name or "")
            value = self._compose_value(events, next(events), depth)
            self.path.pop()
            if name is not None:
                members[name] = (name_event, value)
        return members

    def _enforce_limits(self, event: Event, size: int, depth: int) -> None:
        self._size += size
        self._deepest = max(self._deepest, depth)
        if self._size > self.max_size:
            raise UnreadableDocument(start_mark(event), self.too_large_message)
        if depth > MAX_DEPTH:
            raise UnreadableDocument(start_mark(event), TOO_DEEP_MESSAGE)
