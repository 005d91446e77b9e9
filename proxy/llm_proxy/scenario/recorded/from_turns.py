"""Converts a decoded turn into a scenario response, in the plainest form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Final

import orjson

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.provider_calls import is_provider_tool_call
from llm_proxy.scenario.engine.turns import finish_and_raw
from llm_proxy.turns import (
    Json,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

Fields = dict[str, Json]

_SEALS: Final[Mapping[str, tuple[str, str, str]]] = {
    "anthropic": ("anthropic", "signature", "redactedData"),
    "bedrock": ("anthropic", "signature", "redactedData"),
    "gemini": ("google", "thoughtSignature", "redactedData"),
    "gemini-interactions": ("google", "thoughtSignature", "redactedData"),
    "openai-responses": ("openai", "signature", "encrypted_content"),
}
"""The provider's name, and its words for the seal of reasoning and for sealed reasoning."""
_OF_ANY: Final = ("openai", "signature", "redactedData")


def response_of_turn(turn: Turn, dialect: str) -> tuple[Fields, tuple[str, ...]]:
    """The `response` of a step that says what this turn does, and what it leaves out."""
    losses: list[str] = []
    parts = tuple(_representable_parts(turn.parts, losses))
    document = _simple_response(parts, dialect, losses) or {
        "kind": "parts",
        "parts": [_part_entry(part, dialect, losses) for part in parts],
    }
    return {**document, **_finish_fields(turn, parts), **_usage_fields(turn.usage)}, tuple(
        dict.fromkeys(losses)
    )


def _representable_parts(parts: Sequence[Part], losses: list[str]) -> Iterator[Part]:
    answered = {part.call_id for part in parts if isinstance(part, ToolResult)}
    for part in parts:
        match part:
            case Media():
                losses.append(f"{part.media_type or 'media'}")
            case ToolResult():
                losses.append("what the provider's own tools gave")
            case ToolCall() if part.id in answered or is_provider_tool_call(part):
                losses.append(f"the provider's own tool {part.name}")
            case Text(text="") | Refusal(text=""):
                pass
            case _:
                yield part


def _simple_response(parts: Sequence[Part], dialect: str, losses: list[str]) -> Fields:
    """An answer of text, or of calls with texts before them; empty where it is neither."""
    thoughts = [part for part in parts if isinstance(part, Reasoning)]
    items = [part for part in parts if not isinstance(part, Reasoning)]
    if list(parts) != [*thoughts, *items]:
        return {}
    reasoned: Fields = {}
    if thoughts:
        reasoned["reasoning"] = [_reasoning_entry(thought, dialect) for thought in thoughts]
    match items:
        case []:
            return {"kind": "text", **reasoned, "assistant_text": ""}
        case [Text(text=text)]:
            return {"kind": "text", **reasoned, "assistant_text": text}
        case [*_, ToolCall()] if _is_text_call_sequence(items):
            return {"kind": "tool-call", **reasoned, **_tool_calls(items, losses)}
        case _:
            return {}


def _is_text_call_sequence(items: Sequence[Part]) -> bool:
    """Whether these are calls with at most one text before each, of which the first is plain."""
    known = all(isinstance(part, Text | ToolCall) for part in items)
    return known and not any(
        isinstance(one, Text) and isinstance(next_one, Text) for one, next_one in pairwise(items)
    )


def _tool_calls(items: Sequence[Part], losses: list[str]) -> Fields:
    """Calls, each with the text before it; that of the first is the answer's own."""
    opening = items[0].text if isinstance(items[0], Text) else ""
    calls: list[Json] = []
    before = ""
    for part in items[1:] if opening else items:
        if isinstance(part, Text):
            before = part.text
        elif isinstance(part, ToolCall):
            spoken: Fields = {"assistant_text": before} if before else {}
            calls.append(spoken | _tool_call(part, len(calls) + 1, losses))
            before = ""
    return {**({"assistant_text": opening} if opening else {}), "tool_calls": calls}


def _tool_call(call: ToolCall, number: int, losses: list[str]) -> Fields:
    """A call; its id where it is not the one that it would have by itself."""
    named: Fields = {"tool_name": call.name}
    if call.id and call.id != f"call-{number}":
        named["call_id"] = call.id
    return named | _arguments_value(call, losses)


def _arguments_value(call: ToolCall, losses: list[str]) -> Fields:
    try:
        value = lenient_json.parse_json(call.arguments.encode("utf-8", "replace") or b"{}")
    except ValueError:
        value = None
    if isinstance(value, dict) and _is_lossless_json(value):
        return {"arguments": value}
    if dict(call.metadata).get("type") in ("custom", "custom_tool_call"):
        losses.append(f"that {call.name} takes plain text: it stands as the input of an object")
        return {"arguments": {"input": call.arguments}}
    losses.append(f"the arguments of {call.name}, which are no JSON object that a scenario holds")
    return {"arguments": {}}


def _is_lossless_json(value: Json) -> bool:
    """Whether it is read as it was written: NaN is not, nor are numbers beyond 64 bits."""
    try:
        return bool(orjson.loads(orjson.dumps(value)) == value)
    except orjson.JSONEncodeError:
        return False


def _part_entry(part: Part, dialect: str, losses: list[str]) -> Fields:
    """An entry of `parts`."""
    match part:
        case Reasoning():
            return {"part": "reasoning", **_reasoning_entry(part, dialect)}
        case Refusal(text=text):
            return {"part": "refusal", "text": text}
        case ToolCall():
            return {"part": "tool-call", **_tool_call(part, 0, losses)}
        case Text(text=text):
            return {"part": "text", "text": text}
        case _:
            raise AssertionError(f"{type(part).__name__} was left out before")


def _reasoning_entry(part: Reasoning, dialect: str) -> Fields:
    provider, seal, sealed = _SEALS.get(dialect, _OF_ANY)
    words = {seal: part.signature, sealed: part.redacted}
    own: Fields = {name: text for name, text in words.items() if text}
    document: Fields = {"text": part.text} if part.text or not own else {}
    return document | ({"provider_metadata": {provider: own}} if own else {})


def _finish_fields(turn: Turn, parts: Sequence[Part]) -> Fields:
    """Why it finished, where that is not what follows by itself."""
    by_itself, _ = finish_and_raw("", tuple(parts))
    if turn.finish is None or turn.finish is by_itself:
        return {}
    words = (turn.finish_raw, turn.finish.value)
    told = (word for word in words if word and finish_and_raw(word, ())[0] is turn.finish)
    return {"finish_reason": next(told, turn.finish_raw or turn.finish.value)}


def _usage_fields(usage: Usage | None) -> Fields:
    """The tokens that were counted; a total only where it is not the sum."""
    if usage is None:
        return {}
    counted: dict[str, Json] = {}
    for field in fields(usage):
        count = getattr(usage, field.name)
        is_sum = field.name == "total" and count == (usage.input or 0) + (usage.output or 0)
        if count is not None and count >= 0 and not is_sum:
            counted[field.name] = count
    return {"usage": counted} if counted else {}
