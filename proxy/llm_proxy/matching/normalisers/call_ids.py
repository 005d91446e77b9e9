"""`call-ids`: which ids calls and messages have does not count, but where one stands again.

The dialect says where they stand.  An id that is found there is replaced wherever it stands again:
within texts, if it is long enough to be there by no accident, or else as the whole of what is
called an id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from llm_proxy.matching import value_finder
from llm_proxy.matching.document import Document
from llm_proxy.matching.large_base64 import is_encoded
from llm_proxy.matching.normalisers.kind import Kind
from llm_proxy.matching.normalisers.mapping import Names
from llm_proxy.matching.normalisers.texts_at_path import texts_at
from llm_proxy.matching.rules import Apply, Normalised
from llm_proxy.turns import Json

_OURS: Final = re.compile(r"<[a-z-]+-[0-9]+>")
"""A name that another rule has given."""
_WORD: Final = re.compile(r"(?<![\w-])\w[\w-]{6,}\w")
"""What is looked up in texts: a plain id is one of these."""


def _make(_argument: str) -> Apply:
    return _apply


def _apply(document: Document) -> Normalised:
    if document.kind != "json":
        return Normalised(document)
    names = Names("id")
    known: dict[str, str] = {}
    for path in document.dialect.ids:
        for id_ in texts_at(document.body, path):
            if id_ and not _OURS.fullmatch(id_):
                known[id_] = names.of(id_)
    if not known:
        return Normalised(document)
    body = _changed(document.body, known, _in_texts(known))
    return Normalised(replace(document, body=body), names.given())


def _changed(value: Json, known: Mapping[str, str], in_text: Callable[[str], str]) -> Json:
    """The value with the names of the ids, wherever they stand."""
    match value:
        case str():
            return value if is_encoded(value) else in_text(value)
        case list():
            return [_changed(item, known, in_text) for item in value]
        case dict():
            return {
                name: known[item]
                if isinstance(item, str) and item in known and value_finder.is_id(name)
                else _changed(item, known, in_text)
                for name, item in value.items()
            }
        case _:
            return value


def _in_texts(known: Mapping[str, str]) -> Callable[[str], str]:
    """What puts names in the place of the long ids within a text."""
    long = {id_: name for id_, name in known.items() if value_finder.is_long(id_)}
    odd = sorted((it for it in long if not _WORD.fullmatch(it)), key=len, reverse=True)
    standing = value_finder.Standing(odd)

    def change(text: str) -> str:
        if not long:
            return text
        if odd:
            text = standing.replaced(text, long.__getitem__)
        return _WORD.sub(lambda found: long.get(found[0], found[0]), text)

    return change


CALL_IDS: Final = Kind(
    name="call-ids", version=1, overlooks="which ids calls and messages have", make=_make
)
