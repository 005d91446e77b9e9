"""Maps every text of a document, and numbers the aliases that replace values.

Values that identify a request are left unchanged: the name of the model, large base64, binary
bodies, the hash of a form's part.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from llm_proxy.matching.key_documents import KeyDocument
from llm_proxy.matching.large_base64 import is_large_base64
from llm_proxy.turns import Json

_MODEL_FIELD: Final = "model"
"""The member or form field with the model's name, in every dialect that has it in the body."""
_FORM_TEXT_FIELDS: Final = ("value", "filename")
"""The entries of a form field that hold text."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Stands for a byte that is not UTF-8."""

ChangeValue = Callable[[Json, str], Json]
"""Maps a scalar value and the name of the member that contains it to a new value."""


class AliasTable:
    """Aliases for values that differ from run to run, numbered in the order of occurrence."""

    def __init__(self, label: str) -> None:
        """`label` names the aliases: `uuid` makes `<uuid-1>`, `<uuid-2>`."""
        self._label = label
        self._alias_by_value: dict[str, str] = {}

    def alias_of(self, value: str) -> str:
        """The alias of a value, the same for the same value."""
        return self._alias_by_value.setdefault(
            value, f"<{self._label}-{len(self._alias_by_value) + 1}>"
        )

    def value_by_alias(self) -> dict[str, str]:
        """The values by their aliases."""
        return {name: value for value, name in self._alias_by_value.items()}


def map_texts(value: Json, change: Callable[[str], str]) -> Json:
    """A JSON value with every text in it mapped, in a canonical order.

    Members of objects are visited in the order of their names, whatever their order was.  Names of
    members stay.
    """
    return _map_values(value, _text_change(change), "")


def map_body_texts(document: KeyDocument, change: Callable[[str], str]) -> KeyDocument:
    """The document with every text of its body mapped, in the order of `map_texts`."""
    return map_body_values(document, _text_change(change))


def map_body_values(document: KeyDocument, change: ChangeValue) -> KeyDocument:
    """The document with every scalar value of its body mapped."""
    body = document.body
    match document.body_kind, body:
        case "json", dict():
            body = {
                name: item if name == _MODEL_FIELD else _map_values(item, change, name)
                for name, item in sorted(body.items())
            }
        case "form", list():
            body = [_map_form_field(field, change) for field in body]
        case "text", str() if _SURROGATE.search(body):
            pass  # binary
        case _:
            body = _map_values(body, change, "")
    return replace(document, body=body)


def _text_change(change: Callable[[str], str]) -> ChangeValue:
    return lambda value, _: change(value) if isinstance(value, str) else value


def _map_form_field(field: Json, change: ChangeValue) -> Json:
    if not isinstance(field, dict) or (name := str(field.get("name", ""))) == _MODEL_FIELD:
        return field
    return field | {part: change(field[part], name) for part in _FORM_TEXT_FIELDS if part in field}


def _map_values(value: Json, change: ChangeValue, name: str) -> Json:
    match value:
        case list():
            return [_map_values(item, change, name) for item in value]
        case dict():
            return {text: _map_values(value[text], change, text) for text in sorted(value)}
        case str() if is_large_base64(value):
            return value
        case _:
            return change(value, name)
