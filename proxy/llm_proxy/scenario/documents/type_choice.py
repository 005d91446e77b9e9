"""Which of the types that a field may have a value is to have, by what JSON it is."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from msgspec import inspect as kinds

from llm_proxy.scenario.documents.parsing.nodes import Fields, Items, Node, Scalar
from llm_proxy.scenario.documents.parsing.scalars import Value

_TAKEN_BY: Final = MappingProxyType(
    {
        "object": (kinds.StructType, kinds.DictType),
        "list": (kinds.VarTupleType,),
        "nothing": (kinds.NoneType,),
        "truth": (kinds.BoolType,),
        "whole number": (kinds.IntType, kinds.FloatType),
        "number": (kinds.FloatType,),
        "text": (kinds.StrType, kinds.LiteralType),
    }
)


def bare(kind: kinds.Type) -> kinds.Type:
    """A type without what only describes it."""
    while isinstance(kind, kinds.Metadata):
        kind = kind.type
    return kind


def alternatives(kind: kinds.Type) -> tuple[kinds.Type, ...]:
    """What a type may be, one after the other."""
    kind = bare(kind)
    return tuple(map(bare, kind.types)) if isinstance(kind, kinds.UnionType) else (kind,)


def is_struct(kind: kinds.Type) -> bool:
    """Whether a type is an object of named fields."""
    return isinstance(bare(kind), kinds.StructType)


def fitting(node: Node, kind: kinds.Type) -> kinds.Type | None:
    """The type that a value is to have; the whole union where several structs could be meant.

    None where none of them is for such JSON, nor for such a text beside what is none.
    """
    taken = (kinds.AnyType, *_TAKEN_BY[_json_type(node)])
    found = [it for it in alternatives(kind) if isinstance(it, taken)]
    if sum(map(is_struct, found)) > 1:
        return bare(kind)
    is_strange = isinstance(node, Scalar) and len(given(kind)) > 1 and _lacks(found, node.value)
    return None if is_strange or not found else found[0]


def given(kind: kinds.Type) -> tuple[kinds.Type, ...]:
    """What a type may be, but for nothing."""
    return tuple(it for it in alternatives(kind) if not isinstance(it, kinds.NoneType))


def _lacks(found: Sequence[kinds.Type], value: Value) -> bool:
    """Whether these are words alone, and the value is none of them."""
    return all(isinstance(it, kinds.LiteralType) and value not in it.values for it in found)


def _json_type(node: Node) -> str:
    match node:
        case Fields():
            return "object"
        case Items():
            return "list"
        case Scalar(value=value):
            return _scalar_type(value)


def _scalar_type(value: Value) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "truth"
        case str():
            return "text"
        case int() | float():
            return "whole number" if value == int(value) else "number"
