"""What Cohere's chats ask, in version 2 and version 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, Message, Tool
from llm_proxy.dialects import conversing, data_urls, reading
from llm_proxy.dialects.cohere import message
from llm_proxy.dialects.reading import Fields
from llm_proxy.turns import Json, Part, Text, ToolCall, ToolResult

_TYPES: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}
"""JSON Schema's names for the types of parameters, which version 1 calls as Python does."""


def read(body: Fields) -> Conversation:
    """The conversation that a chat of version 2 holds."""
    messages = conversing.in_order(_messages(body))
    asked = reading.fields(body.get("response_format"))
    return Conversation(
        messages,
        system=conversing.system(messages),
        tools=tuple(conversing.functions(body.get("tools"))),
        temperature=conversing.number(body.get("temperature")),
        top_p=conversing.number(body.get("p")),
        reasons=conversing.is_on(reading.fields(body.get("thinking")).get("type")),
        schema=conversing.structure(asked, asked.get("json_schema"), asked.get("schema")),
    )


def _messages(body: Fields) -> Iterator[Message]:
    for said in reading.objects(body.get("messages")):
        match conversing.role(said.get("role")):
            case None:
                pass
            case "tool":
                given = _given(said.get("content"))
                call_id = conversing.said(said.get("tool_call_id"))
                yield conversing.message("tool", [ToolResult(call_id, given)])
            case role:
                yield conversing.message(role, _parts(said))


def _parts(said: Fields) -> Iterator[Part]:
    """What a message says, which for a model is what its answers say."""
    told = [part for _, part in message.fragments(said, 0)]
    yield from (it for it in told if not isinstance(it, ToolCall))
    for block in reading.objects(said.get("content")):
        if image := reading.fields(block.get("image_url")):
            yield data_urls.media(reading.words(image.get("url")), "image/*")
    yield from (it for it in told if isinstance(it, ToolCall))


def _given(content: Json) -> str:
    """What a tool gave: in words, or as documents, which hold words or fields."""
    documents = [reading.fields(it.get("document")) for it in reading.objects(content)]
    given = [reading.words(it.get("data")) for it in documents if it.get("data")]
    return "\n".join(given) or conversing.in_words(content)


def read_version_1(body: Fields) -> Conversation:
    """The conversation that a chat of version 1 holds: a history, and what is said now."""
    history = reading.objects(body.get("chat_history"))
    now: Fields = {**body, "role": "user"}
    messages = conversing.in_order(it for said in (*history, now) for it in _said(said))
    asked = reading.fields(body.get("response_format"))
    return Conversation(
        messages,
        system=conversing.said(body.get("preamble")) or conversing.system(messages),
        tools=tuple(it for about in reading.objects(body.get("tools")) for it in _tool(about)),
        temperature=conversing.number(body.get("temperature")),
        top_p=conversing.number(body.get("p")),
        schema=conversing.structure(asked, asked.get("schema"), asked.get("json_schema")),
        stored=conversing.said(body.get("conversation_id")),
    )


def _said(said: Fields) -> Iterator[Message]:
    """What one speaker says, and before it what the tools gave that stands beside."""
    if given := reading.objects(said.get("tool_results")):
        yield conversing.message("tool", map(_result, given))
    role = conversing.role(said.get("role"))
    text = reading.text(said.get("message"))
    calls = reading.objects(said.get("tool_calls"))
    if role == "assistant" or (role is not None and text):
        yield conversing.message(role, [Text(text), *map(_call, calls)])


def _call(said: Fields) -> ToolCall:
    return ToolCall("", conversing.said(said.get("name")), reading.words(said.get("parameters")))


def _result(said: Fields) -> ToolResult:
    call = reading.fields(said.get("call"))
    name = conversing.said(call.get("name"))
    return ToolResult("", conversing.in_words(said.get("outputs")), name)


def _tool(about: Fields) -> Iterator[Tool]:
    defined = reading.fields(about.get("parameter_definitions"))
    properties: dict[str, Json] = {
        name: {
            "type": _TYPES.get(reading.text(it.get("type")), "string"),
            "description": conversing.said(it.get("description")),
        }
        for name, it in ((name, reading.fields(it)) for name, it in defined.items())
    }
    required: list[Json] = [
        name for name, it in defined.items() if reading.fields(it).get("required") is True
    ]
    wanted: Json = {"type": "object", "properties": properties, "required": required}
    return conversing.tool(about, wanted if defined else None)
