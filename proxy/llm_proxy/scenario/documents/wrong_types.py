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
from llm_proxy.scenario.documents.parsing.nodes import ListNode, Node, ObjectNode, ScalarNode
from llm_proxy.scenario.documents.type_choice import accepted_types, union_members

_NUMBER: Final = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")


def type_mismatch_message(node: Node, kind: kinds.Type) -> str:
    """Why a value is not of a type that its kind of value does not fit at all."""
    options = accepted_types(kind)
    return (
        f"{_found(node)}: write {join_choices(list(dict.fromkeys(map(_wanted, options))))}"
        + _hint(node, options)
    )


def limit_message(value: Any, kind: kinds.Type) -> str:
    """What is wrong with a value of the right type; empty where nothing is."""
    match kind:
        case (
            kinds.IntType(ge=float() | int() as least)
            | kinds.FloatType(ge=float() | int() as least)
        ) if value < least:
            return f"{value} is too small: {least} is the least"
        case kinds.StrType(min_length=int()) if not value:
            return "the text is empty: write at least one character"
        case kinds.VarTupleType(min_length=int(fewest), max_length=most):
            if fewest == most and len(value) != fewest:
                return f"the list has {len(value)}: write {fewest} numbers, [least, most]"
            return "the list is empty: write at least one item" if len(value) < fewest else ""
        case kinds.LiteralType(values=values) if value not in values:
            return choice_message(value, [str(flag) for flag in values])
    return ""


def choice_message(written_text: str, words: Sequence[str]) -> str:
    """What is said of a word that is none of a few."""
    near = nearest_choice(written_text, words)
    hint = f"; did you mean {near}?" if near else ""
    return f"{quote_text(written_text)} is not one of {join_choices(sorted(words))}{hint}"


def non_finite_message(node: ScalarNode) -> str:
    """What is said of a number that JSON has not; empty for any other value."""
    if isinstance(node.value, float) and not math.isfinite(node.value):
        return f"{node.source_text} is no number that JSON has: write digits, or put it in quotes"
    return ""


def _found(node: Node) -> str:
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


def _wanted(kind: kinds.Type) -> str:
    match kind:
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


def _hint(node: Node, options: Sequence[kinds.Type]) -> str:
    """How what was given could be written, or what else might be meant."""
    if isinstance(node, ScalarNode) and node.value is None:
        return ", or leave the field out"
    for kind in options:
        match kind, node:
            case kinds.BoolType(), ScalarNode(value=str()):
                return ", without quotes"
            case kinds.IntType() | kinds.FloatType(), ScalarNode(value=str() as text):
                return ", without quotes" if _NUMBER.fullmatch(text) else ""
            case kinds.StrType(), ScalarNode(source_text=written_text):
                return f' in quotes, "{written_text}"'
            case kinds.VarTupleType(), ObjectNode():
                return ', each item of it after "- "'
            case kinds.VarTupleType(item_type=item, max_length=None), ScalarNode(source_text=text):
                return f", [{_as_item(item, text)}]"
            case _:
                continue
    return ""


def _as_item(item: kinds.Type, text: str) -> str:
    quoted = quote_text(text, 24)
    for kind in union_members(item):
        if isinstance(kind, kinds.StructType):
            named = next(
                (field.name for field in kind.fields if field.name in {"text", "tool_name"}), ""
            )
            return f"{{{named}: {quoted}}}" if named else "…"
    return quoted
