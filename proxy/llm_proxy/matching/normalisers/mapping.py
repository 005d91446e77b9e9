"""Maps every text of a document, and numbers the aliases that replace values.

What tells requests apart by its identity is no text to be loosened: the name of the model, large
base64, bytes that are no text, the hash of a form's part.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from llm_proxy.matching.document import KeyDocument
from llm_proxy.matching.large_base64 import is_large_base64
from llm_proxy.matching.rules import NormalizedDocument
from llm_proxy.turns import Json

_MODEL: Final = "model"
"""The member or field that names it, in every dialect that has it in the body."""
_OF_FIELD: Final = ("value", "filename")
"""What of a form's field is text."""

Change = Callable[[Json, str], Json]
"""What becomes of a value that holds no others, under the name of the member that it stands in."""


class AliasTable:
    """Names of ours for what differs from run to run, numbered in the order of their finding."""

    def __init__(self, word: str) -> None:
        """`word` is what they are called: `uuid` makes `<uuid-1>`, `<uuid-2>`."""
        self._word = word
        self._alias_by_value: dict[str, str] = {}

    def alias_of(self, value: str) -> str:
        """The name of a value, the same for the same value."""
        return self._alias_by_value.setdefault(
            value, f"<{self._word}-{len(self._alias_by_value) + 1}>"
        )

    def aliases(self) -> dict[str, str]:
        """What was given which name, by name."""
        return {name: value for value, name in self._alias_by_value.items()}


def map_texts(value: Json, change: Callable[[str], str]) -> Json:
    """A value with every text in it changed, in one order for all that mean the same.

    Members of objects come in the order of their names, whatever the spelling's was.  Names of
    members stay.
    """
    return _map_values(value, lambda leaf, _: change(leaf) if isinstance(leaf, str) else leaf, "")


def map_body_texts(document: KeyDocument, change: Callable[[str], str]) -> KeyDocument:
    """The document with every text of its body changed, in the order of `texts_changed`."""
    return map_body_values(
        document, lambda leaf, _: change(leaf) if isinstance(leaf, str) else leaf
    )


def map_body_values(document: KeyDocument, change: Change) -> KeyDocument:
    """The document with every value of its body changed that holds no others."""
    return replace(document, body=_map_body(document, change))


def _map_body(document: KeyDocument, change: Change) -> Json:
    body = document.body
    match document.kind, body:
        case "json", dict():
            return {
                name: item if name == _MODEL else _map_values(item, change, name)
                for name, item in sorted(body.items())
            }
        case "form", list():
            return [_map_form_field(field, change) for field in body]
        case "text", str() if not _is_text_body(body):
            return body
        case _:
            return _map_values(body, change, "")


def _map_form_field(field: Json, change: Change) -> Json:
    if not isinstance(field, dict) or (name := str(field.get("name", ""))) == _MODEL:
        return field
    return field | {part: change(field[part], name) for part in _OF_FIELD if part in field}


def _map_values(value: Json, change: Change, name: str) -> Json:
    match value:
        case list():
            return [_map_values(item, change, name) for item in value]
        case dict():
            return {text: _map_values(value[text], change, text) for text in sorted(value)}
        case str() if is_large_base64(value):
            return value
        case _:
            return change(value, name)


def _is_text_body(body: str) -> bool:
    try:
        body.encode()
    except UnicodeEncodeError:
        return False
    return True


def replace_matches(
    document: KeyDocument, pattern: re.Pattern[str], names: AliasTable
) -> NormalizedDocument:
    """The document with a name in place of everything that the pattern finds in its texts."""
    done = map_body_texts(
        document, lambda text: pattern.sub(lambda found: names.alias_of(found[0]), text)
    )
    return NormalizedDocument(done, names.aliases())
