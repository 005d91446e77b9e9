"""Chooses the type of a union field by the kind of JSON value."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from msgspec import inspect as kinds

from llm_proxy.scenario.documents.nodes import ListNode, Node, ObjectNode, ScalarNode, ScalarValue

_TYPES_BY_JSON_TYPE: Final = MappingProxyType(
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


def strip_metadata(type_info: kinds.Type) -> kinds.Type:
    """A type without its `Metadata` wrappers."""
    while isinstance(type_info, kinds.Metadata):
        type_info = type_info.type
    return type_info


def union_members(type_info: kinds.Type) -> tuple[kinds.Type, ...]:
    """The members of a union; of any other type, the type itself."""
    type_info = strip_metadata(type_info)
    return (
        tuple(map(strip_metadata, type_info.types))
        if isinstance(type_info, kinds.UnionType)
        else (type_info,)
    )


def is_struct(type_info: kinds.Type) -> bool:
    """Whether a type is a `Struct`."""
    return isinstance(strip_metadata(type_info), kinds.StructType)


def matching_type(node: Node, type_info: kinds.Type) -> kinds.Type | None:
    """The union member to check a value against; the whole union if several structs are possible.

    None if no member accepts this JSON type, or if a text is not among the literals of a union.
    """
    accepted = (kinds.AnyType, *_TYPES_BY_JSON_TYPE[_json_type(node)])
    candidates = [
        union_member
        for union_member in union_members(type_info)
        if isinstance(union_member, accepted)
    ]
    if sum(map(is_struct, candidates)) > 1:
        return strip_metadata(type_info)
    is_unlisted_literal = (
        isinstance(node, ScalarNode)
        and len(non_null_union_members(type_info)) > 1
        and _excludes_value(candidates, node.value)
    )
    return None if is_unlisted_literal or not candidates else candidates[0]


def non_null_union_members(type_info: kinds.Type) -> tuple[kinds.Type, ...]:
    """The members of a union other than None."""
    return tuple(
        union_member
        for union_member in union_members(type_info)
        if not isinstance(union_member, kinds.NoneType)
    )


def _excludes_value(candidates: Sequence[kinds.Type], value: ScalarValue) -> bool:
    return all(
        isinstance(literal_type, kinds.LiteralType) and value not in literal_type.values
        for literal_type in candidates
    )


def _json_type(node: Node) -> str:
    match node:
        case ObjectNode():
            return "object"
        case ListNode():
            return "list"
        case ScalarNode(value=value):
            return _scalar_type(value)


def _scalar_type(value: ScalarValue) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "truth"
        case str():
            return "text"
        case int() | float():
            return "whole number" if value == int(value) else "number"
