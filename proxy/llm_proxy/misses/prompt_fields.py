"""Selects the leaves of a request that are its question."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.diff import json_leaves
from llm_proxy.matching import KeyDocument
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


def question_leaves(document: KeyDocument) -> dict[str, str]:
    """The values under their paths that stand within what is asked.

    Of a form these are the fields of the same names, and its files; of a body that is neither
    form nor JSON object it is all.
    """
    match document.kind, document.body:
        case "form", list() as fields:
            key_document = replace(document, kind="json", body=_form_question_fields(fields))
        case "json", dict() as body:
            key_document = replace(
                document, body={text: body[text] for text in body if text in CONVERSATION}
            )
        case _:
            key_document = document
    flat = json_leaves.json_leaves(key_document)
    return {path: text for path, text in flat.items() if path[:1] == "$" or path == "body"}


def _form_question_fields(fields: list[Json]) -> Json:
    """The fields that ask, by their names: another one that comes in between moves none."""
    document: dict[str, list[Json]] = {}
    for field in fields:
        if not isinstance(field, dict):
            continue
        name = str(field.get("name"))
        if name in CONVERSATION or "filename" in field:
            details: Json = {item: field[item] for item in _CONTENT if item in field}
            document.setdefault(name, []).append(details)
    return {**document}
