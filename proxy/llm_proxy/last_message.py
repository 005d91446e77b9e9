"""Finds the last message with text in a request of any provider.

People recognise a request by it, and it preselects candidates among many requests.  It never
decides which response is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects.lenient_json import (
    Fields,
    get_objects,
    get_text,
    join_pieces,
    parse_object,
)
from llm_proxy.turns import Json

_MESSAGE_LIST_FIELDS: Final = ("messages", "input", "contents")
"""Fields that hold the messages: OpenAI and most others, OpenAI Responses, Gemini."""
_PROMPT_FIELDS: Final = ("prompt", "input", "inputText", "message", "query")
"""Fields that hold a single text."""
_TEXT_FIELDS: Final = ("text", "content", "parts", "output")
"""Fields of a message, or of a part of one, that hold its text."""
_MAX_DEPTH: Final = 8


@dataclass(frozen=True, slots=True)
class LastMessage:
    """The last message of a request that has text."""

    role: str
    """`user`, `tool`, or an item's type; empty for a prompt without a role."""
    text: str


def last_message(body: bytes) -> LastMessage | None:
    """The last message with text in a request body, of any role; None if there is none."""
    return last_message_in_fields(parse_object(body))


def last_message_in_fields(fields: Fields) -> LastMessage | None:
    """The last message with text in a parsed request body; None if there is none."""
    for name in _MESSAGE_LIST_FIELDS:
        for message in reversed(get_objects(fields, name)):
            if text := _collect_text(dict(message), _MAX_DEPTH):
                role = get_text(message, "role")
                return LastMessage(role or get_text(message, "type"), text)
    for name in _PROMPT_FIELDS:
        if text := _collect_text(fields.get(name), _MAX_DEPTH):
            return LastMessage("", text)
    return None


def _collect_text(value: Json, depth: int) -> str:
    if depth == 0:
        return ""
    match value:
        case str():
            return join_pieces([value])
        case list():
            return "\n".join(filter(None, (_collect_text(item, depth - 1) for item in value)))
        case dict():
            texts = (_collect_text(value.get(name), depth - 1) for name in _TEXT_FIELDS)
            return next(filter(None, texts), "")
        case _:
            return ""
