"""Converts a decoded turn into a scenario response, in the simplest kind that fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from itertools import pairwise

import orjson

from llm_proxy.dialects import Dialect, lenient_json
from llm_proxy.dialects.turn_parts import is_provider_tool_call
from llm_proxy.scenario.engine.turns import parse_finish_reason
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


def response_fields(turn: Turn, dialect: Dialect) -> tuple[Fields, tuple[str, ...]]:
    """The `response` of a scenario turn, and a text for each part that it omits."""
    losses: list[str] = []
    parts = tuple(_representable_parts(turn.parts, losses))
    response = _simple_response(parts, dialect, losses) or {
        "kind": "parts",
        "parts": [_part_fields(part, dialect, losses) for part in parts],
    }
    default_finish, _ = parse_finish_reason("", parts)
    if turn.finish is not None and turn.finish is not default_finish:
        candidates = filter(None, (turn.finish_raw, turn.finish.value))
        response["finish_reason"] = next(
            (text for text in candidates if parse_finish_reason(text, ())[0] is turn.finish),
            turn.finish_raw or turn.finish.value,
        )
    if token_counts := _token_counts(turn.usage):
        response["usage"] = token_counts
    return response, tuple(dict.fromkeys(losses))


def _representable_parts(parts: Sequence[Part], losses: list[str]) -> Iterator[Part]:
    answered_ids = {part.call_id for part in parts if isinstance(part, ToolResult)}
    for part in parts:
        match part:
            case Media():
                losses.append(f"{part.media_type or 'media'}")
            case ToolResult():
                losses.append("what the provider's own tools gave")
            case ToolCall() if part.id in answered_ids or is_provider_tool_call(part):
                losses.append(f"the provider's own tool {part.name}")
            case Text(text="") | Refusal(text=""):
                pass
            case _:
                yield part


def _simple_response(parts: Sequence[Part], dialect: Dialect, losses: list[str]) -> Fields:
    """A response of kind text or tool-call; empty if the parts need kind parts."""
    reasoning = [part for part in parts if isinstance(part, Reasoning)]
    others = [part for part in parts if not isinstance(part, Reasoning)]
    if list(parts) != [*reasoning, *others]:
        return {}
    response: Fields = {"kind": "text"}
    if reasoning:
        response["reasoning"] = [_reasoning_fields(part, dialect) for part in reasoning]
    match others:
        case []:
            return response | {"assistant_text": ""}
        case [Text(text=text)]:
            return response | {"assistant_text": text}
        case [*_, ToolCall()] if all(isinstance(part, Text | ToolCall) for part in others):
            response["kind"] = "tool-call"
        case _:
            return {}
    if any(isinstance(one, Text) and isinstance(other, Text) for one, other in pairwise(others)):
        return {}  # at most one text may precede each call
    if isinstance(leading := others[0], Text) and leading.text:
        response["assistant_text"] = leading.text
        del others[0]
    calls: list[Json] = []
    text_before: Fields = {}
    for part in others:
        if isinstance(part, Text):
            text_before = {"assistant_text": part.text}
        elif isinstance(part, ToolCall):
            calls.append(text_before | _call_fields(part, len(calls) + 1, losses))
            text_before = {}
    return response | {"tool_calls": calls}


def _call_fields(call: ToolCall, number: int, losses: list[str]) -> Fields:
    """A call; its id only if it is not the default `call-N`."""
    call_fields: Fields = {"tool_name": call.name}
    if call.id and call.id != f"call-{number}":
        call_fields["call_id"] = call.id
    return call_fields | {"arguments": _arguments(call, losses)}


def _arguments(call: ToolCall, losses: list[str]) -> Fields:
    with suppress(ValueError, orjson.JSONEncodeError):  # they are named as a loss below
        value = lenient_json.parse_json(call.arguments.encode("utf-8", "replace") or b"{}")
        # A scenario holds neither NaN nor integers beyond 64 bits.
        if isinstance(value, dict) and orjson.loads(orjson.dumps(value)) == value:
            return value
    if dict(call.metadata).get("type") in ("custom", "custom_tool_call"):
        losses.append(f"that {call.name} takes plain text: it stands as the input of an object")
        return {"input": call.arguments}
    losses.append(f"the arguments of {call.name}, which are no JSON object that a scenario holds")
    return {}


def _part_fields(part: Part, dialect: Dialect, losses: list[str]) -> Fields:
    """A part of a response of kind parts."""
    match part:
        case Reasoning():
            return {"part": "reasoning", **_reasoning_fields(part, dialect)}
        case Refusal(text=text):
            return {"part": "refusal", "text": text}
        case ToolCall():
            return {"part": "tool-call", **_call_fields(part, 0, losses)}
        case Text(text=text):
            return {"part": "text", "text": text}
        case _:
            raise AssertionError(f"{type(part).__name__} was left out before")


def _reasoning_fields(part: Reasoning, dialect: Dialect) -> Fields:
    names = dialect.metadata_names
    metadata_values = {names.signature_name: part.signature, names.redacted_name: part.redacted}
    metadata: Fields = {name: value for name, value in metadata_values.items() if value}
    reasoning: Fields = {"text": part.text} if part.text or not metadata else {}
    return reasoning | ({"provider_metadata": {names.written_key: metadata}} if metadata else {})


def _token_counts(usage: Usage | None) -> Fields:
    """The recorded token counts; a total only if it is not the sum."""
    if usage is None:
        return {}
    token_counts: Fields = {}
    for field in fields(usage):
        count = getattr(usage, field.name)
        is_sum = field.name == "total" and count == (usage.input or 0) + (usage.output or 0)
        if count is not None and count >= 0 and not is_sum:
            token_counts[field.name] = count
    return token_counts
