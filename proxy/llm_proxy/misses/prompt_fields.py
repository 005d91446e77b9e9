"""Selects the leaves of a request that hold its prompt."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.diff import json_leaves
from llm_proxy.matching import KeyDocument
from llm_proxy.turns import Json

PROMPT_FIELDS: Final = frozenset(
    """
    chat_history contents documents input inputText inputs instances instructions message messages
    preamble prompt query requests system systemInstruction system_instruction texts
    """.split()  # noqa: SIM905 # a table of words, one name a line would hide it
)
"""The body members, of any dialect, that hold the prompt: messages, instructions, inputs."""
_FORM_CONTENT_MEMBERS: Final = ("value", "sha256")
"""The members of a form field that hold its content."""


def prompt_leaves(document: KeyDocument) -> dict[str, str]:
    """The values of the prompt by path.

    In a form, these are the fields named in `PROMPT_FIELDS`, and the files; of a body that is
    neither a form nor a JSON object, all values.
    """
    match document.body_kind, document.body:
        case "form", list() as fields:
            prompt_document = replace(document, body_kind="json", body=_form_prompt_fields(fields))
        case "json", dict() as body:
            prompt_document = replace(
                document, body={text: body[text] for text in body if text in PROMPT_FIELDS}
            )
        case _:
            prompt_document = document
    leaves = json_leaves.json_leaves(prompt_document)
    return {path: text for path, text in leaves.items() if path[:1] == "$" or path == "body"}


def _form_prompt_fields(fields: list[Json]) -> Json:
    """The prompt fields by name, so that an inserted field does not shift the others' paths."""
    contents_by_name: dict[str, list[Json]] = {}
    for field in fields:
        if not isinstance(field, dict):
            continue
        name = str(field.get("name"))
        if name in PROMPT_FIELDS or "filename" in field:
            content: Json = {item: field[item] for item in _FORM_CONTENT_MEMBERS if item in field}
            contents_by_name.setdefault(name, []).append(content)
    return {**contents_by_name}
