"""Finds the last message with text in a request of any provider.

For people to recognise a request by, and to choose a few among very many that are looked into: no
answer is decided on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json

_CONVERSATIONS: Final = ("messages", "input", "contents")
"""Where providers keep the messages: OpenAI and most, OpenAI Responses, Gemini."""
_PROMPTS: Final = ("prompt", "input", "inputText", "message", "query")
"""Where they keep a text alone."""
_TEXTS: Final = ("text", "content", "parts", "output")
"""Where a message, or a part of one, keeps its text."""
_DEEPEST: Final = 8


@dataclass(frozen=True, slots=True)
class LastMessage:
    """The last thing that was said to the model."""

    role: str
    """Who said it: `user`, `tool`; empty for a prompt without a role."""
    text: str


def last_message(body: bytes) -> LastMessage | None:
    """The last message of a request that has text, whoever said it; None where there is none."""
    return last_message_of(lenient_json.parse_object(body))


def last_message_of(fields: Fields) -> LastMessage | None:
    """The same of a body that is read already."""
    for name in _CONVERSATIONS:
        if (found := _last_with_text(lenient_json.object_items(fields.get(name)))) is not None:
            return found
    for name in _PROMPTS:
        if text := _collect_text(fields.get(name), _DEEPEST):
            return LastMessage("", text)
    return None


def _last_with_text(messages: list[Fields]) -> LastMessage | None:
    for message in reversed(messages):
        role = lenient_json.printable_text(message.get("role")) or lenient_json.printable_text(
            message.get("type")
        )
        if text := _collect_text(dict(message), _DEEPEST):
            return LastMessage(role, text)
    return None


def _collect_text(value: Json, depth: int) -> str:
    if depth == 0:
        return ""
    match value:
        case str():
            return lenient_json.join_pieces([value])
        case list():
            return "\n".join(filter(None, (_collect_text(item, depth - 1) for item in value)))
        case dict():
            texts = (_collect_text(value.get(name), depth - 1) for name in _TEXTS)
            return next(filter(None, texts), "")
        case _:
            return ""
