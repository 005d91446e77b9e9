"""Chooses the type of a union field by the kind of JSON value."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from msgspec import inspect as kinds

from llm_proxy.scenario.documents.parsing.nodes import ListNode, Node, ObjectNode, ScalarNode
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


def strip_metadata(kind: kinds.Type) -> kinds.Type:
    """A type without what only describes it."""
    while isinstance(kind, kinds.Metadata):
        kind = kind.type
    return kind


def union_members(kind: kinds.Type) -> tuple[kinds.Type, ...]:
    """What a type may be, one after the other."""
    kind = strip_metadata(kind)
    return tuple(map(strip_metadata, kind.types)) if isinstance(kind, kinds.UnionType) else (kind,)


def is_struct(kind: kinds.Type) -> bool:
    """Whether a type is an object of named fields."""
    return isinstance(strip_metadata(kind), kinds.StructType)


def matching_type(node: Node, kind: kinds.Type) -> kinds.Type | None:
    """The type that a value is to have; the whole union where several structs could be meant.

    None where none of them is for such JSON, nor for such a text beside what is none.
    """
    taken = (kinds.AnyType, *_TAKEN_BY[_json_type(node)])
    found = [
        union_member for union_member in union_members(kind) if isinstance(union_member, taken)
    ]
    if sum(map(is_struct, found)) > 1:
        return strip_metadata(kind)
    is_strange = (
        isinstance(node, ScalarNode) and len(accepted_types(kind)) > 1 and _lacks(found, node.value)
    )
    return None if is_strange or not found else found[0]


def accepted_types(kind: kinds.Type) -> tuple[kinds.Type, ...]:
    """What a type may be, but for nothing."""
    return tuple(
        union_member
        for union_member in union_members(kind)
        if not isinstance(union_member, kinds.NoneType)
    )


def _lacks(found: Sequence[kinds.Type], value: Value) -> bool:
    return all(isinstance(item, kinds.LiteralType) and value not in item.values for item in found)


def _json_type(node: Node) -> str:
    match node:
        case ObjectNode():
            return "object"
        case ListNode():
            return "list"
        case ScalarNode(value=value):
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
