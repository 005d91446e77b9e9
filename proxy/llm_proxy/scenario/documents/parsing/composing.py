"""Composes nodes from parser events.

Enforces the limits that protect against hostile files: the depth of nested values, and the number
of values, where each alias (`*name`) counts in full.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from llm_proxy.scenario.documents.mistakes import ROOT_PATH, DocumentMistake, child_path, quote_text
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

_INVALID_NAME: Final = "\ud800"
"""Replaces an invalid name, whose value is parsed and dropped.  No valid text equals it."""


@dataclass(frozen=True, slots=True)
class _AnchoredNode:
    """A value with an anchor, which aliases may repeat."""

    node: Node
    value_count: int
    height: int


@dataclass(slots=True)
class _OpenCollection:
    """A list or an object that is not closed yet."""

    mark: SourceMark
    is_object: bool
    anchor: str
    nodes: list[Node] = field(default_factory=list)
    entries: dict[str, ObjectEntry] = field(default_factory=dict)
    pending_name: str | None = None
    """The name whose value comes next; None if a name comes next."""
    pending_name_mark: SourceMark | None = None
    value_count: int = 1
    height: int = 1

    def current_path_step(self) -> str | int:
        """The name or the index of the value that is being parsed."""
        return (self.pending_name or "") if self.is_object else len(self.nodes)

    def to_node(self) -> Node:
        """The finished list or object."""
        if self.is_object:
            return ObjectNode(tuple(self.entries.values()), self.mark)
        return ListNode(tuple(self.nodes), self.mark)


class DocumentComposer:
    """Builds the documents of a file from parser events; collects mistakes."""

    def __init__(self, file: str) -> None:
        self.documents: list[Node] = []
        self.mistakes: list[DocumentMistake] = []
        self._file = file
        self._open_collections: list[_OpenCollection] = []
        self._anchors: dict[str, _AnchoredNode] = {}
        self._value_count = 0

    def start_document(self) -> None:
        """Start a document; the anchors of previous documents do not apply to it."""
        self._anchors = {}

    def start_collection(self, mark: SourceMark, *, is_object: bool, anchor: str = "") -> None:
        """Start a list or an object.  Raises `UnreadableDocument` beyond the limits."""
        self._check_limits(mark, 1, 1)
        self._open_collections.append(_OpenCollection(mark, is_object, anchor))

    def end_collection(self) -> None:
        """End the innermost open list or object."""
        open_collection = self._open_collections.pop()
        self._add_node(
            open_collection.to_node(),
            open_collection.value_count,
            open_collection.height,
            open_collection.anchor,
        )

    def add_scalar(self, scalar_node: ScalarNode, anchor: str = "") -> None:
        """Add a scalar.  Raises `UnreadableDocument` beyond the limits."""
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
        """Add an anchored value again.

        Raises `UnreadableDocument` for an unknown or a recursive anchor, and beyond the limits.
        """
        if any(open_collection.anchor == anchor for open_collection in self._open_collections):
            raise UnreadableDocument(mark, f"*{anchor} stands within itself: write the value out")
        if anchor not in self._anchors:
            raise UnreadableDocument(
                mark, f"*{anchor} repeats nothing: there is no &{anchor} before it in this "
                "document; text that begins with * must be in quotes"
            )  # fmt: skip
        anchored_node = self._anchors[anchor]
        self._check_limits(mark, anchored_node.value_count, anchored_node.height)
        self._add_node(
            anchored_node.node, anchored_node.value_count, anchored_node.height, "", mark
        )

    def add_mistake(self, mark: SourceMark, message: str) -> None:
        """Record a mistake at the current path."""
        path = ROOT_PATH
        for open_collection in self._open_collections:
            path = (
                child_path(path, open_collection.current_path_step())
                if open_collection.current_path_step() != ""
                else path
            )
        self.mistakes.append(DocumentMistake(self._file, mark.line, mark.column, path, message))

    def _check_limits(self, mark: SourceMark, value_count: int, height: int) -> None:
        self._value_count += value_count
        if self._value_count > MAX_VALUES:
            raise UnreadableDocument(
                mark, f"the file holds more than {MAX_VALUES:,} values: split it up"
            )
        if len(self._open_collections) + height > MAX_DEPTH:
            raise UnreadableDocument(
                mark, f"values stand within each other more than {MAX_DEPTH} deep"
            )

    def _add_node(
        self, node: Node, value_count: int, height: int, anchor: str, mark: SourceMark | None = None
    ) -> None:
        if anchor:
            self._anchors[anchor] = _AnchoredNode(node, value_count, height)
        if not self._open_collections:
            self.documents.append(node)
            return
        parent = self._open_collections[-1]
        parent.value_count += value_count
        parent.height = max(parent.height, height + 1)
        if not parent.is_object:
            parent.nodes.append(node)
        elif parent.pending_name is None:
            parent.pending_name, parent.pending_name_mark = (
                self._member_name(parent, node),
                mark or node.mark,
            )
        else:
            if parent.pending_name != _INVALID_NAME:
                name_mark = parent.pending_name_mark or node.mark
                parent.entries[parent.pending_name] = ObjectEntry(
                    parent.pending_name, name_mark, node
                )
            parent.pending_name = None

    def _member_name(self, parent: _OpenCollection, node: Node) -> str:
        """The name in a node; for an invalid one a mistake and `_INVALID_NAME`."""
        if not isinstance(node, ScalarNode):
            self.add_mistake(node.mark, "a name must be text, and this is a list or an object")
            return _INVALID_NAME
        if not isinstance(node.value, str):
            shown_value = node.source_text or "nothing"
            self.add_mistake(
                node.mark, f"a name must be text, and this is {shown_value}: put it in quotes"
            )
            return _INVALID_NAME
        if node.value == "<<" and node.is_plain:
            self.add_mistake(node.mark, "<< takes over nothing here: write the fields out")
            return _INVALID_NAME
        if (first_entry := parent.entries.get(node.value)) is not None:
            self.add_mistake(
                node.mark,
                f"{quote_text(node.value)} stands here twice: the first is in line "
                f"{first_entry.mark.line}",
            )
            return _INVALID_NAME
        return node.value


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
