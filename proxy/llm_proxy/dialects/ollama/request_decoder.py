"""What Ollama's chats and completions ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llm_proxy.conversation import Conversation, Message
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json, Media, Part, Reasoning, Text, ToolCall, ToolResult


def chat(body: Fields) -> Conversation:
    """The conversation that a chat holds."""
    messages = request_decoding.in_order(_messages(body))
    return _conversation(body, messages, request_decoding.system(messages))


def generate(body: Fields) -> Conversation:
    """The conversation of a prompt, which the user says."""
    parts = [*request_decoding.texts(body.get("prompt")), *_images(body)]
    said = request_decoding.message("user", parts)
    return _conversation(body, (said,), request_decoding.said(body.get("system")))


def _conversation(body: Fields, messages: tuple[Message, ...], system: str) -> Conversation:
    options, form = lenient_json.fields(body.get("options")), body.get("format")
    return Conversation(
        messages,
        system=system,
        tools=tuple(request_decoding.functions(body.get("tools"))),
        temperature=request_decoding.number(options.get("temperature")),
        top_p=request_decoding.number(options.get("top_p")),
        reasons=request_decoding.is_on(body.get("think")),
        schema={} if form == "json" else request_decoding.schema(form),
    )


def _messages(body: Fields) -> Iterator[Message]:
    for said in lenient_json.objects(body.get("messages")):
        match request_decoding.role(said.get("role")):
            case None:
                pass
            case "tool":
                yield request_decoding.message("tool", [_result(said)])
            case role:
                yield request_decoding.message(role, _parts(said))


def _parts(said: Fields) -> Iterator[Part]:
    yield Reasoning(lenient_json.text(said.get("thinking")))
    yield Text(lenient_json.text(said.get("content")))
    yield from _images(said)
    for call in lenient_json.objects(said.get("tool_calls")):
        function = lenient_json.fields(call.get("function"))
        yield ToolCall(
            request_decoding.said(call.get("id")),
            request_decoding.said(function.get("name")),
            lenient_json.words(function.get("arguments")),
        )


def _images(said: Fields) -> Iterable[Part]:
    drawn: list[Json] = lenient_json.array(said.get("images"))
    return (Media("image/*", base64=lenient_json.text(it)) for it in drawn)


def _result(said: Fields) -> ToolResult:
    """What a tool gave; old servers know no ids, and older ones no names."""
    return ToolResult(
        request_decoding.said(said.get("tool_call_id")),
        request_decoding.in_words(said.get("content")),
        request_decoding.said(said.get("tool_name")) or request_decoding.said(said.get("name")),
    )
