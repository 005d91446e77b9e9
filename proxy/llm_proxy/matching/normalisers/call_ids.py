"""`call-ids`: replaces ids of calls and messages by positional aliases.

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
from llm_proxy.matching.document import KeyDocument
from llm_proxy.matching.large_base64 import is_large_base64
from llm_proxy.matching.normalisers.definition import NormaliserKind
from llm_proxy.matching.normalisers.mapping import AliasTable
from llm_proxy.matching.normalisers.texts_at_path import texts_at_path
from llm_proxy.matching.rules import Apply, NormalizedDocument
from llm_proxy.turns import Json

_OURS: Final = re.compile(r"<[a-z-]+-[0-9]+>")
"""A name that another rule has given."""
_WORD: Final = re.compile(r"(?<![\w-])\w[\w-]{6,}\w")
"""What is looked up in texts: a plain id is one of these."""


def _make_rule(_argument: str) -> Apply:
    return _apply_rule


def _apply_rule(document: KeyDocument) -> NormalizedDocument:
    if document.kind != "json":
        return NormalizedDocument(document)
    names = AliasTable("id")
    known: dict[str, str] = {}
    for path in document.dialect.id_paths:
        for id_ in texts_at_path(document.body, path):
            if id_ and not _OURS.fullmatch(id_):
                known[id_] = names.alias_of(id_)
    if not known:
        return NormalizedDocument(document)
    body = _replace_ids(document.body, known, _text_replacer(known))
    return NormalizedDocument(replace(document, body=body), names.aliases())


def _replace_ids(value: Json, known: Mapping[str, str], in_text: Callable[[str], str]) -> Json:
    match value:
        case str():
            return value if is_large_base64(value) else in_text(value)
        case list():
            return [_replace_ids(item, known, in_text) for item in value]
        case dict():
            return {
                name: known[item]
                if isinstance(item, str) and item in known and value_finder.is_id_member(name)
                else _replace_ids(item, known, in_text)
                for name, item in value.items()
            }
        case _:
            return value


def _text_replacer(known: Mapping[str, str]) -> Callable[[str], str]:
    long = {id_: name for id_, name in known.items() if value_finder.is_long_enough(id_)}
    odd = sorted(
        (content for content in long if not _WORD.fullmatch(content)), key=len, reverse=True
    )
    standing = value_finder.ValueFinder(odd)

    def change(text: str) -> str:
        if not long:
            return text
        if odd:
            text = standing.replace_all(text, long.__getitem__)
        return _WORD.sub(lambda found: long.get(found[0], found[0]), text)

    return change


CALL_IDS: Final = NormaliserKind(
    name="call-ids", version=1, ignores="which ids calls and messages have", make_rule_of=_make_rule
)
