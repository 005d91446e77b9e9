"""Composes nodes from parser events.

Here are the limits that keep a hostile file from eating time and memory: how deep values may
stand within each other, and how many there may be, each repetition (`*alias`) counted in full.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from llm_proxy.scenario.documents.mistakes import ROOT, DocumentMistake, child_path, quote_text
from llm_proxy.scenario.documents.parsing.nodes import (
    ListNode,
    Node,
    ObjectEntry,
    ObjectNode,
    ScalarNode,
    SourceMark,
    UnreadableDocument,
)

MAX_DEPTH: Final = 100
MAX_VALUES: Final = 1_000_000

_UNFIT: Final = "\ud800"
"""Stands for a name that cannot be one; what it names is read, and dropped.  No text holds it."""


@dataclass(frozen=True, slots=True)
class _AnchoredNode:
    """A value that may be repeated."""

    node: Node
    size: int
    height: int


@dataclass(slots=True)
class _OpenCollection:
    """A list or an object that is not closed yet."""

    mark: SourceMark
    is_object: bool
    anchor: str
    nodes: list[Node] = field(default_factory=list)
    entries: dict[str, ObjectEntry] = field(default_factory=dict)
    name: str | None = None
    """The name whose value comes next; None where a name does."""
    name_mark: SourceMark | None = None
    size: int = 1
    height: int = 1

    def current_step(self) -> str | int:
        """What is being read in it."""
        return (self.name or "") if self.is_object else len(self.nodes)

    def close(self) -> Node:
        """It, as a value."""
        if self.is_object:
            return ObjectNode(tuple(self.entries.values()), self.mark)
        return ListNode(tuple(self.nodes), self.mark)


class DocumentComposer:
    """Takes the pieces of a file in their order, and has its documents and mistakes at the end."""

    def __init__(self, file: str) -> None:
        self.documents: list[Node] = []
        self.mistakes: list[DocumentMistake] = []
        self._file = file
        self._open: list[_OpenCollection] = []
        self._anchors: dict[str, _AnchoredNode] = {}
        self._value_count = 0

    def start_document(self) -> None:
        """A document begins: it repeats nothing of those before."""
        self._anchors = {}

    def start_collection(self, mark: SourceMark, *, is_object: bool, anchor: str = "") -> None:
        """A list or an object begins.  Raises `Unreadable` where it stands too deep."""
        self._check_limits(mark, 1, 1)
        self._open.append(_OpenCollection(mark, is_object, anchor))

    def end_collection(self) -> None:
        """What was begun last ends."""
        open_collection = self._open.pop()
        self._add_node(
            open_collection.close(),
            open_collection.size,
            open_collection.height,
            open_collection.anchor,
        )

    def add_scalar(self, scalar_node: ScalarNode, anchor: str = "") -> None:
        """A value without others in it."""
        self._check_limits(scalar_node.mark, 1, 0)
        if (
            isinstance(scalar_node.value, str)
            and not scalar_node.value.isascii()
            and _has_surrogates(scalar_node.value)
        ):
            self.add_mistake(
                scalar_node.mark, "this escape is half of a character: write the character "
                                  "itself, or both "
                "halves"
            )  # fmt: skip
            scalar_node = replace(scalar_node, value="")
        self._add_node(scalar_node, 1, 0, anchor)

    def add_alias(self, mark: SourceMark, anchor: str) -> None:
        """A value that was said before.  Raises `Unreadable` where there is none, or too much."""
        if any(open_collection.anchor == anchor for open_collection in self._open):
            raise UnreadableDocument(mark, f"*{anchor} stands within itself: write the value out")
        if anchor not in self._anchors:
            raise UnreadableDocument(
                mark, f"*{anchor} repeats nothing: there is no &{anchor} before it in this "
                "document; text that begins with * must be in quotes"
            )  # fmt: skip
        anchored_node = self._anchors[anchor]
        self._check_limits(mark, anchored_node.size, anchored_node.height)
        self._add_node(anchored_node.node, anchored_node.size, anchored_node.height, "", mark)

    def add_mistake(self, mark: SourceMark, message: str) -> None:
        """Note what is wrong with what is being read."""
        path = ROOT
        for open_collection in self._open:
            path = (
                child_path(path, open_collection.current_step())
                if open_collection.current_step() != ""
                else path
            )
        self.mistakes.append(DocumentMistake(self._file, mark.line, mark.column, path, message))

    def _check_limits(self, mark: SourceMark, size: int, height: int) -> None:
        self._value_count += size
        if self._value_count > MAX_VALUES:
            raise UnreadableDocument(
                mark, f"the file holds more than {MAX_VALUES:,} values: split it up"
            )
        if len(self._open) + height > MAX_DEPTH:
            raise UnreadableDocument(
                mark, f"values stand within each other more than {MAX_DEPTH} deep"
            )

    def _add_node(
        self, node: Node, size: int, height: int, anchor: str, mark: SourceMark | None = None
    ) -> None:
        if anchor:
            self._anchors[anchor] = _AnchoredNode(node, size, height)
        if not self._open:
            self.documents.append(node)
            return
        within = self._open[-1]
        within.size += size
        within.height = max(within.height, height + 1)
        if not within.is_object:
            within.nodes.append(node)
        elif within.name is None:
            within.name, within.name_mark = self._member_name(within, node), mark or node.mark
        else:
            if within.name != _UNFIT:
                at = within.name_mark or node.mark
                within.entries[within.name] = ObjectEntry(within.name, at, node)
            within.name = None

    def _member_name(self, within: _OpenCollection, node: Node) -> str:
        """The name that a node is in an object; what cannot be one is told."""
        if not isinstance(node, ScalarNode):
            self.add_mistake(node.mark, "a name must be text, and this is a list or an object")
            return _UNFIT
        if not isinstance(node.value, str):
            word = node.source_text or "nothing"
            self.add_mistake(
                node.mark, f"a name must be text, and this is {word}: put it in quotes"
            )
            return _UNFIT
        if node.value == "<<" and node.is_plain:
            self.add_mistake(node.mark, "<< takes over nothing here: write the fields out")
            return _UNFIT
        if (twin := within.entries.get(node.value)) is not None:
            self.add_mistake(
                node.mark,
                f"{quote_text(node.value)} stands here twice: the first is in line "
                f"{twin.mark.line}",
            )
            return _UNFIT
        return node.value


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= content <= "\udfff" for content in text)
