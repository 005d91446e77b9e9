"""Checks documents against their structs and reports every mistake with its place.

`msgspec` stops at the first mistake and knows no lines; so the same types that it reads by are
walked here.  What comes out is canonical: names as the structs have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import inspect as kinds

from llm_proxy.scenario.documents import names, wrong_types
from llm_proxy.scenario.documents.findings import FindingWeight, StructFinding
from llm_proxy.scenario.documents.mistakes import (
    DocumentMistake,
    child_path,
    join_choices,
    quote_text,
)
from llm_proxy.scenario.documents.parsing.nodes import (
    ListNode,
    Node,
    ObjectEntry,
    ObjectNode,
    ScalarNode,
    SourceMark,
    plain_value,
)
from llm_proxy.scenario.documents.type_choice import is_struct, matching_type
from llm_proxy.scenario.documents.validators import RULES, rules_of_nodes

T_co = TypeVar("T_co", covariant=True)

_HINTS: Final = {
    "reasoning": "; or name the field reasoning_content, which takes text",
    "respond": "; respond is a function, and so only for Python: use reply or replies",
}
"""More about a field, where people go wrong in the same way."""


@dataclass(frozen=True, slots=True)
class Located(Generic[T_co]):
    """Something of a file, and where it stands."""

    value: T_co
    file: str
    line: int
    column: int
    path: str


class DocumentChecker:
    """Checks values of one file, and has what it found in them at the end."""

    def __init__(self, file: str) -> None:
        self.mistakes: list[DocumentMistake] = []
        self.warnings: list[DocumentMistake] = []
        self.complete_structs: list[Located[Any]] = []
        """Every struct without a mistake, the inner before the outer."""
        self._file = file

    def check_value(self, node: Node, kind: kinds.Type, path: str) -> Node | None:
        """The value with canonical names, without what is wrong in it; None where all of it is."""
        if isinstance(node, ScalarNode) and (why := wrong_types.non_finite_message(node)):
            return self.add_mistake(node.mark, path, why)
        option = matching_type(node, kind)
        match option, node:
            case kinds.AnyType(), _:
                return self._check_any(node, option, path)
            case kinds.StructType(), ObjectNode():
                return self._check_struct(node, option, path)
            case kinds.UnionType(types=types), ObjectNode():
                return self._check_tagged(node, [item for item in types if is_struct(item)], path)
            case kinds.DictType(value_type=inner), ObjectNode():
                return self._check_entries(node, inner, path)
            case kinds.VarTupleType(item_type=inner), ListNode():
                return (
                    self._check_items(node, inner, path)
                    if self._check_limits(node, option, path)
                    else None
                )
            case kinds.Type(), ScalarNode():
                return self._check_scalar(node, option, path)
            case _:
                why = wrong_types.type_mismatch_message(node, kind) + _spelling_hint(path)
                return self.add_mistake(node.mark, path, why)

    def _check_any(self, node: Node, kind: kinds.Type, path: str) -> Node | None:
        match node:
            case ObjectNode():
                return self._check_entries(node, kind, path)
            case ListNode():
                return self._check_items(node, kind, path)
            case ScalarNode():
                return node

    def _check_entries(self, node: ObjectNode, inner: kinds.Type, path: str) -> Node:
        entries = []
        for entry in node.entries:
            value = self.check_value(entry.node, inner, child_path(path, entry.name))
            if value is not None:
                entries.append(ObjectEntry(entry.name, entry.mark, value, entry.name))
        return ObjectNode(tuple(entries), node.mark)

    def _check_items(self, node: ListNode, inner: kinds.Type, path: str) -> Node:
        checked = [
            self.check_value(it, inner, child_path(path, i))
            or ScalarNode(None, it.mark)  # so that each keeps its number
            for i, it in enumerate(node.nodes)
        ]
        return ListNode(tuple(checked), node.mark)

    def _check_scalar(self, node: ScalarNode, kind: kinds.Type, path: str) -> Node | None:
        if not self._check_limits(node, kind, path):
            return None
        if isinstance(kind, kinds.IntType) and isinstance(node.value, float):
            return ScalarNode(int(node.value), node.mark, node.source_text)
        return node

    def _check_limits(self, node: ScalarNode | ListNode, kind: kinds.Type, path: str) -> bool:
        why = wrong_types.limit_message(
            node.value if isinstance(node, ScalarNode) else node.nodes, kind
        )
        if why:
            self.add_mistake(node.mark, path, why)
        return not why

    def _check_tagged(self, node: ObjectNode, types: Sequence[Any], path: str) -> Node | None:
        tag_field: str = types[0].tag_field
        by_tag: dict[str, Any] = {value.tag: value for value in types}
        entry = node.member(tag_field)
        if entry is None:
            near = [tag for tag, content in by_tag.items() if _is_only_struct_for(node, content)]
            hint = f"{tag_field}: {near[0]}" if len(near) == 1 else join_choices(sorted(by_tag))
            return self.add_mistake(node.mark, path, f"{tag_field} is missing: write {hint}")
        place = child_path(path, tag_field)
        written = entry.node.value if isinstance(entry.node, ScalarNode) else None
        if not isinstance(written, str):
            why = wrong_types.type_mismatch_message(entry.node, kinds.LiteralType(tuple(by_tag)))
            return self.add_mistake(entry.node.mark, place, why)
        if (tag := names.canonical_choice(written, by_tag)) is None:
            why = wrong_types.choice_message(written, list(by_tag))
            return self.add_mistake(entry.node.mark, place, why)
        rest = ObjectNode(
            tuple(object_entry for object_entry in node.entries if object_entry is not entry),
            node.mark,
        )
        checked = self._check_struct(rest, by_tag[tag], path, types)
        canonical = ObjectEntry(tag_field, entry.mark, ScalarNode(tag, entry.node.mark), tag_field)
        return ObjectNode((canonical, *checked.entries), checked.mark)

    def _check_struct(
        self, node: ObjectNode, kind: kinds.StructType, path: str, others: Sequence[Any] = ()
    ) -> ObjectNode:
        before = len(self.mistakes)
        fields = {item.encode_name: item for item in kind.fields}
        entries: dict[str, ObjectEntry] = {}
        document: dict[str, str] = {}
        meant: set[str | None] = set()
        for entry in node.entries:
            name = names.canonical_name(entry.name, kind.cls, fields)
            if name is None:
                meant.add(names.nearest_name(entry.name, fields))
                self.add_mistake(
                    entry.mark,
                    child_path(path, entry.name),
                    _unknown_name_message(entry.name, kind, others),
                )
            elif name in document:
                self.add_mistake(
                    entry.mark,
                    child_path(path, entry.name),
                    _merge_findings(document[name], entry.name),
                )
            else:
                document[name] = entry.name
                value = self.check_value(
                    entry.node, fields[name].type, child_path(path, entry.name)
                )
                if value is not None:
                    entries[name] = ObjectEntry(name, entry.mark, value, entry.name)
        for name, field in fields.items():
            if (
                field.required
                and name not in document
                and not meant & {name, names.to_camel_case(name)}
            ):
                self.add_mistake(
                    node.mark, path, f"{name} is missing" + _field_description(field.type)
                )
        checked = ObjectNode(tuple(entries.values()), node.mark)
        self._run_validators(checked, kind, path, whole=len(self.mistakes) == before)
        return checked

    def _run_validators(
        self, node: ObjectNode, kind: kinds.StructType, path: str, *, whole: bool
    ) -> None:
        """Apply the rules of a struct, and keep it where it is whole."""
        found = list(rules_of_nodes(kind.cls, node, whole=whole))
        struct = None
        if whole:
            tag = {} if kind.tag_field is None else {kind.tag_field: kind.tag}
            fields = {entry.name: plain_value(entry.node) for entry in node.entries}
            struct = msgspec.convert(tag | fields, kind.cls)
            found += [
                struct_finding
                for rule in RULES.get(kind.cls, ())
                for struct_finding in rule(struct)
            ]
        for struct_finding in found:
            self._keep_finding(struct_finding, node, path)
        if struct is not None and not any(
            struct_finding.weight is FindingWeight.REFUSED for struct_finding in found
        ):
            mark = node.mark
            self.complete_structs.append(Located(struct, self._file, mark.line, mark.column, path))

    def _keep_finding(self, finding: StructFinding, node: ObjectNode, path: str) -> None:
        mark, place = _locate_within(node, path, finding.where)
        fails = finding.weight is not FindingWeight.WARNING
        document_mistake = DocumentMistake(
            self._file, mark.line, mark.column, place, finding.message, fails
        )
        (self.mistakes if finding.weight is FindingWeight.REFUSED else self.warnings).append(
            document_mistake
        )

    def add_mistake(self, mark: SourceMark, path: str, message: str) -> Node | None:
        """Note a mistake; nothing is left of the value then."""
        self.mistakes.append(DocumentMistake(self._file, mark.line, mark.column, path, message))
        return None


def _is_only_struct_for(node: ObjectNode, kind: Any) -> bool:
    """Whether an object has all that a struct demands, and nothing else's."""
    fields = [field.encode_name for field in kind.fields]
    given = {names.canonical_name(entry.name, kind.cls, fields) for entry in node.entries}
    return None not in given and given >= {
        field.encode_name for field in kind.fields if field.required
    }


def _unknown_name_message(written: str, kind: kinds.StructType, others: Sequence[Any]) -> str:
    fields = [field.encode_name for field in kind.fields]
    for other in others:
        if names.canonical_name(written, other.cls, [field.encode_name for field in other.fields]):
            tag = f"{other.tag_field}: {other.tag}"
            return f"there is no such field in {kind.tag_field}: {kind.tag}; it is one of {tag}"
    if written in _HINTS:
        return "there is no such field" + _HINTS[written]
    near = names.nearest_name(written, fields)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(fields)}"
    return f"there is no such field; {hint}"


def _merge_findings(first: str, second: str) -> str:
    if first == second:
        return f"{quote_text(first)} stands here twice"
    return f"{first} and {second} are the same field: keep one of them"


def _field_description(kind: kinds.Type) -> str:
    schema = kind.extra_json_schema if isinstance(kind, kinds.Metadata) else None
    text = str((schema or {}).get("description", "")).rstrip(".")
    return f": {text[:1].lower()}{text[1:]}" if text else ""


def _spelling_hint(path: str) -> str:
    return _HINTS.get(path.rpartition(".")[2], "")


def _locate_within(node: Node, path: str, where: Sequence[str | int]) -> tuple[SourceMark, str]:
    """The place of something within an object, and its path in the names of the file."""
    mark = node.mark
    for step in where:
        match node, step:
            case ObjectNode(), str() if (entry := node.member(step)) is not None:
                mark, node, path = entry.mark, entry.node, child_path(path, entry.source_text)
            case ListNode(nodes=nodes), int() if step < len(nodes):
                node, path = nodes[step], child_path(path, step)
                mark = node.mark
    return mark, path
