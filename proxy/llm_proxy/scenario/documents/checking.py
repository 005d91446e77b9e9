"""Checks documents against their structs and reports every mistake with its position.

`msgspec` stops at the first mistake and has no line numbers; so this module walks the same types.
The checked nodes have canonical names, as in the structs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import inspect as kinds

from llm_proxy.scenario.documents import names, wrong_types
from llm_proxy.scenario.documents.findings import FindingSeverity, StructFinding
from llm_proxy.scenario.documents.mistakes import (
    DocumentMistake,
    child_path,
    join_choices,
    quote_text,
)
from llm_proxy.scenario.documents.nodes import (
    ListNode,
    Node,
    ObjectEntry,
    ObjectNode,
    ScalarNode,
    plain_value,
)
from llm_proxy.scenario.documents.type_choice import is_struct, matching_type
from llm_proxy.scenario.documents.validators import VALIDATORS_BY_STRUCT, validate_node
from llm_proxy.yaml_composer import SourceMark

T_co = TypeVar("T_co", covariant=True)

_HINTS_BY_FIELD: Final = {
    "reasoning": "; or name the field reasoning_content, which takes text",
    "respond": "; respond is a function, and so only for Python: use reply or replies",
}
"""Extra hints for frequent mistakes with a field."""


@dataclass(frozen=True, slots=True)
class Located(Generic[T_co]):
    """A value of a file with its position."""

    value: T_co
    file: str
    line: int
    column: int
    json_path: str


class DocumentChecker:
    """Checks values of one file; collects mistakes, warnings and valid structs."""

    def __init__(self, file: str) -> None:
        self.mistakes: list[DocumentMistake] = []
        self.warnings: list[DocumentMistake] = []
        self.valid_structs: list[Located[Any]] = []
        """Every struct without a mistake, inner structs before outer ones."""
        self._file = file

    def check_and_normalize(self, node: Node, expected_type: kinds.Type, path: str) -> Node | None:
        """The node with canonical names, without invalid parts; None if it is invalid itself."""
        if isinstance(node, ScalarNode) and (message := wrong_types.non_finite_message(node)):
            return self.add_mistake(node.mark, path, message)
        matched_type = matching_type(node, expected_type)
        match matched_type, node:
            case kinds.AnyType(), _:
                return self._check_any(node, matched_type, path)
            case kinds.StructType(), ObjectNode():
                return self._check_struct(node, matched_type, path)
            case kinds.UnionType(types=types), ObjectNode():
                return self._check_tagged_union(
                    node, [item for item in types if is_struct(item)], path
                )
            case kinds.DictType(value_type=inner_type), ObjectNode():
                return self._check_entries(node, inner_type, path)
            case kinds.VarTupleType(item_type=inner_type), ListNode():
                return (
                    self._check_items(node, inner_type, path)
                    if self._check_limits(node, matched_type, path)
                    else None
                )
            case kinds.Type(), ScalarNode():
                return self._check_scalar(node, matched_type, path)
            case _:
                message = wrong_types.type_mismatch_message(node, expected_type) + _field_hint(path)
                return self.add_mistake(node.mark, path, message)

    def _check_any(self, node: Node, expected_type: kinds.Type, path: str) -> Node | None:
        match node:
            case ObjectNode():
                return self._check_entries(node, expected_type, path)
            case ListNode():
                return self._check_items(node, expected_type, path)
            case ScalarNode():
                return node

    def _check_entries(self, node: ObjectNode, inner_type: kinds.Type, path: str) -> Node:
        entries = []
        for entry in node.entries:
            checked_value = self.check_and_normalize(
                entry.node, inner_type, child_path(path, entry.name)
            )
            if checked_value is not None:
                entries.append(ObjectEntry(entry.name, entry.mark, checked_value, entry.name))
        return ObjectNode(tuple(entries), node.mark)

    def _check_items(self, node: ListNode, inner_type: kinds.Type, path: str) -> Node:
        checked = [
            self.check_and_normalize(item, inner_type, child_path(path, index))
            or ScalarNode(None, item.mark)  # so that each item keeps its index
            for index, item in enumerate(node.nodes)
        ]
        return ListNode(tuple(checked), node.mark)

    def _check_scalar(self, node: ScalarNode, expected_type: kinds.Type, path: str) -> Node | None:
        if not self._check_limits(node, expected_type, path):
            return None
        if isinstance(expected_type, kinds.IntType) and isinstance(node.value, float):
            return ScalarNode(int(node.value), node.mark, node.source_text)
        return node

    def _check_limits(
        self, node: ScalarNode | ListNode, expected_type: kinds.Type, path: str
    ) -> bool:
        message = wrong_types.limit_message(
            node.value if isinstance(node, ScalarNode) else node.nodes, expected_type
        )
        if message:
            self.add_mistake(node.mark, path, message)
        return not message

    def _check_tagged_union(self, node: ObjectNode, types: Sequence[Any], path: str) -> Node | None:
        tag_field: str = types[0].tag_field
        type_by_tag: dict[str, Any] = {struct_type.tag: struct_type for struct_type in types}
        entry = node.find_entry(tag_field)
        if entry is None:
            matching_tags = [
                tag
                for tag, struct_type in type_by_tag.items()
                if _has_fields_of_struct(node, struct_type)
            ]
            hint = (
                f"{tag_field}: {matching_tags[0]}"
                if len(matching_tags) == 1
                else join_choices(sorted(type_by_tag))
            )
            return self.add_mistake(node.mark, path, f"{tag_field} is missing: write {hint}")
        tag_path = child_path(path, tag_field)
        written_tag = entry.node.value if isinstance(entry.node, ScalarNode) else None
        if not isinstance(written_tag, str):
            message = wrong_types.type_mismatch_message(
                entry.node, kinds.LiteralType(tuple(type_by_tag))
            )
            return self.add_mistake(entry.node.mark, tag_path, message)
        if (tag := names.canonical_choice(written_tag, type_by_tag)) is None:
            message = wrong_types.choice_message(written_tag, list(type_by_tag))
            return self.add_mistake(entry.node.mark, tag_path, message)
        untagged = ObjectNode(
            tuple(object_entry for object_entry in node.entries if object_entry is not entry),
            node.mark,
        )
        checked = self._check_struct(untagged, type_by_tag[tag], path, types)
        tag_entry = ObjectEntry(tag_field, entry.mark, ScalarNode(tag, entry.node.mark), tag_field)
        return ObjectNode((tag_entry, *checked.entries), checked.mark)

    def _check_struct(
        self,
        node: ObjectNode,
        expected_type: kinds.StructType,
        path: str,
        union_types: Sequence[Any] = (),
    ) -> ObjectNode:
        mistake_count = len(self.mistakes)
        fields = {field.encode_name: field for field in expected_type.fields}
        entries: dict[str, ObjectEntry] = {}
        written_names: dict[str, str] = {}
        suggested_names: set[str | None] = set()
        for entry in node.entries:
            name = names.canonical_field_name(entry.name, expected_type.cls, fields)
            if name is None:
                suggested_names.add(names.nearest_field_name(entry.name, fields))
                self.add_mistake(
                    entry.mark,
                    child_path(path, entry.name),
                    _unknown_name_message(entry.name, expected_type, union_types),
                )
            elif name in written_names:
                self.add_mistake(
                    entry.mark,
                    child_path(path, entry.name),
                    _duplicate_field_message(written_names[name], entry.name),
                )
            else:
                written_names[name] = entry.name
                checked_value = self.check_and_normalize(
                    entry.node, fields[name].type, child_path(path, entry.name)
                )
                if checked_value is not None:
                    entries[name] = ObjectEntry(name, entry.mark, checked_value, entry.name)
        for name, field in fields.items():
            if (
                field.required
                and name not in written_names
                and not suggested_names & {name, names.to_camel_case(name)}
            ):
                self.add_mistake(
                    node.mark, path, f"{name} is missing" + _field_description(field.type)
                )
        checked = ObjectNode(tuple(entries.values()), node.mark)
        self._run_validators(
            checked, expected_type, path, is_complete=len(self.mistakes) == mistake_count
        )
        return checked

    def _run_validators(
        self, node: ObjectNode, expected_type: kinds.StructType, path: str, *, is_complete: bool
    ) -> None:
        """Run the validators of a struct, and add it to `valid_structs` if it is valid."""
        findings = list(validate_node(expected_type.cls, node, is_complete=is_complete))
        struct = None
        if is_complete:
            tag = (
                {}
                if expected_type.tag_field is None
                else {expected_type.tag_field: expected_type.tag}
            )
            fields = {entry.name: plain_value(entry.node) for entry in node.entries}
            struct = msgspec.convert(tag | fields, expected_type.cls)
            findings += [
                struct_finding
                for rule in VALIDATORS_BY_STRUCT.get(expected_type.cls, ())
                for struct_finding in rule(struct)
            ]
        for struct_finding in findings:
            self._record_finding(struct_finding, node, path)
        if struct is not None and not any(
            struct_finding.severity is FindingSeverity.REFUSED for struct_finding in findings
        ):
            mark = node.mark
            self.valid_structs.append(Located(struct, self._file, mark.line, mark.column, path))

    def _record_finding(self, finding: StructFinding, node: ObjectNode, path: str) -> None:
        mark, finding_path = _locate_within(node, path, finding.path)
        fails_lint = finding.severity is not FindingSeverity.WARNING
        mistake = DocumentMistake(
            self._file, mark.line, mark.column, finding_path, finding.message, fails_lint
        )
        (self.mistakes if finding.severity is FindingSeverity.REFUSED else self.warnings).append(
            mistake
        )

    def add_mistake(self, mark: SourceMark, path: str, message: str) -> Node | None:
        """Record a mistake.  Always returns None, the result for an invalid value."""
        self.mistakes.append(DocumentMistake(self._file, mark.line, mark.column, path, message))
        return None


def _has_fields_of_struct(node: ObjectNode, expected_type: Any) -> bool:
    """Whether an object has all required fields of a struct, and no unknown ones."""
    fields = [field.encode_name for field in expected_type.fields]
    given_names = {
        names.canonical_field_name(entry.name, expected_type.cls, fields) for entry in node.entries
    }
    return None not in given_names and given_names >= {
        field.encode_name for field in expected_type.fields if field.required
    }


def _unknown_name_message(
    written_name: str, expected_type: kinds.StructType, union_types: Sequence[Any]
) -> str:
    fields = [field.encode_name for field in expected_type.fields]
    for other_type in union_types:
        if names.canonical_field_name(
            written_name, other_type.cls, [field.encode_name for field in other_type.fields]
        ):
            tag = f"{other_type.tag_field}: {other_type.tag}"
            return (
                f"there is no such field in {expected_type.tag_field}: {expected_type.tag}; it "
                f"is one of {tag}"
            )
    if written_name in _HINTS_BY_FIELD:
        return "there is no such field" + _HINTS_BY_FIELD[written_name]
    suggestion = names.nearest_field_name(written_name, fields)
    hint = f"did you mean {suggestion}?" if suggestion else f"there are {', '.join(fields)}"
    return f"there is no such field; {hint}"


def _duplicate_field_message(first: str, second: str) -> str:
    if first == second:
        return f"{quote_text(first)} stands here twice"
    return f"{first} and {second} are the same field: keep one of them"


def _field_description(expected_type: kinds.Type) -> str:
    schema = expected_type.extra_json_schema if isinstance(expected_type, kinds.Metadata) else None
    description = str((schema or {}).get("description", "")).rstrip(".")
    return f": {description[:1].lower()}{description[1:]}" if description else ""


def _field_hint(path: str) -> str:
    return _HINTS_BY_FIELD.get(path.rpartition(".")[2], "")


def _locate_within(
    node: Node, path: str, relative_path: Sequence[str | int]
) -> tuple[SourceMark, str]:
    """The position at a relative path in a node, and its full path in the file's names."""
    mark = node.mark
    for step in relative_path:
        match node, step:
            case ObjectNode(), str() if (entry := node.find_entry(step)) is not None:
                mark, node, path = entry.mark, entry.node, child_path(path, entry.written_name)
            case ListNode(nodes=nodes), int() if step < len(nodes):
                node, path = nodes[step], child_path(path, step)
                mark = node.mark
    return mark, path
