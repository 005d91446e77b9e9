"""What a request asks, apart from all that it is asked with."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.diff import json_leaves
from llm_proxy.matching import Document
from llm_proxy.turns import Json

CONVERSATION: Final = frozenset(
    """
    chat_history contents documents input inputText inputs instances instructions message messages
    preamble prompt query requests system systemInstruction system_instruction texts
    """.split()  # noqa: SIM905 # a table of words, one name a line would hide it
)
"""The members of bodies in which dialects have what is asked."""
_CONTENT: Final = ("value", "sha256")
"""What a field of a form says, beside how it is called."""


def what_is_asked(document: Document) -> dict[str, str]:
    """The values under their paths that stand within what is asked.

    Of a form these are the fields of the same names, and its files; of a body that is neither
    form nor JSON object it is all.
    """
    match document.kind, document.body:
        case "form", list() as fields:
            asked = replace(document, kind="json", body=_of_form(fields))
        case "json", dict() as body:
            asked = replace(document, body={it: body[it] for it in body if it in CONVERSATION})
        case _:
            asked = document
    flat = json_leaves.leaves(asked)
    return {path: it for path, it in flat.items() if path[:1] == "$" or path == "body"}


def _of_form(fields: list[Json]) -> Json:
    """The fields that ask, by their names: another one that comes in between moves none."""
    asked: dict[str, list[Json]] = {}
    for it in fields:
        if not isinstance(it, dict):
            continue
        name = str(it.get("name"))
        if name in CONVERSATION or "filename" in it:
            said: Json = {each: it[each] for each in _CONTENT if each in it}
            asked.setdefault(name, []).append(said)
    return {**asked}
