"""Shared helpers for decoding requests.

Clients write what they like: what is of another kind than it should be counts as absent, as in
`reading`.  Parts are told without what a provider keeps beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage, Role, ToolDefinition
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import is_empty_part
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.surrogates import replace_lone_surrogates
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


def decode_role(value: Json) -> Role | None:
    """Who speaks; None for a role that nobody knows."""
    return _ROLES.get(lenient_json.str_or_empty(value).lower())


def text_or_empty(value: Json) -> str:
    """A string, of whole characters."""
    return lenient_json.join_pieces([lenient_json.str_or_empty(value)])


def decode_texts(value: Json) -> Iterator[Text]:
    """A text, or each of a list of them: texts themselves, and blocks of text."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            if item.get("type", _TEXTS[0]) in _TEXTS:
                yield Text(text_or_empty(item.get("text")))
        else:
            yield Text(text_or_empty(item))


def tool_output_text(content: Json) -> str:
    """What a tool gave: its texts, joined with line ends; as JSON where it has none."""
    match content:
        case list():
            found = [decode_text.text for decode_text in decode_texts(content) if decode_text.text]
            return "\n".join(found) or (lenient_json.printable_text(content) if content else "")
        case _:
            return lenient_json.printable_text(content)


def decode_number(value: Json) -> float | None:
    """A number as it was sent: whole ones stay `int`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -_LARGEST < value < _LARGEST else None


def is_reasoning_enabled(switch: Json) -> bool:
    """Whether a switch of reasoning is there, and not off: a truth, a level, or an object."""
    match switch:
        case bool():
            return switch
        case str():
            return switch not in _OFF
        case dict():
            return all(switch.get(item) not in (False, *_OFF) for item in _SWITCHES)
        case _:
            return False


def response_schema(fields: Fields, *places: Json) -> Json:
    """The JSON Schema that an answer must have, which is the first object among these places.

    None where what is asked for is not of a type that begins with `json`.
    """
    is_json = lenient_json.str_or_empty(fields.get("type")).startswith("json")
    return first_schema(*places) or {} if is_json else None


def first_schema(*places: Json) -> dict[str, Json] | None:
    """The first object among these places."""
    return next((place for place in places if isinstance(place, dict)), None)


def decode_tool(fields: Fields, *schemas: Json) -> Iterator[ToolDefinition]:
    """The tool that is described: by its name, and a built-in one without a name by its type."""
    if name := text_or_empty(fields.get("name")):
        yield ToolDefinition(name, text_or_empty(fields.get("description")), first_schema(*schemas))
    elif (kind := text_or_empty(fields.get("type"))) and kind not in _NAMED:
        yield ToolDefinition(kind, text_or_empty(fields.get("description")))


def decode_function_tools(offered: Json) -> Iterator[ToolDefinition]:
    """Tools that are wrapped in their type, as of OpenAI's; built-in ones are nothing else."""
    for object_item in lenient_json.object_items(offered):
        fields = (
            lenient_json.object_fields(object_item.get("function") or object_item.get("custom"))
            or object_item
        )
        yield from decode_tool(fields, fields.get("parameters"))


def request_message(role: Role, parts: Iterable[Part]) -> RequestMessage:
    """What somebody says; of a user who gives nothing but results of tools, the tools say it."""
    values = tuple(filter(_has_content, map(_without_metadata, parts)))
    gives = bool(values) and all(isinstance(part, ToolResult) for part in values)
    return RequestMessage("tool" if role == "user" and gives else role, values)


def _without_metadata(part: Part) -> Part:
    return replace_lone_surrogates(
        Text(part.text) if isinstance(part, Text) else replace(part, metadata=())
    )


def _has_content(part: Part) -> bool:
    return not is_empty_part(part)


def merge_adjacent_roles(
    messages: Iterable[RequestMessage], mergeable_roles: tuple[Role, ...] = ("tool",)
) -> tuple[RequestMessage, ...]:
    """The messages, as one where those of a role in `runs` follow each other.

    A result is named after its call: the last one before it of the same id.
    """
    items: list[RequestMessage] = []
    names: dict[str, str] = {}
    for speaker, group in groupby(messages, key=lambda it: it.role):
        parts = [tuple(_with_result_name(part, names) for part in item.parts) for item in group]
        together = [tuple(part for values in parts for part in values)]
        items += (
            RequestMessage(speaker, values)
            for values in (together if speaker in mergeable_roles else parts)
        )
    return tuple(items)


def _with_result_name(part: Part, names: dict[str, str]) -> Part:
    match part:
        case ToolCall(id=call_id, name=name) if call_id:
            names[call_id] = name
        case ToolResult(call_id=call_id, name="") if call_id in names:
            return replace(part, name=names[call_id])
        case _:
            pass
    return part


def leading_system_prompt(messages: Iterable[RequestMessage]) -> str:
    """The system prompt, where it is the first message of that role."""
    return next((message.text for message in messages if message.role == "system"), "")


def prompt_conversation(prompt: Json, temperature: Json, top_p: Json) -> Conversation:
    """A conversation of one message, whose user says the prompt."""
    return Conversation(
        (request_message("user", decode_texts(prompt)),),
        temperature=decode_number(temperature),
        top_p=decode_number(top_p),
    )
