"""Messages for values of the wrong type.

`"yes" is text: write true or false, without quotes`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import inspect as kinds

from llm_proxy.scenario.documents.mistakes import join_choices, quote_text
from llm_proxy.scenario.documents.names import nearest_choice
from llm_proxy.scenario.documents.nodes import ListNode, Node, ObjectNode, ScalarNode

_NUMBER: Final = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")


def strip_metadata(type_info: kinds.Type) -> kinds.Type:
    """A type without its `Metadata` wrappers."""
    while isinstance(type_info, kinds.Metadata):
        type_info = type_info.type
    return type_info


def union_members(type_info: kinds.Type) -> list[kinds.Type]:
    """The members of a union; of any other type, the type itself."""
    type_info = strip_metadata(type_info)
    types = type_info.types if isinstance(type_info, kinds.UnionType) else (type_info,)
    return [strip_metadata(member) for member in types]


def type_mismatch_message(node: Node, expected_type: kinds.Type) -> str:
    """The message for a value whose JSON type does not fit the expected type."""
    options = [
        member for member in union_members(expected_type) if not isinstance(member, kinds.NoneType)
    ]
    return (
        f"{_describe_node(node)}: write "
        f"{join_choices(list(dict.fromkeys(map(_describe_type, options))))}"
        + _correction_hint(node, options)
    )


def limit_message(value: Any, expected_type: kinds.Type) -> str:
    """The message for a value of the right type outside its limits; empty if it is valid."""
    match expected_type:
        case (
            kinds.IntType(ge=float() | int() as minimum)
            | kinds.FloatType(ge=float() | int() as minimum)
        ) if value < minimum:
            return f"{value} is too small: {minimum} is the least"
        case kinds.StrType(min_length=int()) if not value:
            return "the text is empty: write at least one character"
        case kinds.VarTupleType(min_length=int(min_length), max_length=max_length):
            if min_length == max_length and len(value) != min_length:
                return f"the list has {len(value)}: write {min_length} numbers, [least, most]"
            return "the list is empty: write at least one item" if len(value) < min_length else ""
        case kinds.LiteralType(values=values) if value not in values:
            return choice_message(value, [str(choice) for choice in values])
    return ""


def choice_message(value: str, choices: Sequence[str]) -> str:
    """The message for a value that is not one of the choices, with a suggestion."""
    suggestion = nearest_choice(value, choices)
    hint = f"; did you mean {suggestion}?" if suggestion else ""
    return f"{quote_text(value)} is not one of {join_choices(sorted(choices))}{hint}"


def non_finite_message(node: ScalarNode) -> str:
    """The message for NaN and infinities; empty for any other value."""
    if isinstance(node.value, float) and not math.isfinite(node.value):
        return f"{node.source_text} is no number that JSON has: write digits, or put it in quotes"
    return ""


def _describe_node(node: Node) -> str:
    match node:
        case ObjectNode():
            return "this is an object"
        case ListNode():
            return "this is a list"
        case ScalarNode(value=None):
            return "nothing is given here"
        case ScalarNode(value=bool() as value):
            return f"this is the value {str(value).lower()}"
        case ScalarNode(value=str() as text):
            return f"{quote_text(text)} is text"
        case ScalarNode(source_text=written_text):
            return f"{written_text} is a number"


def _describe_type(expected_type: kinds.Type) -> str:
    match expected_type:
        case kinds.StrType():
            return "text"
        case kinds.BoolType():
            return "true or false"
        case kinds.IntType():
            return "a whole number"
        case kinds.FloatType():
            return "a number"
        case kinds.LiteralType(values=values):
            return join_choices(sorted(str(value) for value in values))
        case kinds.VarTupleType(max_length=2):
            return "[least, most]"
        case kinds.VarTupleType():
            return "a list"
        case _:
            return "an object"


def _correction_hint(node: Node, options: Sequence[kinds.Type]) -> str:
    """How the given value could be corrected, appended to the message."""
    if isinstance(node, ScalarNode) and node.value is None:
        return ", or leave the field out"
    for expected_type in options:
        match expected_type, node:
            case kinds.BoolType(), ScalarNode(value=str()):
                return ", without quotes"
            case kinds.IntType() | kinds.FloatType(), ScalarNode(value=str() as text):
                return ", without quotes" if _NUMBER.fullmatch(text) else ""
            case kinds.StrType(), ScalarNode(source_text=written_text):
                return f' in quotes, "{written_text}"'
            case kinds.VarTupleType(), ObjectNode():
                return ', each item of it after "- "'
            case kinds.VarTupleType(item_type=item, max_length=None), ScalarNode(source_text=text):
                return f", [{_example_item(item, text)}]"
            case _:
                continue
    return ""


def _example_item(item_type: kinds.Type, text: str) -> str:
    quoted = quote_text(text, 24)
    for expected_type in union_members(item_type):
        if isinstance(expected_type, kinds.StructType):
            field_name = next(
                (
                    field.name
                    for field in expected_type.fields
                    if field.name in {"text", "tool_name"}
                ),
                "",
            )
            return f"{{{field_name}: {quoted}}}" if field_name else "…"
    return quoted
