"""What Ollama's chats and completions ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llm_proxy.conversation import Conversation, Message
from llm_proxy.dialects import conversing, reading
from llm_proxy.dialects.reading import Fields
from llm_proxy.turns import Json, Media, Part, Reasoning, Text, ToolCall, ToolResult


def chat(body: Fields) -> Conversation:
    """The conversation that a chat holds."""
    messages = conversing.in_order(_messages(body))
    return _conversation(body, messages, conversing.system(messages))


def generate(body: Fields) -> Conversation:
    """The conversation of a prompt, which the user says."""
    parts = [*conversing.texts(body.get("prompt")), *_images(body)]
    said = conversing.message("user", parts)
    return _conversation(body, (said,), conversing.said(body.get("system")))


def _conversation(body: Fields, messages: tuple[Message, ...], system: str) -> Conversation:
    options, form = reading.fields(body.get("options")), body.get("format")
    return Conversation(
        messages,
        system=system,
        tools=tuple(conversing.functions(body.get("tools"))),
        temperature=conversing.number(options.get("temperature")),
        top_p=conversing.number(options.get("top_p")),
        reasons=conversing.is_on(body.get("think")),
        schema={} if form == "json" else conversing.schema(form),
    )


def _messages(body: Fields) -> Iterator[Message]:
    for said in reading.objects(body.get("messages")):
        match conversing.role(said.get("role")):
            case None:
                pass
            case "tool":
                yield conversing.message("tool", [_result(said)])
            case role:
                yield conversing.message(role, _parts(said))


def _parts(said: Fields) -> Iterator[Part]:
    yield Reasoning(reading.text(said.get("thinking")))
    yield Text(reading.text(said.get("content")))
    yield from _images(said)
    for call in reading.objects(said.get("tool_calls")):
        function = reading.fields(call.get("function"))
        yield ToolCall(
            conversing.said(call.get("id")),
            conversing.said(function.get("name")),
            reading.words(function.get("arguments")),
        )


def _images(said: Fields) -> Iterable[Part]:
    drawn: list[Json] = reading.array(said.get("images"))
    return (Media("image/*", base64=reading.text(it)) for it in drawn)


def _result(said: Fields) -> ToolResult:
    """What a tool gave; old servers know no ids, and older ones no names."""
    return ToolResult(
        conversing.said(said.get("tool_call_id")),
        conversing.in_words(said.get("content")),
        conversing.said(said.get("tool_name")) or conversing.said(said.get("name")),
    )
