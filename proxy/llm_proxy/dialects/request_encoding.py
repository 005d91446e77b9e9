"""Encodes the elements that request formats share: options, functions, schemas, media.

What a format cannot express is refused by name with `NotRepresentable`; nothing is left out but
empty parts.  A lone surrogate becomes U+FFFD, as in responses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

from llm_proxy.conversation import (
    Conversation,
    ForcedTool,
    RequestMessage,
    ToolChoice,
    ToolDefinition,
)
from llm_proxy.dialects import json_api, request_decoding, response_encoding
from llm_proxy.dialects.encoding import PART_LABELS
from llm_proxy.dialects.lenient_json import get_text
from llm_proxy.dialects.request_decoding import OPTION_DECODERS, OptionNames
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.turn_parts import (
    is_empty_part,
    is_provider_tool_call,
    replace_lone_surrogates,
)
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Headers, Request
from llm_proxy.turns import Json, Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

PartKinds = Mapping[str, tuple[type[Part], ...]]
"""The kinds of parts that a format has in messages of each role."""

MESSAGE_PARTS: Final[PartKinds] = {
    "system": (Text,),
    "user": (Text, Media),
    "assistant": (Text, Refusal, Reasoning, ToolCall),
    "tool": (ToolResult,),
}
"""Those of most formats."""
PROVIDER_TOOL_MESSAGE_PARTS: Final[PartKinds] = {
    **MESSAGE_PARTS,
    "user": (*MESSAGE_PARTS["user"], ToolResult),
    "assistant": (*MESSAGE_PARTS["assistant"], ToolResult, Media),
}
"""Those of formats whose models return results of tools that the provider runs, and media."""

PORTABLE_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")
"""An id of a call that all providers accept: Anthropic limits characters, and OpenAI the length."""

RESPONSE_FORMAT_NAME: Final = "response"
"""The name of a response's schema, where a format requires one."""

_COMMON_OPTIONS: Final[OptionNames] = {"temperature": ("temperature",), "top_p": ("top_p",)}


def refusal(dialect: str, what: str) -> NotRepresentable:
    """The error for a part or an option that the format lacks."""
    return NotRepresentable(f"{dialect} cannot represent {what}")


def prepared_conversation(
    dialect: str,
    conversation: Conversation,
    part_kinds: PartKinds = MESSAGE_PARTS,
    provider_tool_types: tuple[str, ...] = (),
    *,
    is_empty: Callable[[Part], bool] = is_empty_part,
) -> Conversation:
    """The conversation as an encoder needs it: with parts of these kinds that have content.

    Adjacent tool messages are one, and each result has the name of its call.  A data URL becomes
    inline media.  Built-in tools are refused; so are calls of a provider's own tools, unless their
    type has one of the ends in `provider_tool_types`.  Parts for which `is_empty` is true are left
    out.
    """
    for tool in conversation.tools:
        if tool.built_in_type:
            raise refusal(dialect, f"{tool.name}, a tool of type {tool.built_in_type}")
    conversation = replace_lone_surrogates(conversation)
    messages = [
        RequestMessage(message.role, tuple(_prepared_parts(dialect, message, part_kinds, is_empty)))
        for message in conversation.messages
    ]
    for call in (part for message in messages for part in message.parts):
        if is_provider_tool_call(call) and not _type_of(call).endswith(provider_tool_types):
            raise refusal(dialect, f"{call.name}, a tool that another provider runs")
    return replace(conversation, messages=request_decoding.merge_adjacent_messages(messages))


def _prepared_parts(
    dialect: str,
    message: RequestMessage,
    part_kinds: PartKinds,
    is_empty: Callable[[Part], bool],
) -> Iterator[Part]:
    if message.role not in part_kinds:
        raise refusal(dialect, f"a message of role {message.role}")
    for part in message.parts:
        if type(part) not in part_kinds[message.role]:
            raise part_refusal(dialect, part, message.role)
        match part:
            case Media(media_type=media_type, url=url, base64="") if url.startswith("data:"):
                yield json_api.decode_media_url(url, media_type)
            case Reasoning() if part.metadata:
                yield part  # an item whose id refers to what the provider stores
            case _ if not is_empty(part):
                yield part
            case _:
                pass


def _type_of(call: ToolCall) -> str:
    return get_text(dict(call.metadata), "type")


def part_refusal(dialect: str, part: Part, role: str) -> NotRepresentable:
    """The error for a part that a message of this role cannot have."""
    return refusal(dialect, f"{PART_LABELS[type(part)]} in a message of role {role}")


def media_refusal(dialect: str, media: Media) -> NotRepresentable:
    """The error for media of a type, or with a source, that the format lacks."""
    source = "by URL" if media.url and not media.base64 else "inline"
    return refusal(dialect, f"media of type {media.media_type or 'unknown'} {source}")


def text_or_blocks(
    parts: Sequence[Part], encode_block: Callable[[Part], Document]
) -> str | list[Document]:
    """The content of a message: a string if it is one text or nothing, else blocks."""
    match parts:
        case ():
            return ""
        case (Text(text=text),):
            return text
        case _:
            return [*map(encode_block, parts)]


def data_url(media: Media) -> str:
    """The URL of the media: a data URL if it is inline."""
    return f"data:{media.media_type};base64,{media.base64}" if media.base64 else media.url


def audio_format(media: Media) -> str:
    """The format of audio, as OpenAI names it."""
    subtype = media.media_type.removeprefix("audio/")
    return {"mpeg": "mp3", "x-wav": "wav"}.get(subtype, subtype)


def system_prompt_field(conversation: Conversation) -> str:
    """The system prompt; empty if it is the first system message of the list, too."""
    system_texts = (message.text for message in conversation.messages if message.role == "system")
    return "" if conversation.system == next(system_texts, "") else conversation.system


def split_system_messages(
    dialect: str, conversation: Conversation
) -> tuple[str, tuple[RequestMessage, ...]]:
    """The texts of the system prompt and of the system messages at the start; the other messages.

    For formats with one system prompt, which cannot have a system message after others.
    """
    system_messages = [*takewhile(_is_system, conversation.messages)]
    messages = conversation.messages[len(system_messages) :]
    if any(map(_is_system, messages)):
        raise refusal(dialect, "a system message after other messages")
    texts = [system_prompt_field(conversation), *(message.text for message in system_messages)]
    return "\n".join(filter(None, texts)), messages


def _is_system(message: RequestMessage) -> bool:
    return message.role == "system"


def is_blank_part(part: Part) -> bool:
    """Whether Anthropic and Bedrock refuse the part as blank: it is empty, or only whitespace."""
    match part:
        case Text(text=text) | Refusal(text=text):
            return not text.strip()
        case _:
            return is_empty_part(part)


def is_signed_reasoning(reasoning: Reasoning) -> bool:
    """Whether Anthropic or Bedrock takes the reasoning back: it is signed or encrypted.

    Reasoning of other providers has metadata; what they sign or encrypt is refused.
    """
    is_redacted = bool(reasoning.redacted) and not reasoning.text
    return not reasoning.metadata and (bool(reasoning.signature) or is_redacted)


def with_content(
    dialect: str, messages: Sequence[RequestMessage], encoded: Iterable[Document]
) -> list[Document]:
    """The encoded messages.  Raises `NotRepresentable` if all of them have been left out."""
    kept = [*encoded]
    if messages and not kept:
        raise refusal(dialect, "a conversation without content")
    return kept


def encode_options(dialect: str, conversation: Conversation, names: OptionNames) -> Document:
    """The generation options that are set, by the format's own names.

    The temperature and top-p have the same name everywhere; `names` has those of the others.
    """
    options: Document = {}
    for option, decode in OPTION_DECODERS.items():
        value = getattr(conversation, option)
        if value in (None, ()):
            continue
        field_names = names.get(option) or _COMMON_OPTIONS.get(option)
        if field_names is None:
            raise refusal(dialect, option)
        wire_value = list(value) if isinstance(value, tuple) else value
        if decode(wire_value) != value:
            raise NotRepresentable(f"{dialect}: the value of {option} has no exact JSON")
        options[field_names[0]] = wire_value
    return options


def refuse_stored_state(dialect: str, conversation: Conversation) -> None:
    """Refuse what continues a response or a conversation that the provider stores."""
    for field in ("previous_response_id", "stored_conversation_id"):
        if getattr(conversation, field):
            raise refusal(dialect, field)


def encode_function(
    dialect: str, tool: ToolDefinition, schema_field: str = "parameters"
) -> Document:
    """The name of a tool, and its description and schema if it has them."""
    if not tool.name:
        raise refusal(dialect, "a tool without a name")
    function: Document = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters_schema is not None:
        label = f"the schema of the tool {tool.name}"
        function[schema_field] = checked_schema(dialect, label, tool.parameters_schema)
    return function


def checked_tool_choice(dialect: str, conversation: Conversation) -> ToolChoice | None:
    """The tool choice: one of the words, or a tool with a name."""
    match conversation.tool_choice:
        case ForcedTool(name=""):
            raise refusal(dialect, "the choice of a tool without a name")
        case None | "auto" | "none" | "required" | ForcedTool() as choice:
            return choice
        case unknown:
            raise refusal(dialect, f"the tool choice {unknown}")


def checked_schema(dialect: str, label: str, schema: Json) -> dict[str, Json]:
    """A JSON Schema that is an object and that JSON can hold."""
    if not isinstance(schema, dict):
        raise NotRepresentable(f"{dialect}: {label} must be a JSON Schema object")
    _check_json(dialect, label, schema)
    return schema


def _check_json(dialect: str, label: str, value: Json) -> None:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError):
        raise NotRepresentable(f"{dialect}: {label} has a value that JSON cannot hold") from None


def post_request(
    dialect: str, path: str, body: Document, conversation: Conversation, headers: Headers = ()
) -> Request:
    """The POST request of this body and of the conversation's `extra_fields`.

    An object that both have is merged, unless the extra one has a type of its own.
    """
    for name, value in conversation.extra_fields:
        _check_json(dialect, f"the extra field {name}", value)
        match body.get(name), value:
            case dict() as given, dict() as added if added.keys().isdisjoint(("type",)):
                body[name] = {**given, **added}
            case _:
                body[name] = value
    try:
        return response_encoding.json_post_request(path, body, headers)
    except (ValueError, TypeError, RecursionError):
        raise NotRepresentable(
            f"{dialect}: the request has a value that JSON cannot hold"
        ) from None
