"""The nodes of a parsed document, with positions."""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.scenario.documents.parsing.scalars import ScalarValue
from llm_proxy.turns import Json


@dataclass(frozen=True, slots=True)
class SourceMark:
    """A position in a text: line, and column in characters, both from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """Text, a number, true, false or null."""

    value: ScalarValue
    mark: SourceMark
    source_text: str = ""
    """As written in the file, without quotes."""
    is_plain: bool = False
    """Whether it is unquoted in YAML."""


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

    def find_entry(self, name: str) -> ObjectEntry | None:
        """The entry with this name; None if there is none."""
        return next((entry for entry in self.entries if entry.name == name), None)


Node = ScalarNode | ListNode | ObjectNode


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


def plain_value(node: Node) -> Json:
    """The JSON value of a node, without positions."""
    match node:
        case ScalarNode(value=value):
            return value
        case ListNode(nodes=nodes):
            return [plain_value(item) for item in nodes]
        case ObjectNode(entries=entries):
            return {entry.name: plain_value(entry.node) for entry in entries}


def mark_at(text: str, index: int) -> SourceMark:
    """The position of a character in a text whose lines end in LF."""
    start = text.rfind("\n", 0, index) + 1
    return SourceMark(text.count("\n", 0, index) + 1, index - start + 1)
