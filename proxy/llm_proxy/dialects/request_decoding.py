"""What dialects have in common that read what a request asks.

Clients write what they like: what is of another kind than it should be counts as absent, as in
`reading`.  Parts are told without what a provider keeps beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Final

from llm_proxy.conversation import Conversation, Message, Role, Tool
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import is_silent
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.surrogates import mended
from llm_proxy.turns import Json, Part, Text, ToolCall, ToolResult

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "chatbot": "assistant",
    "tool": "tool",
    "function": "tool",
}

_OFF: Final = ("", "none", "disabled")
"""Words that switch reasoning off."""
_SWITCHES: Final = ("type", "effort", "enabled")
"""The fields of a switch that may say off."""

_LARGEST: Final = 2**53
"""From here on, numbers are not exact everywhere."""

_NAMED: Final = ("function", "custom")
"""The types of tools that must have a name."""

_TEXTS: Final = ("text", "input_text", "output_text")
"""The types of blocks of text."""


def role(value: Json) -> Role | None:
    """Who speaks; None for a role that nobody knows."""
    return _ROLES.get(lenient_json.text(value).lower())


def said(value: Json) -> str:
    """A string, of whole characters."""
    return lenient_json.joined([lenient_json.text(value)])


def texts(value: Json) -> Iterator[Text]:
    """A text, or each of a list of them: texts themselves, and blocks of text."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            if item.get("type", _TEXTS[0]) in _TEXTS:
                yield Text(said(item.get("text")))
        else:
            yield Text(said(item))


def in_words(content: Json) -> str:
    """What a tool gave: its texts, joined with line ends; as JSON where it has none."""
    match content:
        case list():
            found = [it.text for it in texts(content) if it.text]
            return "\n".join(found) or (lenient_json.words(content) if content else "")
        case _:
            return lenient_json.words(content)


def number(value: Json) -> float | None:
    """A number as it was sent: whole ones stay `int`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -_LARGEST < value < _LARGEST else None


def is_on(switch: Json) -> bool:
    """Whether a switch of reasoning is there, and not off: a truth, a level, or an object."""
    match switch:
        case bool():
            return switch
        case str():
            return switch not in _OFF
        case dict():
            return all(switch.get(it) not in (False, *_OFF) for it in _SWITCHES)
        case _:
            return False


def structure(asked: Fields, *places: Json) -> Json:
    """The JSON Schema that an answer must have, which is the first object among these places.

    None where what is asked for is not of a type that begins with `json`.
    """
    is_json = lenient_json.text(asked.get("type")).startswith("json")
    return schema(*places) or {} if is_json else None


def schema(*places: Json) -> dict[str, Json] | None:
    """The first object among these places."""
    return next((it for it in places if isinstance(it, dict)), None)


def tool(about: Fields, *schemas: Json) -> Iterator[Tool]:
    """The tool that is described: by its name, and a built-in one without a name by its type."""
    if name := said(about.get("name")):
        yield Tool(name, said(about.get("description")), schema(*schemas))
    elif (kind := said(about.get("type"))) and kind not in _NAMED:
        yield Tool(kind, said(about.get("description")))


def functions(offered: Json) -> Iterator[Tool]:
    """Tools that are wrapped in their type, as of OpenAI's; built-in ones are nothing else."""
    for it in lenient_json.objects(offered):
        about = lenient_json.fields(it.get("function") or it.get("custom")) or it
        yield from tool(about, about.get("parameters"))


def message(role: Role, parts: Iterable[Part]) -> Message:
    """What somebody says; of a user who gives nothing but results of tools, the tools say it."""
    told = tuple(filter(_tells, map(_bare, parts)))
    gives = bool(told) and all(isinstance(it, ToolResult) for it in told)
    return Message("tool" if role == "user" and gives else role, told)


def _bare(part: Part) -> Part:
    return mended(Text(part.text) if isinstance(part, Text) else replace(part, metadata=()))


def _tells(part: Part) -> bool:
    return not is_silent(part)


def in_order(
    messages: Iterable[Message], runs: tuple[Role, ...] = ("tool",)
) -> tuple[Message, ...]:
    """The messages, as one where those of a role in `runs` follow each other.

    A result is named after its call: the last one before it of the same id.
    """
    told: list[Message] = []
    names: dict[str, str] = {}
    for speaker, group in groupby(messages, key=lambda it: it.role):
        parts = [tuple(_named(part, names) for part in it.parts) for it in group]
        together = [tuple(part for each in parts for part in each)]
        told += (Message(speaker, it) for it in (together if speaker in runs else parts))
    return tuple(told)


def _named(part: Part, names: dict[str, str]) -> Part:
    match part:
        case ToolCall(id=call_id, name=name) if call_id:
            names[call_id] = name
        case ToolResult(call_id=call_id, name="") if call_id in names:
            return replace(part, name=names[call_id])
        case _:
            pass
    return part


def system(messages: Iterable[Message]) -> str:
    """The system prompt, where it is the first message of that role."""
    return next((it.text for it in messages if it.role == "system"), "")


def prompted(prompt: Json, temperature: Json, top_p: Json) -> Conversation:
    """A conversation of one message, whose user says the prompt."""
    return Conversation(
        (message("user", texts(prompt)),), temperature=number(temperature), top_p=number(top_p)
    )
