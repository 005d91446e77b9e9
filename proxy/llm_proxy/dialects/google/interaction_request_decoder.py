"""What a request for an interaction with Gemini asks: its input is contents, steps or turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, Message
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.google.field_names import schema
from llm_proxy.dialects.google.step_decoder import MEDIA, Step
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json, Part, ToolResult

_CONTENTS: Final = ("text", *MEDIA)
_INPUT: Final = "user_input"
_OUTPUT: Final = "model_output"
_RESULT: Final = "function_result"
_MADE: Final = (_OUTPUT, "thought")
"""Types of steps that the model makes; so are calls, and what Google's own tools give."""
_JSON: Final = "application/json"


def read(body: Fields) -> Conversation:
    """The conversation that a body holds."""
    items = _items(body.get("input"))
    messages = request_decoding.in_order(_messages(items), runs=("assistant", "tool"))
    config = lenient_json.fields(body.get("generation_config"))
    tools = lenient_json.objects(body.get("tools"))
    return Conversation(
        messages,
        system=request_decoding.said(body.get("system_instruction"))
        or request_decoding.system(messages),
        tools=tuple(
            it
            for about in tools
            for it in request_decoding.tool(about, schema(about.get("parameters")))
        ),
        temperature=request_decoding.number(config.get("temperature")),
        top_p=request_decoding.number(config.get("top_p")),
        reasons=request_decoding.is_on(config.get("thinking_level")),
        schema=_structure(body),
        previous=request_decoding.said(body.get("previous_interaction_id")),
        is_kept=body.get("store") is not False,
    )


def _items(value: Json) -> list[Fields]:
    """The turns or steps; contents alone are what the user says at once."""
    item: Json = {"type": "text", "text": value} if isinstance(value, str) else value
    listed = lenient_json.objects(item if isinstance(item, list) else [item])
    if listed and all(it.get("type") in _CONTENTS for it in listed):
        return [{"type": _INPUT, "content": [dict(it) for it in listed]}]
    return listed


def _messages(items: list[Fields]) -> Iterator[Message]:
    for item in items:
        kind = lenient_json.text(item.get("type"))
        if "role" in item:
            if role := request_decoding.role(item.get("role")):
                yield request_decoding.message(role, _contents(item.get("content")))
        elif kind == _INPUT:
            yield request_decoding.message("user", _contents(item.get("content")))
        elif kind in _CONTENTS:
            yield request_decoding.message("user", _parts(item))
        elif kind == _RESULT:
            yield request_decoding.message("tool", _parts(item))
        elif kind in _MADE or kind.endswith(("_call", "_result")):
            parts = _contents(item.get("content")) if kind == _OUTPUT else _parts(item)
            yield request_decoding.message("assistant", parts)


def _contents(value: Json) -> Iterator[Part]:
    """Contents, each by itself: one, several, or a text alone."""
    for it in value if isinstance(value, list) else [value]:
        yield from _parts(
            {"type": "text", "text": it} if isinstance(it, str) else lenient_json.fields(it)
        )


def _parts(said: Fields) -> Iterator[Part]:
    if said.get("type") == _RESULT:
        yield ToolResult(
            request_decoding.said(said.get("call_id")),
            request_decoding.in_words(said.get("result")),
            request_decoding.said(said.get("name")),
            failed=said.get("is_error") is True,
        )
        return
    step = Step()
    step.take(said)
    yield from step.parts()


def _structure(body: Fields) -> Json:
    """The schema of the answer: of a format in words, or as it was before formats had types."""
    asked = body.get("response_format")
    for form in lenient_json.objects(asked if isinstance(asked, list) else [asked]):
        if form.get("type") == "text":
            is_json = form.get("mime_type") == _JSON
            return request_decoding.schema(schema(form.get("schema"))) or ({} if is_json else None)
        if form.get("type") not in MEDIA:
            return schema(dict(form))
    return {} if body.get("response_mime_type") == _JSON else None
