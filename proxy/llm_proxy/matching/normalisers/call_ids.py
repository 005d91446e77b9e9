"""`call-ids`: replaces ids of calls and messages by positional aliases.

The dialect lists the paths of ids.  An id found there is replaced wherever it occurs again: within
texts if it is distinctive (`is_distinctive`), or else as the whole value of a member named like an
id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from llm_proxy.matching import value_finder
from llm_proxy.matching.key_documents import KeyDocument
from llm_proxy.matching.large_base64 import is_large_base64
from llm_proxy.matching.normalisers.mapping import AliasTable
from llm_proxy.matching.rules import NormaliserDefinition, NormalizedDocument
from llm_proxy.turns import Json

_ALIAS: Final = re.compile(r"<[a-z-]+-[0-9]+>")
"""An alias that another rule has set."""
_ID_WORD: Final = re.compile(r"(?<![\w-])\w[\w-]{6,}\w")
"""A word of a text that may be an id."""


def texts_at_path(value: Json, path: str) -> Iterator[str]:
    """The texts at a path of members, in order; `name[*]` stands for each item of a list."""
    name, _, rest = path.removeprefix("$.").partition(".")
    inner = value.get(name.removesuffix("[*]")) if isinstance(value, dict) else None
    items = inner if isinstance(inner, list) else []
    for item in items if name.endswith("[*]") else [inner]:
        if rest:
            yield from texts_at_path(item, rest)
        elif isinstance(item, str):
            yield item


def _normalize_call_ids(document: KeyDocument) -> NormalizedDocument:
    if document.body_kind != "json":
        return NormalizedDocument(document)
    aliases = AliasTable("id")
    alias_by_id = {
        id_: aliases.alias_of(id_)
        for path in document.dialect.id_json_paths
        for id_ in texts_at_path(document.body, path)
        if id_ and not _ALIAS.fullmatch(id_)
    }
    if not alias_by_id:
        return NormalizedDocument(document)
    body = _replace_ids(document.body, alias_by_id, _text_replacer(alias_by_id))
    return NormalizedDocument(replace(document, body=body), aliases.value_by_alias())


def _replace_ids(
    value: Json, alias_by_id: Mapping[str, str], replace_in_text: Callable[[str], str]
) -> Json:
    match value:
        case str():
            return value if is_large_base64(value) else replace_in_text(value)
        case list():
            return [_replace_ids(item, alias_by_id, replace_in_text) for item in value]
        case dict():
            return {
                name: alias_by_id[item]
                if isinstance(item, str) and item in alias_by_id and value_finder.is_id_member(name)
                else _replace_ids(item, alias_by_id, replace_in_text)
                for name, item in value.items()
            }
        case _:
            return value


def _text_replacer(alias_by_id: Mapping[str, str]) -> Callable[[str], str]:
    long_ids = {id_: name for id_, name in alias_by_id.items() if value_finder.is_distinctive(id_)}
    non_word_ids = sorted(
        (content for content in long_ids if not _ID_WORD.fullmatch(content)), key=len, reverse=True
    )
    finder = value_finder.ValueFinder(non_word_ids)

    def replace_in_text(text: str) -> str:
        if not long_ids:
            return text
        if non_word_ids:
            text = finder.replace_all(text, long_ids.__getitem__)
        return _ID_WORD.sub(lambda found: long_ids.get(found[0], found[0]), text)

    return replace_in_text


CALL_IDS: Final = NormaliserDefinition("call-ids", 1, lambda _argument: _normalize_call_ids)
