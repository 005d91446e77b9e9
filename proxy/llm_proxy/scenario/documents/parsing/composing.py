"""Nodes put together from what a reader finds, one piece after the other.

Here are the limits that keep a hostile file from eating time and memory: how deep values may
stand within each other, and how many there may be, each repetition (`*alias`) counted in full.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from llm_proxy.scenario.documents.mistakes import ROOT, Mistake, child, shown
from llm_proxy.scenario.documents.parsing.nodes import (
    Entry,
    Fields,
    Items,
    Mark,
    Node,
    Scalar,
    Unreadable,
)

MAX_DEPTH: Final = 100
MAX_VALUES: Final = 1_000_000

_UNFIT: Final = "\ud800"
"""Stands for a name that cannot be one; what it names is read, and dropped.  No text holds it."""


@dataclass(frozen=True, slots=True)
class _Anchored:
    """A value that may be repeated."""

    node: Node
    size: int
    height: int


@dataclass(slots=True)
class _Open:
    """A list or an object that is not closed yet."""

    mark: Mark
    is_object: bool
    anchor: str
    nodes: list[Node] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    name: str | None = None
    """The name whose value comes next; None where a name does."""
    name_mark: Mark | None = None
    size: int = 1
    height: int = 1

    def step(self) -> str | int:
        """What is being read in it."""
        return (self.name or "") if self.is_object else len(self.nodes)

    def closed(self) -> Node:
        """It, as a value."""
        if self.is_object:
            return Fields(tuple(self.entries.values()), self.mark)
        return Items(tuple(self.nodes), self.mark)


class Composer:
    """Takes the pieces of a file in their order, and has its documents and mistakes at the end."""

    def __init__(self, file: str) -> None:
        self.documents: list[Node] = []
        self.mistakes: list[Mistake] = []
        self._file = file
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._values = 0

    def document(self) -> None:
        """A document begins: it repeats nothing of those before."""
        self._anchors = {}

    def begin(self, mark: Mark, *, is_object: bool, anchor: str = "") -> None:
        """A list or an object begins.  Raises `Unreadable` where it stands too deep."""
        self._checked(mark, 1, 1)
        self._open.append(_Open(mark, is_object, anchor))

    def end(self) -> None:
        """What was begun last ends."""
        it = self._open.pop()
        self._add(it.closed(), it.size, it.height, it.anchor)

    def scalar(self, it: Scalar, anchor: str = "") -> None:
        """A value without others in it."""
        self._checked(it.mark, 1, 0)
        if isinstance(it.value, str) and not it.value.isascii() and _has_surrogates(it.value):
            self.mistake(
                it.mark, "this escape is half of a character: write the character itself, or both "
                "halves"
            )  # fmt: skip
            it = replace(it, value="")
        self._add(it, 1, 0, anchor)

    def repeat(self, mark: Mark, anchor: str) -> None:
        """A value that was said before.  Raises `Unreadable` where there is none, or too much."""
        if any(it.anchor == anchor for it in self._open):
            raise Unreadable(mark, f"*{anchor} stands within itself: write the value out")
        if anchor not in self._anchors:
            raise Unreadable(
                mark, f"*{anchor} repeats nothing: there is no &{anchor} before it in this "
                "document; text that begins with * must be in quotes"
            )  # fmt: skip
        it = self._anchors[anchor]
        self._checked(mark, it.size, it.height)
        self._add(it.node, it.size, it.height, "", mark)

    def mistake(self, mark: Mark, message: str) -> None:
        """Note what is wrong with what is being read."""
        path = ROOT
        for it in self._open:
            path = child(path, it.step()) if it.step() != "" else path
        self.mistakes.append(Mistake(self._file, mark.line, mark.column, path, message))

    def _checked(self, mark: Mark, size: int, height: int) -> None:
        self._values += size
        if self._values > MAX_VALUES:
            raise Unreadable(mark, f"the file holds more than {MAX_VALUES:,} values: split it up")
        if len(self._open) + height > MAX_DEPTH:
            raise Unreadable(mark, f"values stand within each other more than {MAX_DEPTH} deep")

    def _add(
        self, node: Node, size: int, height: int, anchor: str, mark: Mark | None = None
    ) -> None:
        if anchor:
            self._anchors[anchor] = _Anchored(node, size, height)
        if not self._open:
            self.documents.append(node)
            return
        within = self._open[-1]
        within.size += size
        within.height = max(within.height, height + 1)
        if not within.is_object:
            within.nodes.append(node)
        elif within.name is None:
            within.name, within.name_mark = self._name(within, node), mark or node.mark
        else:
            if within.name != _UNFIT:
                at = within.name_mark or node.mark
                within.entries[within.name] = Entry(within.name, at, node)
            within.name = None

    def _name(self, within: _Open, node: Node) -> str:
        """The name that a node is in an object; what cannot be one is told."""
        if not isinstance(node, Scalar):
            self.mistake(node.mark, "a name must be text, and this is a list or an object")
            return _UNFIT
        if not isinstance(node.value, str):
            word = node.written or "nothing"
            self.mistake(node.mark, f"a name must be text, and this is {word}: put it in quotes")
            return _UNFIT
        if node.value == "<<" and node.is_plain:
            self.mistake(node.mark, "<< takes over nothing here: write the fields out")
            return _UNFIT
        if (twin := within.entries.get(node.value)) is not None:
            self.mistake(
                node.mark,
                f"{shown(node.value)} stands here twice: the first is in line {twin.mark.line}",
            )
            return _UNFIT
        return node.value


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= it <= "\udfff" for it in text)
