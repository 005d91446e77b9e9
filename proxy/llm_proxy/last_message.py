"""What a request asks, in whatever words its provider has for it.

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
class Question:
    """The last thing that was said to the model."""

    role: str
    """Who said it: `user`, `tool`; empty for a prompt without a role."""
    text: str


def question(body: bytes) -> Question | None:
    """The last message of a request that has text, whoever said it; None where there is none."""
    return question_in(lenient_json.document(body))


def question_in(asked: Fields) -> Question | None:
    """The same of a body that is read already."""
    for name in _CONVERSATIONS:
        if (found := _last(lenient_json.objects(asked.get(name)))) is not None:
            return found
    for name in _PROMPTS:
        if text := _text(asked.get(name), _DEEPEST):
            return Question("", text)
    return None


def _last(messages: list[Fields]) -> Question | None:
    for message in reversed(messages):
        role = lenient_json.words(message.get("role")) or lenient_json.words(message.get("type"))
        if text := _text(dict(message), _DEEPEST):
            return Question(role, text)
    return None


def _text(value: Json, depth: int) -> str:
    """All text in a message, a part, or a list of them."""
    if depth == 0:
        return ""
    match value:
        case str():
            return lenient_json.joined([value])
        case list():
            return "\n".join(filter(None, (_text(item, depth - 1) for item in value)))
        case dict():
            texts = (_text(value.get(name), depth - 1) for name in _TEXTS)
            return next(filter(None, texts), "")
        case _:
            return ""
