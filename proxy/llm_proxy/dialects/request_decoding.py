"""Decodes the elements that request formats share: roles, texts, tools, schemas, numbers.

Clients send values of any type: one of the wrong type counts as absent, as in `lenient_json`.
Decoded parts have no metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, groupby
from typing import Any, Final

from llm_proxy.conversation import (
    Conversation,
    ForcedTool,
    RequestMessage,
    Role,
    ToolChoice,
    ToolDefinition,
)
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_items,
    array_objects,
    first_integer,
    get_items,
    get_object,
    get_objects,
    get_string,
    join_pieces,
    object_fields,
    str_or_empty,
    value_as_text,
)
from llm_proxy.dialects.turn_parts import is_empty_part, replace_lone_surrogates
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

_OFF_VALUES: Final = ("", "none", "disabled")
"""Values that switch reasoning off."""
_SWITCH_FIELDS: Final = ("type", "effort", "enabled")
"""The fields of a reasoning switch that may switch it off."""

_NUMBER_LIMIT: Final = 2**53
"""From here on, parsers that use doubles are not exact."""

_NAMED_TOOL_TYPES: Final = ("function", "custom")
"""The types of tools that must have a name."""

_TEXT_BLOCK_TYPES: Final = ("text", "input_text", "output_text")

_TOOL_CHOICES: Final[Mapping[str, ToolChoice]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",
}


def decode_role(value: Json) -> Role | None:
    """The role of a provider's role name, in any case; None for an unknown one."""
    return _ROLES.get(str_or_empty(value).lower())


def text_or_empty(value: Json) -> str:
    """A string without lone surrogates; empty for another type."""
    return join_pieces([str_or_empty(value)])


def decode_texts(value: Json) -> Iterator[Text]:
    """The texts of a string, a text block, or a list of them."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            if item.get("type", _TEXT_BLOCK_TYPES[0]) in _TEXT_BLOCK_TYPES:
                yield Text(text_or_empty(item.get("text")))
        else:
            yield Text(text_or_empty(item))


def tool_output_text(content: Json) -> str:
    """The output of a tool: its texts, joined with line ends; as JSON if it has none."""
    match content:
        case list():
            texts = [text.text for text in decode_texts(content) if text.text]
            return "\n".join(texts) or (value_as_text(content) if content else "")
        case _:
            return value_as_text(content)


def decode_number(value: Json) -> float | None:
    """A number as it was sent: integers stay `int`.  None for other types and from 2**53 on."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -_NUMBER_LIMIT < value < _NUMBER_LIMIT else None


def decode_stop_sequences(value: Json) -> tuple[str, ...]:
    """The texts of a list, or a text as the only one."""
    texts = [value] if isinstance(value, str) else array_items(value)
    return tuple(join_pieces([text]) for text in texts if isinstance(text, str))


OPTION_DECODERS: Final[Mapping[str, Callable[[Json], Any]]] = {
    "temperature": decode_number,
    "top_p": decode_number,
    "max_tokens": first_integer,
    "top_k": first_integer,
    "repeat_penalty": decode_number,
    "seed": first_integer,
    "stop_sequences": decode_stop_sequences,
}
"""The generation options of a `Conversation`, and what decodes each."""

OptionNames = Mapping[str, tuple[str, ...]]
"""A format's own names of generation options, by that of `Conversation`: the first is encoded, and
the first that is set is decoded."""


def decode_options(fields: Fields, names: OptionNames) -> dict[str, Any]:
    """The generation options that are set, by their names in `Conversation`."""
    options = {}
    for option, field_names in names.items():
        for value in map(OPTION_DECODERS[option], map(fields.get, field_names)):
            if value not in (None, ()):
                options[option] = value
                break
    return options


def decode_tool_choice(value: Json) -> ToolChoice | None:
    """A word or an object: with the name of a function, or with the word as its type."""
    if isinstance(value, dict):
        name = get_object(value, "function").get("name") or value.get("name")
        if forced_name := text_or_empty(name):
            return ForcedTool(forced_name)
        value = value.get("type")
    return _TOOL_CHOICES.get(str_or_empty(value))


def is_reasoning_enabled(switch: Json) -> bool:
    """Whether a reasoning switch is present and not off: a boolean, a level, or an object."""
    match switch:
        case bool():
            return switch
        case str():
            return switch not in _OFF_VALUES
        case dict():
            return all(switch.get(name) not in (False, *_OFF_VALUES) for name in _SWITCH_FIELDS)
        case _:
            return False


def response_schema(fields: Fields, *candidates: Json) -> Json:
    """The JSON Schema of the response: the first object among `candidates`, else `{}`.

    None if the type of the requested format (`fields`) does not begin with `json`.
    """
    is_json = get_string(fields, "type").startswith("json")
    return first_schema(*candidates) or {} if is_json else None


def first_schema(*candidates: Json) -> dict[str, Json] | None:
    """The first candidate that is an object."""
    return next((place for place in candidates if isinstance(place, dict)), None)


def decode_tool(fields: Fields, *schemas: Json) -> Iterator[ToolDefinition]:
    """One tool definition, or none; a built-in tool without a name is named by its type."""
    name, kind = (text_or_empty(fields.get(field)) for field in ("name", "type"))
    description = text_or_empty(fields.get("description"))
    if name:
        schema = first_schema(*schemas)
        is_function = kind in ("", "function") or schema is not None
        yield ToolDefinition(name, description, schema, "" if is_function else kind)
    elif kind and kind not in _NAMED_TOOL_TYPES:
        yield ToolDefinition(kind, description, built_in_type=kind)


def decode_function_tools(offered: Json) -> Iterator[ToolDefinition]:
    """Tools wrapped in a field named by their type, as in OpenAI's API; built-in ones are not."""
    for tool in array_objects(offered):
        fields = object_fields(tool.get("function") or tool.get("custom")) or tool
        yield from decode_tool({**fields, "type": tool.get("type")}, fields.get("parameters"))


def request_message(role: Role, parts: Iterable[Part]) -> RequestMessage:
    """A message without empty parts; a user's of nothing but tool results gets the role `tool`."""
    kept_parts: list[Part] = []
    for part in parts:
        bare = Text(part.text) if isinstance(part, Text) else replace(part, metadata=())
        if not is_empty_part(bare):
            kept_parts.append(replace_lone_surrogates(bare))
    is_results_only = bool(kept_parts) and all(isinstance(part, ToolResult) for part in kept_parts)
    kept_role = "tool" if role == "user" and is_results_only else role
    return RequestMessage(kept_role, tuple(kept_parts))


def conversation(
    messages: Iterable[RequestMessage],
    sampling: Fields,
    system: str = "",
    *,
    mergeable_roles: tuple[Role, ...] = ("tool",),
) -> Conversation:
    """The conversation of these messages, with adjacent ones merged for `mergeable_roles`.

    `sampling` has the temperature and top-p under these names; `decode_options` decodes the others.
    Without a `system` prompt, the first `system` message is that.  A result without a name gets
    that of its call: the last one before it with the same id.
    """
    merged = merge_adjacent_messages(messages, mergeable_roles)
    system_texts = (message.text for message in merged if message.role == "system")
    return Conversation(
        merged,
        system=system or next(system_texts, ""),
        temperature=decode_number(sampling.get("temperature")),
        top_p=decode_number(sampling.get("top_p")),
    )


def merge_adjacent_messages(
    messages: Iterable[RequestMessage], mergeable_roles: tuple[Role, ...] = ("tool",)
) -> tuple[RequestMessage, ...]:
    """The messages, with adjacent ones merged for these roles, and with the names of results."""
    merged_messages: list[RequestMessage] = []
    tool_names: dict[str, str] = {}
    for role, group in groupby(messages, key=lambda message: message.role):
        parts = [
            tuple(_fill_tool_result_name(part, tool_names) for part in message.parts)
            for message in group
        ]
        if role in mergeable_roles:
            parts = [tuple(chain.from_iterable(parts))]
        merged_messages += (RequestMessage(role, message_parts) for message_parts in parts)
    return tuple(merged_messages)


def _fill_tool_result_name(part: Part, tool_names: dict[str, str]) -> Part:
    match part:
        case ToolCall(id=call_id, name=name) if call_id:
            tool_names[call_id] = name
        case ToolResult(call_id=call_id, name="") if call_id in tool_names:
            return replace(part, name=tool_names[call_id])
        case _:
            pass
    return part


def prompt_conversation(prompt: Json, sampling: Fields) -> Conversation:
    """A conversation of one user message with the prompt."""
    message = request_message("user", decode_texts(prompt))
    return conversation([message], sampling)


def body_without_unsigned_reasoning(body: Json) -> Json:
    """A request body without the reasoning of assistant messages with calls that is not signed.

    It covers Anthropic and Bedrock Converse, the formats that document 000 names.
    """
    if not isinstance(body, dict):
        return body
    messages = [_message_without_unsigned(message) for message in get_items(body, "messages")]
    return body | {"messages": messages} if messages else body


def _message_without_unsigned(message: Json) -> Json:
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return message
    blocks = get_objects(message, "content")
    reasoning_blocks = [
        block
        for block in blocks
        if block.get("type") in ("thinking", "redacted_thinking") or "reasoningContent" in block
    ]
    has_tool_call = any(block.get("type") == "tool_use" or "toolUse" in block for block in blocks)
    if not has_tool_call or not reasoning_blocks or any(map(_signature_of_block, reasoning_blocks)):
        return message
    content = get_items(message, "content")
    return message | {"content": [block for block in content if block not in reasoning_blocks]}


def _signature_of_block(block: Fields) -> Json:
    reasoning = get_object(block, "reasoningContent")
    return (
        block.get("signature")
        or block.get("data")
        or get_object(reasoning, "reasoningText").get("signature")
        or reasoning.get("redactedContent")
    )
