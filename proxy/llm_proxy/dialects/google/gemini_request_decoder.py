"""What a request to Gemini asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, Message, Tool
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.google import content_decoder
from llm_proxy.dialects.google.field_names import camel, schema
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json, Part, Reasoning, Text, ToolCall, ToolResult

_JSON: Final = "application/json"
_OUTPUTS: Final = ("output", "result")
"""The fields in which a tool's answer is told."""
_DECLARED: Final = "functionDeclarations"


def read(asked: Fields) -> Conversation:
    """The conversation that a body holds; that of Code Assist wraps it."""
    body = camel(asked.get("request") or dict(asked))
    messages = request_decoding.in_order(_messages(body))
    config = camel(body.get("generationConfig"))
    return Conversation(
        messages,
        system=_system(body.get("systemInstruction")) or request_decoding.system(messages),
        tools=tuple(_tools(body)),
        temperature=request_decoding.number(config.get("temperature")),
        top_p=request_decoding.number(config.get("topP")),
        reasons=_reasons(config.get("thinkingConfig")),
        schema=_structure(config),
    )


def _reasons(value: Json) -> bool:
    """A budget of nought is off; what else stands there, or nothing, is on."""
    return isinstance(value, dict) and camel(value).get("thinkingBudget") != 0


def _structure(config: Fields) -> Json:
    """The schema of the answer, in either spelling; `{}` where it may be any JSON."""
    told = request_decoding.schema(
        config.get("responseJsonSchema"), schema(config.get("responseSchema"))
    )
    return told or ({} if config.get("responseMimeType") == _JSON else None)


def _system(said: Json) -> str:
    """The system prompt: a content, or its text alone."""
    parts = [Text(said)] if isinstance(said, str) else _parts(lenient_json.fields(said))
    return request_decoding.message("system", parts).text


def _messages(body: Fields) -> Iterator[Message]:
    contents = body.get("contents")
    for said in lenient_json.objects([contents] if isinstance(contents, dict) else contents):
        role = request_decoding.role(said.get("role") or "user")
        if role is not None:
            yield request_decoding.message(role, _parts(said))


def _parts(said: Fields) -> Iterator[Part]:
    told = said.get("parts")
    for it in lenient_json.objects([told] if isinstance(told, dict) else told):
        part = camel(it)
        kind = next((name for name in content_decoder.KNOWN if name in part), "")
        yield from _part(kind, part, camel(part.get(kind)))


def _part(kind: str, part: Fields, inner: Fields) -> Iterator[Part]:
    match kind:
        case "text" if part.get("thought") is True:
            seal = lenient_json.text(part.get("thoughtSignature"))
            yield Reasoning(lenient_json.text(part.get("text")), seal or None)
        case "text":
            yield Text(lenient_json.text(part.get("text")))
        case "functionCall":
            call_id, name = (
                request_decoding.said(inner.get("id")),
                request_decoding.said(inner.get("name")),
            )
            yield ToolCall(call_id, name, lenient_json.compact(inner.get("args") or {}))
        case "functionResponse":
            yield _result(inner)
        case "inlineData" | "fileData":
            yield content_decoder.media(inner)
        case "":
            pass
        case _:
            yield content_decoder.of_server(kind, inner)


def _result(said: Fields) -> ToolResult:
    """What a tool of the client's gave: one field of the response, an error, or all of it."""
    response = said.get("response")
    given = lenient_json.fields(response)
    told = next((given[name] for name in _OUTPUTS if given.keys() == {name}), None)
    failed = told is None and bool(given.get("error")) and "output" not in given
    return ToolResult(
        request_decoding.said(said.get("id")),
        lenient_json.words(response if told is None else told),
        request_decoding.said(said.get("name")),
        failed,
    )


def _tools(body: Fields) -> Iterator[Tool]:
    """Every function that is declared, and the tools that Google runs, by their fields."""
    for offered in map(camel, lenient_json.objects(body.get("tools"))):
        for it in map(camel, lenient_json.objects(offered.get(_DECLARED))):
            schemas = (it.get("parametersJsonSchema"), schema(it.get("parameters")))
            yield from request_decoding.tool(it, *schemas)
        yield from (Tool(name) for name, it in offered.items() if isinstance(it, dict))
