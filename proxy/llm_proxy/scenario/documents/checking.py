"""Checks documents against their structs and reports every mistake with its position.

`msgspec` stops at the first mistake and has no line numbers; so this module walks the same types.
The checked nodes have canonical names, as in the structs.  The messages say what to write:
`"yes" is text: write true or false, without quotes`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import inspect as kinds

from llm_proxy.errors import printable_excerpt
from llm_proxy.scenario.documents import names
from llm_proxy.scenario.documents.mistakes import (
    DocumentMistake,
    Located,
    child_path,
    join_choices,
    quote_text,
)
from llm_proxy.scenario.documents.parsing import Node, plain_value
from llm_proxy.scenario.documents.validators import validate
from llm_proxy.yaml_composer import SourceMark

_HINTS_BY_FIELD: Final = {
    "reasoning": "; or use the field reasoning_content, which accepts text",
    "respond": "; set a function with --respond, or set reply or replies here",
}
"""Extra hints for frequent mistakes with a field."""
_TYPES_BY_VALUE: Final[Mapping[type, tuple[type[kinds.Type], ...]]] = {
    dict: (kinds.StructType, kinds.DictType),
    list: (kinds.VarTupleType,),
    type(None): (kinds.NoneType,),
    bool: (kinds.BoolType,),
    str: (kinds.StrType, kinds.LiteralType),
    int: (kinds.IntType, kinds.FloatType),
    float: (kinds.FloatType,),
}
"""The types that accept a value, by the value's type; a whole float counts as an int."""
_NUMBER: Final = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")
_MAX_NAME_CHARS: Final = 40
"""The most characters of a field name in a message."""


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
        value = node.value
        if isinstance(value, float) and not math.isfinite(value):
            message = (
                f"{node.source_text} is not a JSON number; write a finite number, or put the text "
                "in quotes"
            )
            return self.add_mistake(node.mark, path, message)
        matched_type = _matching_type(value, expected_type)
        if matched_type is None:
            hint = _HINTS_BY_FIELD.get(path.rpartition(".")[2], "")
            message = _type_mismatch_message(node, expected_type) + hint
            return self.add_mistake(node.mark, path, message)
        if message := _limit_message(value, matched_type):
            return self.add_mistake(node.mark, path, message)
        match matched_type, value:
            case kinds.StructType(), _:
                return self._check_struct(node, matched_type, path)
            case kinds.UnionType(types=types), _:
                structs = [_strip_metadata(member) for member in types]
                return self._check_tagged_union(node, list(filter(_is_struct, structs)), path)
            case kinds.DictType(value_type=inner) | (kinds.AnyType() as inner), dict():
                members = {
                    name: self.check_and_normalize(member, inner, child_path(path, name))
                    for name, member in value.items()
                }
                return node._replace(
                    value={name: member for name, member in members.items() if member}
                )
            case kinds.VarTupleType(item_type=inner) | (kinds.AnyType() as inner), list():
                items = [
                    self.check_and_normalize(item, inner, child_path(path, index))
                    or item._replace(value=None)  # so that each item keeps its index
                    for index, item in enumerate(value)
                ]
                return node._replace(value=items)
            case kinds.IntType(), float():
                return node._replace(value=int(value))
            case _:
                return node

    def _check_tagged_union(self, node: Node, types: Sequence[Any], path: str) -> Node | None:
        tag_field: str = types[0].tag_field
        type_by_tag: dict[str, Any] = {struct_type.tag: struct_type for struct_type in types}
        tag_node = node.value.get(tag_field)
        if tag_node is None:
            matching_tags = [
                tag
                for tag, struct_type in type_by_tag.items()
                if _has_fields_of_struct(node, struct_type)
            ]
            hint = (
                f"write {tag_field}: {matching_tags[0]}"
                if len(matching_tags) == 1
                else f"known values: {', '.join(sorted(type_by_tag))}"
            )
            return self.add_mistake(node.mark, path, f"missing field '{tag_field}'; {hint}")
        tag = tag_node.value
        tag = names.canonical_choice(tag, type_by_tag) if isinstance(tag, str) else None
        if tag is None:  # the check of its own type says why
            tag_type = kinds.LiteralType(tuple(type_by_tag))
            return self.check_and_normalize(tag_node, tag_type, child_path(path, tag_field))
        untagged = {name: member for name, member in node.value.items() if name != tag_field}
        return self._check_struct(node._replace(value=untagged), type_by_tag[tag], path, types)

    def _check_struct(
        self,
        node: Node,
        expected_type: kinds.StructType,
        path: str,
        union_types: Sequence[Any] = (),
    ) -> Node:
        mistake_count = len(self.mistakes)
        fields = {field.encode_name: field for field in expected_type.fields}
        spellings = names.fields_by_spelling(expected_type.cls)
        members: dict[str, Node] = {}
        written_names: dict[str, str] = {}
        suggested_names: set[str | None] = set()
        for written_name, written in node.value.items():
            member_path = child_path(path, written_name)
            name = spellings.get(written_name)
            if name is None:
                suggestion = names.nearest_field_name(written_name, fields)
                suggested_names.add(suggestion)
                message = _unknown_name_message(
                    written_name, suggestion, expected_type, union_types
                )
                self.add_mistake(written.place, member_path, message)
            elif (first_name := written_names.get(name)) is not None:
                message = f"{first_name} and {written_name} are the same field; keep one of them"
                self.add_mistake(written.place, member_path, message)
            else:
                written_names[name] = written_name
                member = self.check_and_normalize(written, fields[name].type, member_path)
                if member is not None:
                    members[name] = member
        for name, field in fields.items():
            if (
                field.required
                and name not in written_names
                and not suggested_names & {name, names.to_camel_case(name)}
            ):
                schema = getattr(field.type, "extra_json_schema", None) or {}
                description = str(schema.get("description", "")).rstrip(".")
                if description:
                    description = f": {description[0].lower()}{description[1:]}"
                self.add_mistake(node.mark, path, f"missing field '{name}'{description}")
        struct = None
        if len(self.mistakes) == mistake_count:
            values = {name: plain_value(member) for name, member in members.items()}
            if expected_type.tag_field is not None:
                values[expected_type.tag_field] = expected_type.tag
            struct = msgspec.convert(values, expected_type.cls)
        checked = node._replace(value=members)
        for finding in validate(expected_type.cls, members, struct):
            mark, finding_path = _locate_within(checked, path, finding.path)
            is_refused = finding.severity == "refused"
            (self.mistakes if is_refused else self.warnings).append(
                DocumentMistake(
                    self._file, *mark, finding_path, finding.message,
                    fails_lint=finding.severity != "warning",
                )
            )  # fmt: skip
        if struct is None or len(self.mistakes) > mistake_count:
            return checked
        self.valid_structs.append(Located(struct, self._file, *node.mark, path))
        return checked._replace(struct=struct)

    def add_mistake(self, mark: SourceMark, path: str, message: str) -> Node | None:
        """Record a mistake.  Always returns None, the result for an invalid value."""
        self.mistakes.append(DocumentMistake(self._file, *mark, path, message))
        return None


def _strip_metadata(type_info: kinds.Type) -> kinds.Type:
    while isinstance(type_info, kinds.Metadata):
        type_info = type_info.type
    return type_info


def _union_members(type_info: kinds.Type) -> list[kinds.Type]:
    """The members of a union; of any other type, the type itself."""
    type_info = _strip_metadata(type_info)
    types = type_info.types if isinstance(type_info, kinds.UnionType) else (type_info,)
    return [_strip_metadata(member) for member in types]


def _matching_type(value: Any, expected_type: kinds.Type) -> kinds.Type | None:
    """The union member to check a value against; the whole union if several structs are possible.

    None if no member accepts this JSON type, or if a text is not among the literals of a union.
    """
    members = _union_members(expected_type)
    is_whole = isinstance(value, float) and value.is_integer()
    accepted = _TYPES_BY_VALUE[int if is_whole else type(value)]
    candidates = [member for member in members if isinstance(member, (kinds.AnyType, *accepted))]
    if sum(map(_is_struct, candidates)) > 1:
        return _strip_metadata(expected_type)
    is_wrong_literal = all(
        isinstance(member, kinds.LiteralType) and value not in member.values
        for member in candidates
    )
    if is_wrong_literal and sum(not isinstance(member, kinds.NoneType) for member in members) > 1:
        return None
    return candidates[0] if candidates else None


def _is_struct(type_info: kinds.Type) -> bool:
    return isinstance(type_info, kinds.StructType)


def _has_fields_of_struct(node: Node, expected_type: Any) -> bool:
    """Whether an object has all required fields of a struct, and no unknown ones."""
    spellings = names.fields_by_spelling(expected_type.cls)
    given_names = {spellings.get(name) for name in node.value}
    return None not in given_names and given_names >= {
        field.encode_name for field in expected_type.fields if field.required
    }


def _locate_within(
    node: Node, path: str, relative_path: Sequence[str | int]
) -> tuple[SourceMark, str]:
    """The position at a relative path in a node, and its full path in the file's names."""
    mark = node.mark
    for step in relative_path:
        if isinstance(node.value, dict) and step in node.value:
            node = node.value[step]
            mark, path = node.place, child_path(path, node.name)
        elif isinstance(node.value, list) and isinstance(step, int):
            node = node.value[step]
            mark, path = node.mark, child_path(path, step)
    return mark, path


def _unknown_name_message(
    written_name: str,
    suggestion: str | None,
    expected_type: kinds.StructType,
    union_types: Sequence[Any],
) -> str:
    problem = f"unknown field '{printable_excerpt(written_name, _MAX_NAME_CHARS)}'"
    for other_type in union_types:
        if written_name in names.fields_by_spelling(other_type.cls):
            return (
                f"{problem} for {expected_type.tag_field}: {expected_type.tag}; "
                f"this field is valid only for {other_type.tag_field}: {other_type.tag}"
            )
    if written_name in _HINTS_BY_FIELD:
        return problem + _HINTS_BY_FIELD[written_name]
    fields = ", ".join(field.encode_name for field in expected_type.fields)
    hint = f"did you mean '{suggestion}'?" if suggestion else f"known: {fields}"
    return f"{problem}; {hint}"


def _limit_message(value: Any, expected_type: kinds.Type) -> str:
    """The message for a value of the right type outside its limits; empty if it is valid."""
    match expected_type:
        case (
            kinds.IntType(ge=float() | int() as minimum)
            | kinds.FloatType(ge=float() | int() as minimum)
        ) if value < minimum:
            return f"{value} is too small; the minimum is {minimum}"
        case kinds.FloatType(gt=float() | int() as bound) if value <= bound:
            return f"{value} is too small; write a number above {bound:g}"
        case (
            kinds.IntType(le=float() | int() as maximum)
            | kinds.FloatType(le=float() | int() as maximum)
        ) if value > maximum:
            return f"{value} is too large; the maximum is {maximum:g}"
        case kinds.StrType(min_length=int()) if not value:
            return "the text is empty; write at least one character"
        case kinds.StrType(max_length=int(max_length)) if len(value) > max_length:
            return f"the text has {len(value)} characters; the maximum is {max_length}"
        case kinds.VarTupleType(min_length=int(min_length), max_length=max_length):
            if min_length == max_length and len(value) != min_length:
                return f"expected {min_length} numbers as [min, max], got {len(value)}"
            return "the list is empty; add at least one item" if len(value) < min_length else ""
        case kinds.LiteralType(values=values) if value not in values:
            return names.choice_message(value, [str(choice) for choice in values])
    return ""


def _type_mismatch_message(node: Node, expected_type: kinds.Type) -> str:
    """The message for a value whose JSON type does not fit the expected type."""
    match node.value:
        case dict():
            given = "an object"
        case list():
            given = "a list"
        case None:
            given = "no value"
        case bool() as value:
            given = str(value).lower()
        case str() as text:
            given = f"the text {quote_text(text)}"
        case _:
            given = f"the number {node.source_text}"
    options = [
        member for member in _union_members(expected_type) if not isinstance(member, kinds.NoneType)
    ]
    descriptions = list(dict.fromkeys(map(_describe_type, options)))
    hint = _correction_hint(node, options)
    return f"expected {join_choices(descriptions)}, got {given}{hint}"


def _describe_type(expected_type: kinds.Type) -> str:
    match expected_type:
        case kinds.StrType():
            return "text"
        case kinds.BoolType():
            return "true or false"
        case kinds.IntType():
            return "an integer"
        case kinds.FloatType():
            return "a number"
        case kinds.LiteralType(values=values):
            return join_choices(sorted(f"'{value}'" for value in values))
        case kinds.VarTupleType(max_length=2):
            return "[min, max]"
        case kinds.VarTupleType():
            return "a list"
        case _:
            return "an object"


def _correction_hint(node: Node, options: Sequence[kinds.Type]) -> str:
    """How the given value could be corrected, appended to the message."""
    value, text = node.value, node.source_text
    if value is None:
        return "; add a value or remove the field"
    is_scalar = not isinstance(value, dict | list)
    for expected_type in options:
        match expected_type:
            case kinds.BoolType() if isinstance(value, str):
                return "; write true or false without quotes"
            case kinds.IntType() | kinds.FloatType() if isinstance(value, str):
                return "; remove the quotes" if _NUMBER.fullmatch(value) else ""
            case kinds.StrType() if is_scalar:
                return f'; write "{text}"'
            case kinds.StrType() if isinstance(value, dict) and len(value) == 1:
                return "; put text that contains a colon in quotes"
            case kinds.VarTupleType() if isinstance(value, dict):
                return '; start each item with "- "'
            case kinds.VarTupleType(item_type=item_type, max_length=None) if is_scalar:
                example = _example_item(item_type, text)
                return f"; write [{example}]" if example else ""
            case _:
                continue
    return ""


def _example_item(item_type: kinds.Type, text: str) -> str:
    """A list item made of a text; empty if the text fits no field."""
    quoted = quote_text(text, 24)
    for expected_type in _union_members(item_type):
        if isinstance(expected_type, kinds.StructType):
            for field in expected_type.fields:
                if field.name in {"text", "tool_name"}:
                    return f"{{{field.name}: {quoted}}}"
            return ""
    return quoted
