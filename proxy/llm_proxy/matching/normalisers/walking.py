"""Texts of a document, one after the other, and what is put in their place."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from llm_proxy.matching.document import Document
from llm_proxy.matching.rules import Normalised
from llm_proxy.turns import Json


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
    match value:
        case str():
            return change(value)
        case list():
            return [texts_changed(item, change) for item in value]
        case dict():
            return {name: texts_changed(value[name], change) for name in sorted(value)}
        case _:
            return value


def named(document: Document, pattern: re.Pattern[str], names: Names) -> Normalised:
    """The document with a name in place of everything that the pattern finds in its texts."""
    body = texts_changed(
        document.body, lambda text: pattern.sub(lambda found: names.of(found[0]), text)
    )
    return Normalised(replace(document, body=body), names.given())


def blanked(document: Document, pattern: re.Pattern[str], mark: str) -> Normalised:
    """The document with one mark in place of everything that the pattern finds in its texts."""
    body = texts_changed(document.body, lambda text: pattern.sub(mark, text))
    return Normalised(replace(document, body=body))
