"""Checks documents against their structs and reports every mistake with its position.

`msgspec` stops at the first mistake and has no line numbers; so this module walks the same types.
The checked nodes have canonical names, as in the structs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import inspect as kinds

from llm_proxy.scenario.documents import names, wrong_types
from llm_proxy.scenario.documents.mistakes import (
    DocumentMistake,
    FindingSeverity,
    Located,
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
from llm_proxy.scenario.documents.validators import validate_node, validate_struct
from llm_proxy.scenario.documents.wrong_types import strip_metadata, union_members
from llm_proxy.yaml_composer import SourceMark

_HINTS_BY_FIELD: Final = {
    "reasoning": "; or name the field reasoning_content, which takes text",
    "respond": "; respond is a function, and so only for Python: use reply or replies",
}
"""Extra hints for frequent mistakes with a field."""


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
        matched_type = _matching_type(node, expected_type)
        match matched_type, node:
            case kinds.StructType(), ObjectNode():
                return self._check_struct(node, matched_type, path)
            case kinds.UnionType(types=types), ObjectNode():
                structs = [strip_metadata(member) for member in types]
                return self._check_tagged_union(
                    node, [member for member in structs if _is_struct(member)], path
                )
            case kinds.DictType(value_type=inner) | (kinds.AnyType() as inner), ObjectNode():
                entries = []
                for entry in node.entries:
                    entry_path = child_path(path, entry.name)
                    value = self.check_and_normalize(entry.node, inner, entry_path)
                    if value is not None:
                        entries.append(ObjectEntry(entry.name, entry.mark, value, entry.name))
                return ObjectNode(tuple(entries), node.mark)
            case kinds.VarTupleType(item_type=inner) | (kinds.AnyType() as inner), ListNode():
                if message := wrong_types.limit_message(node.nodes, matched_type):
                    return self.add_mistake(node.mark, path, message)
                items = [
                    self.check_and_normalize(item, inner, child_path(path, index))
                    or ScalarNode(None, item.mark)  # so that each item keeps its index
                    for index, item in enumerate(node.nodes)
                ]
                return ListNode(tuple(items), node.mark)
            case kinds.Type(), ScalarNode():
                if message := wrong_types.limit_message(node.value, matched_type):
                    return self.add_mistake(node.mark, path, message)
                if isinstance(matched_type, kinds.IntType) and isinstance(node.value, float):
                    return ScalarNode(int(node.value), node.mark, node.source_text)
                return node
            case _:
                hint = _HINTS_BY_FIELD.get(path.rpartition(".")[2], "")
                message = wrong_types.type_mismatch_message(node, expected_type) + hint
                return self.add_mistake(node.mark, path, message)

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
        return self._check_struct(untagged, type_by_tag[tag], path, types)

    def _check_struct(
        self,
        node: ObjectNode,
        expected_type: kinds.StructType,
        path: str,
        union_types: Sequence[Any] = (),
    ) -> ObjectNode:
        mistake_count = len(self.mistakes)
        fields = {field.encode_name: field for field in expected_type.fields}
        spellings = names.fields_by_spelling(expected_type.cls)
        entries: dict[str, ObjectEntry] = {}
        written_names: dict[str, str] = {}
        suggested_names: set[str | None] = set()
        for entry in node.entries:
            entry_path = child_path(path, entry.name)
            name = spellings.get(entry.name)
            if name is None:
                suggested_names.add(names.nearest_field_name(entry.name, fields))
                message = _unknown_name_message(entry.name, expected_type, union_types)
                self.add_mistake(entry.mark, entry_path, message)
            elif (first_name := written_names.get(name)) is not None:
                message = (
                    f"{quote_text(first_name)} stands here twice"
                    if first_name == entry.name
                    else f"{first_name} and {entry.name} are the same field: keep one of them"
                )
                self.add_mistake(entry.mark, entry_path, message)
            else:
                written_names[name] = entry.name
                value = self.check_and_normalize(entry.node, fields[name].type, entry_path)
                if value is not None:
                    entries[name] = ObjectEntry(name, entry.mark, value, entry.name)
        for name, field in fields.items():
            if (
                field.required
                and name not in written_names
                and not suggested_names & {name, names.to_camel_case(name)}
            ):
                self.add_mistake(
                    node.mark, path, f"{name} is missing{_field_description(field.type)}"
                )
        is_complete = len(self.mistakes) == mistake_count
        checked = ObjectNode(tuple(entries.values()), node.mark)
        findings = list(validate_node(expected_type.cls, checked, is_complete=is_complete))
        struct = None
        if is_complete:
            values = {name: plain_value(entry.node) for name, entry in entries.items()}
            if expected_type.tag_field is not None:
                values[expected_type.tag_field] = expected_type.tag
            struct = msgspec.convert(values, expected_type.cls)
            findings += validate_struct(struct)
        for finding in findings:
            mark, finding_path = _locate_within(checked, path, finding.path)
            is_refused = finding.severity is FindingSeverity.REFUSED
            (self.mistakes if is_refused else self.warnings).append(
                DocumentMistake(
                    self._file, *mark, finding_path, finding.message,
                    fails_lint=finding.severity is not FindingSeverity.WARNING,
                )
            )  # fmt: skip
        if struct is None or len(self.mistakes) > mistake_count:
            return checked
        self.valid_structs.append(Located(struct, self._file, *node.mark, path))
        return ObjectNode(checked.entries, checked.mark, struct)

    def add_mistake(self, mark: SourceMark, path: str, message: str) -> Node | None:
        """Record a mistake.  Always returns None, the result for an invalid value."""
        self.mistakes.append(DocumentMistake(self._file, *mark, path, message))
        return None


def _matching_type(node: Node, expected_type: kinds.Type) -> kinds.Type | None:
    """The union member to check a value against; the whole union if several structs are possible.

    None if no member accepts this JSON type, or if a text is not among the literals of a union.
    """
    members = union_members(expected_type)
    accepted = _accepted_types(node)
    candidates = [member for member in members if isinstance(member, accepted)]
    if sum(map(_is_struct, candidates)) > 1:
        return strip_metadata(expected_type)
    if (
        isinstance(node, ScalarNode)
        and sum(not isinstance(member, kinds.NoneType) for member in members) > 1
        and all(
            isinstance(member, kinds.LiteralType) and node.value not in member.values
            for member in candidates
        )
    ):
        return None
    return candidates[0] if candidates else None


def _accepted_types(node: Node) -> tuple[type[kinds.Type], ...]:
    match node:
        case ObjectNode():
            return kinds.AnyType, kinds.StructType, kinds.DictType
        case ListNode():
            return kinds.AnyType, kinds.VarTupleType
        case ScalarNode(value=None):
            return kinds.AnyType, kinds.NoneType
        case ScalarNode(value=bool()):
            return kinds.AnyType, kinds.BoolType
        case ScalarNode(value=str()):
            return kinds.AnyType, kinds.StrType, kinds.LiteralType
        case ScalarNode(value=float() as value) if value != int(value):
            return kinds.AnyType, kinds.FloatType
        case ScalarNode():
            return kinds.AnyType, kinds.IntType, kinds.FloatType


def _is_struct(type_info: kinds.Type) -> bool:
    return isinstance(type_info, kinds.StructType)


def _has_fields_of_struct(node: ObjectNode, expected_type: Any) -> bool:
    """Whether an object has all required fields of a struct, and no unknown ones."""
    spellings = names.fields_by_spelling(expected_type.cls)
    given_names = {spellings.get(entry.name) for entry in node.entries}
    return None not in given_names and given_names >= {
        field.encode_name for field in expected_type.fields if field.required
    }


def _unknown_name_message(
    written_name: str, expected_type: kinds.StructType, union_types: Sequence[Any]
) -> str:
    for other_type in union_types:
        if written_name in names.fields_by_spelling(other_type.cls):
            return (
                f"there is no such field in {expected_type.tag_field}: {expected_type.tag}; it "
                f"is one of {other_type.tag_field}: {other_type.tag}"
            )
    if written_name in _HINTS_BY_FIELD:
        return "there is no such field" + _HINTS_BY_FIELD[written_name]
    fields = [field.encode_name for field in expected_type.fields]
    suggestion = names.nearest_field_name(written_name, fields)
    hint = f"did you mean {suggestion}?" if suggestion else f"there are {', '.join(fields)}"
    return f"there is no such field; {hint}"


def _field_description(expected_type: kinds.Type) -> str:
    schema = expected_type.extra_json_schema if isinstance(expected_type, kinds.Metadata) else None
    description = str((schema or {}).get("description", "")).rstrip(".")
    return f": {description[:1].lower()}{description[1:]}" if description else ""


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
