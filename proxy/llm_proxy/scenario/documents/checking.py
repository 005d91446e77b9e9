"""Documents checked against their structs: every mistake is found, each with its place.

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
from llm_proxy.scenario.documents.findings import Finding, Weight
from llm_proxy.scenario.documents.mistakes import Mistake, child, one_of, shown
from llm_proxy.scenario.documents.parsing.nodes import (
    Entry,
    Fields,
    Items,
    Mark,
    Node,
    Scalar,
    plain,
)
from llm_proxy.scenario.documents.type_choice import fitting, is_struct
from llm_proxy.scenario.documents.validators import RULES, rules_of_nodes

T_co = TypeVar("T_co", covariant=True)

_HINTS: Final = {
    "reasoning": "; or name the field reasoning_content, which takes text",
    "respond": "; respond is a function, and so only for Python: use reply or replies",
}
"""More about a field, where people go wrong in the same way."""


@dataclass(frozen=True, slots=True)
class Placed(Generic[T_co]):
    """Something of a file, and where it stands."""

    value: T_co
    file: str
    line: int
    column: int
    path: str


class Checker:
    """Checks values of one file, and has what it found in them at the end."""

    def __init__(self, file: str) -> None:
        self.mistakes: list[Mistake] = []
        self.warnings: list[Mistake] = []
        self.whole: list[Placed[Any]] = []
        """Every struct without a mistake, the inner before the outer."""
        self._file = file

    def check(self, node: Node, kind: kinds.Type, path: str) -> Node | None:
        """The value with canonical names, without what is wrong in it; None where all of it is."""
        if isinstance(node, Scalar) and (why := wrong_types.endless(node)):
            return self.refuse(node.mark, path, why)
        option = fitting(node, kind)
        match option, node:
            case kinds.AnyType(), _:
                return self._any(node, option, path)
            case kinds.StructType(), Fields():
                return self._struct(node, option, path)
            case kinds.UnionType(types=types), Fields():
                return self._tagged(node, [it for it in types if is_struct(it)], path)
            case kinds.DictType(value_type=inner), Fields():
                return self._entries(node, inner, path)
            case kinds.VarTupleType(item_type=inner), Items():
                return self._items(node, inner, path) if self._fits(node, option, path) else None
            case kinds.Type(), Scalar():
                return self._scalar(node, option, path)
            case _:
                why = wrong_types.mismatch(node, kind) + _hint(path)
                return self.refuse(node.mark, path, why)

    def _any(self, node: Node, kind: kinds.Type, path: str) -> Node | None:
        match node:
            case Fields():
                return self._entries(node, kind, path)
            case Items():
                return self._items(node, kind, path)
            case Scalar():
                return node

    def _entries(self, node: Fields, inner: kinds.Type, path: str) -> Node:
        entries = []
        for it in node.entries:
            value = self.check(it.node, inner, child(path, it.name))
            if value is not None:
                entries.append(Entry(it.name, it.mark, value, it.name))
        return Fields(tuple(entries), node.mark)

    def _items(self, node: Items, inner: kinds.Type, path: str) -> Node:
        checked = [
            self.check(it, inner, child(path, i))
            or Scalar(None, it.mark)  # so that each keeps its number
            for i, it in enumerate(node.nodes)
        ]
        return Items(tuple(checked), node.mark)

    def _scalar(self, node: Scalar, kind: kinds.Type, path: str) -> Node | None:
        if not self._fits(node, kind, path):
            return None
        if isinstance(kind, kinds.IntType) and isinstance(node.value, float):
            return Scalar(int(node.value), node.mark, node.written)
        return node

    def _fits(self, node: Scalar | Items, kind: kinds.Type, path: str) -> bool:
        why = wrong_types.limit(node.value if isinstance(node, Scalar) else node.nodes, kind)
        if why:
            self.refuse(node.mark, path, why)
        return not why

    def _tagged(self, node: Fields, types: Sequence[Any], path: str) -> Node | None:
        """One of several structs, as the field says that tells them apart."""
        tag_field: str = types[0].tag_field
        by_tag: dict[str, Any] = {it.tag: it for it in types}
        entry = node.get(tag_field)
        if entry is None:
            near = [tag for tag, it in by_tag.items() if _speaks_for(node, it)]
            hint = f"{tag_field}: {near[0]}" if len(near) == 1 else one_of(sorted(by_tag))
            return self.refuse(node.mark, path, f"{tag_field} is missing: write {hint}")
        place = child(path, tag_field)
        written = entry.node.value if isinstance(entry.node, Scalar) else None
        if not isinstance(written, str):
            why = wrong_types.mismatch(entry.node, kinds.LiteralType(tuple(by_tag)))
            return self.refuse(entry.node.mark, place, why)
        if (tag := names.word(written, by_tag)) is None:
            why = wrong_types.choice(written, list(by_tag))
            return self.refuse(entry.node.mark, place, why)
        rest = Fields(tuple(it for it in node.entries if it is not entry), node.mark)
        checked = self._struct(rest, by_tag[tag], path, types)
        canonical = Entry(tag_field, entry.mark, Scalar(tag, entry.node.mark), tag_field)
        return Fields((canonical, *checked.entries), checked.mark)

    def _struct(
        self, node: Fields, kind: kinds.StructType, path: str, others: Sequence[Any] = ()
    ) -> Fields:
        before = len(self.mistakes)
        fields = {it.encode_name: it for it in kind.fields}
        entries: dict[str, Entry] = {}
        given: dict[str, str] = {}
        meant: set[str | None] = set()
        for it in node.entries:
            name = names.canonical(it.name, kind.cls, fields)
            if name is None:
                meant.add(names.nearest(it.name, fields))
                self.refuse(it.mark, child(path, it.name), _unknown(it.name, kind, others))
            elif name in given:
                self.refuse(it.mark, child(path, it.name), _both(given[name], it.name))
            else:
                given[name] = it.name
                value = self.check(it.node, fields[name].type, child(path, it.name))
                if value is not None:
                    entries[name] = Entry(name, it.mark, value, it.name)
        for name, field in fields.items():
            if field.required and name not in given and not meant & {name, names.camel(name)}:
                self.refuse(node.mark, path, f"{name} is missing" + _meaning(field.type))
        checked = Fields(tuple(entries.values()), node.mark)
        self._sense(checked, kind, path, whole=len(self.mistakes) == before)
        return checked

    def _sense(self, node: Fields, kind: kinds.StructType, path: str, *, whole: bool) -> None:
        """Apply the rules of a struct, and keep it where it is whole."""
        found = list(rules_of_nodes(kind.cls, node, whole=whole))
        struct = None
        if whole:
            tag = {} if kind.tag_field is None else {kind.tag_field: kind.tag}
            fields = {it.name: plain(it.node) for it in node.entries}
            struct = msgspec.convert(tag | fields, kind.cls)
            found += [it for rule in RULES.get(kind.cls, ()) for it in rule(struct)]
        for it in found:
            self._keep(it, node, path)
        if struct is not None and not any(it.weight is Weight.REFUSED for it in found):
            mark = node.mark
            self.whole.append(Placed(struct, self._file, mark.line, mark.column, path))

    def _keep(self, finding: Finding, node: Fields, path: str) -> None:
        mark, place = _located(node, path, finding.where)
        fails = finding.weight is not Weight.WARNING
        it = Mistake(self._file, mark.line, mark.column, place, finding.message, fails)
        (self.mistakes if finding.weight is Weight.REFUSED else self.warnings).append(it)

    def refuse(self, mark: Mark, path: str, message: str) -> Node | None:
        """Note a mistake; nothing is left of the value then."""
        self.mistakes.append(Mistake(self._file, mark.line, mark.column, path, message))
        return None


def _speaks_for(node: Fields, kind: Any) -> bool:
    """Whether an object has all that a struct demands, and nothing else's."""
    fields = [it.encode_name for it in kind.fields]
    given = {names.canonical(it.name, kind.cls, fields) for it in node.entries}
    return None not in given and given >= {it.encode_name for it in kind.fields if it.required}


def _unknown(written: str, kind: kinds.StructType, others: Sequence[Any]) -> str:
    """What is said of a name that a struct has not."""
    fields = [it.encode_name for it in kind.fields]
    for other in others:
        if names.canonical(written, other.cls, [it.encode_name for it in other.fields]):
            tag = f"{other.tag_field}: {other.tag}"
            return f"there is no such field in {kind.tag_field}: {kind.tag}; it is one of {tag}"
    if written in _HINTS:
        return "there is no such field" + _HINTS[written]
    near = names.nearest(written, fields)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(fields)}"
    return f"there is no such field; {hint}"


def _both(first: str, second: str) -> str:
    if first == second:
        return f"{shown(first)} stands here twice"
    return f"{first} and {second} are the same field: keep one of them"


def _meaning(kind: kinds.Type) -> str:
    """What a field is for, as its description says."""
    schema = kind.extra_json_schema if isinstance(kind, kinds.Metadata) else None
    said = str((schema or {}).get("description", "")).rstrip(".")
    return f": {said[:1].lower()}{said[1:]}" if said else ""


def _hint(path: str) -> str:
    return _HINTS.get(path.rpartition(".")[2], "")


def _located(node: Node, path: str, where: Sequence[str | int]) -> tuple[Mark, str]:
    """The place of something within an object, and its path in the names of the file."""
    mark = node.mark
    for step in where:
        match node, step:
            case Fields(), str() if (entry := node.get(step)) is not None:
                mark, node, path = entry.mark, entry.node, child(path, entry.written)
            case Items(nodes=nodes), int() if step < len(nodes):
                node, path = nodes[step], child(path, step)
                mark = node.mark
    return mark, path
