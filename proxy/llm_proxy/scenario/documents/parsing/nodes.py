"""A document as it was written: its values, and where each stands."""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.scenario.documents.parsing.scalars import Value
from llm_proxy.turns import Json


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a text: line, and column in characters, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text, a number, true, false or null."""

    value: Value
    mark: Mark
    written: str = ""
    """As it stands in the file, without quotes."""
    is_plain: bool = False
    """Whether it stands without quotes in YAML."""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    nodes: tuple[Node, ...]
    mark: Mark


@dataclass(frozen=True, slots=True)
class Entry:
    """A name of an object, and its value."""

    name: str
    mark: Mark
    """Where the name stands."""
    node: Node
    written: str = ""
    """The name as it stands in the file, where `name` is a canonical one."""


@dataclass(frozen=True, slots=True)
class Fields:
    """An object: its names are all different."""

    entries: tuple[Entry, ...]
    mark: Mark

    def get(self, name: str) -> Entry | None:
        """The entry of this name."""
        return next((it for it in self.entries if it.name == name), None)


Node = Scalar | Items | Fields


class Unreadable(Exception):
    """A text that cannot be read on from this place."""

    def __init__(self, mark: Mark, message: str, *, cuts: bool = False) -> None:
        """`cuts` where what was read last is only the beginning of what was meant."""
        self.mark = mark
        self.message = message
        self.cuts = cuts
        super().__init__(message)


def plain(node: Node) -> Json:
    """The value alone."""
    match node:
        case Scalar(value=value):
            return value
        case Items(nodes=nodes):
            return [plain(it) for it in nodes]
        case Fields(entries=entries):
            return {it.name: plain(it.node) for it in entries}


def mark_at(text: str, index: int) -> Mark:
    """The place of a character of a text whose lines end in LF."""
    start = text.rfind("\n", 0, index) + 1
    return Mark(text.count("\n", 0, index) + 1, index - start + 1)
