"""What is said of a value that is not what its field takes: what it is, and what to write.

`"yes" is text: write true or false, without quotes`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import inspect as kinds

from llm_proxy.scenario.documents.mistakes import one_of, shown
from llm_proxy.scenario.documents.names import nearest_word
from llm_proxy.scenario.documents.parsing.nodes import Fields, Items, Node, Scalar
from llm_proxy.scenario.documents.type_choice import alternatives, given

_NUMBER: Final = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")


def mismatch(node: Node, kind: kinds.Type) -> str:
    """Why a value is not of a type that its kind of value does not fit at all."""
    options = given(kind)
    return f"{_found(node)}: write {one_of(list(dict.fromkeys(map(_wanted, options))))}" + _hint(
        node, options
    )


def limit(value: Any, kind: kinds.Type) -> str:
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
            return choice(value, [str(it) for it in values])
    return ""


def choice(written: str, words: Sequence[str]) -> str:
    """What is said of a word that is none of a few."""
    near = nearest_word(written, words)
    hint = f"; did you mean {near}?" if near else ""
    return f"{shown(written)} is not one of {one_of(sorted(words))}{hint}"


def endless(node: Scalar) -> str:
    """What is said of a number that JSON has not; empty for any other value."""
    if isinstance(node.value, float) and not math.isfinite(node.value):
        return f"{node.written} is no number that JSON has: write digits, or put it in quotes"
    return ""


def _found(node: Node) -> str:
    match node:
        case Fields():
            return "this is an object"
        case Items():
            return "this is a list"
        case Scalar(value=None):
            return "nothing is given here"
        case Scalar(value=bool() as value):
            return f"this is the value {str(value).lower()}"
        case Scalar(value=str() as text):
            return f"{shown(text)} is text"
        case Scalar(written=written):
            return f"{written} is a number"


def _wanted(kind: kinds.Type) -> str:
    """What to write, in words."""
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
            return one_of(sorted(str(it) for it in values))
        case kinds.VarTupleType(max_length=2):
            return "[least, most]"
        case kinds.VarTupleType():
            return "a list"
        case _:
            return "an object"


def _hint(node: Node, options: Sequence[kinds.Type]) -> str:
    """How what was given could be written, or what else might be meant."""
    if isinstance(node, Scalar) and node.value is None:
        return ", or leave the field out"
    for kind in options:
        match kind, node:
            case kinds.BoolType(), Scalar(value=str()):
                return ", without quotes"
            case kinds.IntType() | kinds.FloatType(), Scalar(value=str() as text):
                return ", without quotes" if _NUMBER.fullmatch(text) else ""
            case kinds.StrType(), Scalar(written=written):
                return f' in quotes, "{written}"'
            case kinds.VarTupleType(), Fields():
                return ', each item of it after "- "'
            case kinds.VarTupleType(item_type=item, max_length=None), Scalar(written=text):
                return f", [{_as_item(item, text)}]"
            case _:
                continue
    return ""


def _as_item(item: kinds.Type, text: str) -> str:
    """A text as the item of a list."""
    quoted = shown(text, 24)
    for kind in alternatives(item):
        if isinstance(kind, kinds.StructType):
            named = next((it.name for it in kind.fields if it.name in {"text", "tool_name"}), "")
            return f"{{{named}: {quoted}}}" if named else "…"
    return quoted
