"""What a request to Gemini asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, Message, Tool
from llm_proxy.dialects import conversing, reading
from llm_proxy.dialects.google import content
from llm_proxy.dialects.google.spelling import camel, schema
from llm_proxy.dialects.reading import Fields
from llm_proxy.turns import Json, Part, Reasoning, Text, ToolCall, ToolResult

_JSON: Final = "application/json"
_OUTPUTS: Final = ("output", "result")
"""The fields in which a tool's answer is told."""
_DECLARED: Final = "functionDeclarations"


def read(asked: Fields) -> Conversation:
    """The conversation that a body holds; that of Code Assist wraps it."""
    body = camel(asked.get("request") or dict(asked))
    messages = conversing.in_order(_messages(body))
    config = camel(body.get("generationConfig"))
    return Conversation(
        messages,
        system=_system(body.get("systemInstruction")) or conversing.system(messages),
        tools=tuple(_tools(body)),
        temperature=conversing.number(config.get("temperature")),
        top_p=conversing.number(config.get("topP")),
        reasons=_reasons(config.get("thinkingConfig")),
        schema=_structure(config),
    )


def _reasons(value: Json) -> bool:
    """A budget of nought is off; what else stands there, or nothing, is on."""
    return isinstance(value, dict) and camel(value).get("thinkingBudget") != 0


def _structure(config: Fields) -> Json:
    """The schema of the answer, in either spelling; `{}` where it may be any JSON."""
    told = conversing.schema(config.get("responseJsonSchema"), schema(config.get("responseSchema")))
    return told or ({} if config.get("responseMimeType") == _JSON else None)


def _system(said: Json) -> str:
    """The system prompt: a content, or its text alone."""
    parts = [Text(said)] if isinstance(said, str) else _parts(reading.fields(said))
    return conversing.message("system", parts).text


def _messages(body: Fields) -> Iterator[Message]:
    contents = body.get("contents")
    for said in reading.objects([contents] if isinstance(contents, dict) else contents):
        role = conversing.role(said.get("role") or "user")
        if role is not None:
            yield conversing.message(role, _parts(said))


def _parts(said: Fields) -> Iterator[Part]:
    told = said.get("parts")
    for it in reading.objects([told] if isinstance(told, dict) else told):
        part = camel(it)
        kind = next((name for name in content.KNOWN if name in part), "")
        yield from _part(kind, part, camel(part.get(kind)))


def _part(kind: str, part: Fields, inner: Fields) -> Iterator[Part]:
    match kind:
        case "text" if part.get("thought") is True:
            seal = reading.text(part.get("thoughtSignature"))
            yield Reasoning(reading.text(part.get("text")), seal or None)
        case "text":
            yield Text(reading.text(part.get("text")))
        case "functionCall":
            call_id, name = conversing.said(inner.get("id")), conversing.said(inner.get("name"))
            yield ToolCall(call_id, name, reading.compact(inner.get("args") or {}))
        case "functionResponse":
            yield _result(inner)
        case "inlineData" | "fileData":
            yield content.media(inner)
        case "":
            pass
        case _:
            yield content.of_server(kind, inner)


def _result(said: Fields) -> ToolResult:
    """What a tool of the client's gave: one field of the response, an error, or all of it."""
    response = said.get("response")
    given = reading.fields(response)
    told = next((given[name] for name in _OUTPUTS if given.keys() == {name}), None)
    failed = told is None and bool(given.get("error")) and "output" not in given
    return ToolResult(
        conversing.said(said.get("id")),
        reading.words(response if told is None else told),
        conversing.said(said.get("name")),
        failed,
    )


def _tools(body: Fields) -> Iterator[Tool]:
    """Every function that is declared, and the tools that Google runs, by their fields."""
    for offered in map(camel, reading.objects(body.get("tools"))):
        for it in map(camel, reading.objects(offered.get(_DECLARED))):
            schemas = (it.get("parametersJsonSchema"), schema(it.get("parameters")))
            yield from conversing.tool(it, *schemas)
        yield from (Tool(name) for name, it in offered.items() if isinstance(it, dict))
