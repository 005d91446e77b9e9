"""The nodes of a parsed document, with positions."""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.scenario.documents.parsing.scalars import Value
from llm_proxy.turns import Json


@dataclass(frozen=True, slots=True)
class SourceMark:
    """A place in a text: line, and column in characters, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """Text, a number, true, false or null."""

    value: Value
    mark: SourceMark
    source_text: str = ""
    """As it stands in the file, without quotes."""
    is_plain: bool = False
    """Whether it stands without quotes in YAML."""


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list."""

    nodes: tuple[Node, ...]
    mark: SourceMark


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """A name of an object, and its value."""

    name: str
    mark: SourceMark
    """Where the name stands."""
    node: Node
    source_text: str = ""
    """The name as it stands in the file, where `name` is a canonical one."""


@dataclass(frozen=True, slots=True)
class ObjectNode:
    """An object: its names are all different."""

    entries: tuple[ObjectEntry, ...]
    mark: SourceMark

    def member(self, name: str) -> ObjectEntry | None:
        """The entry of this name."""
        return next((entry for entry in self.entries if entry.name == name), None)


Node = ScalarNode | ListNode | ObjectNode


class UnreadableDocument(Exception):
    """A text that cannot be read on from this place."""

    def __init__(self, mark: SourceMark, message: str, *, cuts: bool = False) -> None:
        """`cuts` where what was read last is only the beginning of what was meant."""
        self.mark = mark
        self.message = message
        self.ends_reading = cuts
        super().__init__(message)


def plain_value(node: Node) -> Json:
    """The value alone."""
    match node:
        case ScalarNode(value=value):
            return value
        case ListNode(nodes=nodes):
            return [plain_value(item) for item in nodes]
        case ObjectNode(entries=entries):
            return {entry.name: plain_value(entry.node) for entry in entries}


def mark_at(text: str, index: int) -> SourceMark:
    """The place of a character of a text whose lines end in LF."""
    start = text.rfind("\n", 0, index) + 1
    return SourceMark(text.count("\n", 0, index) + 1, index - start + 1)
