"""Texts of a document, one after the other, and what is put in their place.

What tells requests apart by its identity is no text to be loosened: the name of the model, large
base64, bytes that are no text, the hash of a form's part.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from llm_proxy.matching.document import Document
from llm_proxy.matching.large_base64 import is_encoded
from llm_proxy.matching.rules import Normalised
from llm_proxy.turns import Json

_MODEL: Final = "model"
"""The member or field that names it, in every dialect that has it in the body."""
_OF_FIELD: Final = ("value", "filename")
"""What of a form's field is text."""

Change = Callable[[Json, str], Json]
"""What becomes of a value that holds no others, under the name of the member that it stands in."""


class Names:
    """Names of ours for what differs from run to run, numbered in the order of their finding."""

    def __init__(self, word: str) -> None:
        """`word` is what they are called: `uuid` makes `<uuid-1>`, `<uuid-2>`."""
        self._word = word
        self._known: dict[str, str] = {}

    def of(self, value: str) -> str:
        """The name of a value, the same for the same value."""
        return self._known.setdefault(value, f"<{self._word}-{len(self._known) + 1}>")

    def given(self) -> dict[str, str]:
        """What was given which name, by name."""
        return {name: value for value, name in self._known.items()}


def texts_changed(value: Json, change: Callable[[str], str]) -> Json:
    """A value with every text in it changed, in one order for all that mean the same.

    Members of objects come in the order of their names, whatever the spelling's was.  Names of
    members stay.
    """
    return _changed(value, lambda leaf, _: change(leaf) if isinstance(leaf, str) else leaf, "")


def with_texts(document: Document, change: Callable[[str], str]) -> Document:
    """The document with every text of its body changed, in the order of `texts_changed`."""
    return with_values(document, lambda leaf, _: change(leaf) if isinstance(leaf, str) else leaf)


def with_values(document: Document, change: Change) -> Document:
    """The document with every value of its body changed that holds no others."""
    return replace(document, body=_body(document, change))


def _body(document: Document, change: Change) -> Json:
    body = document.body
    match document.kind, body:
        case "json", dict():
            return {
                name: item if name == _MODEL else _changed(item, change, name)
                for name, item in sorted(body.items())
            }
        case "form", list():
            return [_field(field, change) for field in body]
        case "text", str() if not _is_text(body):
            return body
        case _:
            return _changed(body, change, "")


def _field(field: Json, change: Change) -> Json:
    """A field of a form."""
    if not isinstance(field, dict) or (name := str(field.get("name", ""))) == _MODEL:
        return field
    return field | {part: change(field[part], name) for part in _OF_FIELD if part in field}


def _changed(value: Json, change: Change, name: str) -> Json:
    match value:
        case list():
            return [_changed(item, change, name) for item in value]
        case dict():
            return {each: _changed(value[each], change, each) for each in sorted(value)}
        case str() if is_encoded(value):
            return value
        case _:
            return change(value, name)


def _is_text(body: str) -> bool:
    try:
        body.encode()
    except UnicodeEncodeError:
        return False
    return True


def named(document: Document, pattern: re.Pattern[str], names: Names) -> Normalised:
    """The document with a name in place of everything that the pattern finds in its texts."""
    done = with_texts(document, lambda text: pattern.sub(lambda found: names.of(found[0]), text))
    return Normalised(done, names.given())
