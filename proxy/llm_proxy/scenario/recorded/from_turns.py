"""What was said as the answer of a scenario, in the plainest form that says all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Final

import orjson

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.provider_calls import is_provided
from llm_proxy.scenario.engine.turns import finish_of
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


def response(turn: Turn, dialect: str) -> tuple[Fields, tuple[str, ...]]:
    """The `response` of a step that says what this turn does, and what it leaves out."""
    left: list[str] = []
    parts = tuple(_kept(turn.parts, left))
    said = _plainly(parts, dialect, left) or {
        "kind": "parts",
        "parts": [_part(part, dialect, left) for part in parts],
    }
    return {**said, **_finish(turn, parts), **_usage(turn.usage)}, tuple(dict.fromkeys(left))


def _kept(parts: Sequence[Part], left: list[str]) -> Iterator[Part]:
    """The parts that a scenario has words for."""
    answered = {part.call_id for part in parts if isinstance(part, ToolResult)}
    for part in parts:
        match part:
            case Media():
                left.append(f"{part.media_type or 'media'}")
            case ToolResult():
                left.append("what the provider's own tools gave")
            case ToolCall() if part.id in answered or is_provided(part):
                left.append(f"the provider's own tool {part.name}")
            case Text(text="") | Refusal(text=""):
                pass
            case _:
                yield part


def _plainly(parts: Sequence[Part], dialect: str, left: list[str]) -> Fields:
    """An answer of text, or of calls with texts before them; empty where it is neither."""
    thoughts = [part for part in parts if isinstance(part, Reasoning)]
    said = [part for part in parts if not isinstance(part, Reasoning)]
    if list(parts) != [*thoughts, *said]:
        return {}
    reasoned: Fields = {}
    if thoughts:
        reasoned["reasoning"] = [_thought(it, dialect) for it in thoughts]
    match said:
        case []:
            return {"kind": "text", **reasoned, "assistant_text": ""}
        case [Text(text=text)]:
            return {"kind": "text", **reasoned, "assistant_text": text}
        case [*_, ToolCall()] if _alternate(said):
            return {"kind": "tool-call", **reasoned, **_calls(said, left)}
        case _:
            return {}


def _alternate(said: Sequence[Part]) -> bool:
    """Whether these are calls with at most one text before each, of which the first is plain."""
    known = all(isinstance(it, Text | ToolCall) for it in said)
    return known and not any(
        isinstance(one, Text) and isinstance(next_one, Text) for one, next_one in pairwise(said)
    )


def _calls(said: Sequence[Part], left: list[str]) -> Fields:
    """Calls, each with the text before it; that of the first is the answer's own."""
    opening = said[0].text if isinstance(said[0], Text) else ""
    calls: list[Json] = []
    before = ""
    for part in said[1:] if opening else said:
        if isinstance(part, Text):
            before = part.text
        elif isinstance(part, ToolCall):
            spoken: Fields = {"assistant_text": before} if before else {}
            calls.append(spoken | _call(part, len(calls) + 1, left))
            before = ""
    return {**({"assistant_text": opening} if opening else {}), "tool_calls": calls}


def _call(call: ToolCall, number: int, left: list[str]) -> Fields:
    """A call; its id where it is not the one that it would have by itself."""
    named: Fields = {"tool_name": call.name}
    if call.id and call.id != f"call-{number}":
        named["call_id"] = call.id
    return named | _arguments(call, left)


def _arguments(call: ToolCall, left: list[str]) -> Fields:
    try:
        value = lenient_json.parse(call.arguments.encode("utf-8", "replace") or b"{}")
    except ValueError:
        value = None
    if isinstance(value, dict) and _is_exact(value):
        return {"arguments": value}
    if dict(call.metadata).get("type") in ("custom", "custom_tool_call"):
        left.append(f"that {call.name} takes plain text: it stands as the input of an object")
        return {"arguments": {"input": call.arguments}}
    left.append(f"the arguments of {call.name}, which are no JSON object that a scenario holds")
    return {"arguments": {}}


def _is_exact(value: Json) -> bool:
    """Whether it is read as it was written: NaN is not, nor are numbers beyond 64 bits."""
    try:
        return bool(orjson.loads(orjson.dumps(value)) == value)
    except orjson.JSONEncodeError:
        return False


def _part(part: Part, dialect: str, left: list[str]) -> Fields:
    """An entry of `parts`."""
    match part:
        case Reasoning():
            return {"part": "reasoning", **_thought(part, dialect)}
        case Refusal(text=text):
            return {"part": "refusal", "text": text}
        case ToolCall():
            return {"part": "tool-call", **_call(part, 0, left)}
        case Text(text=text):
            return {"part": "text", "text": text}
        case _:
            raise AssertionError(f"{type(part).__name__} was left out before")


def _thought(part: Reasoning, dialect: str) -> Fields:
    """Reasoning with its seal under the name of the provider that sealed it."""
    provider, seal, sealed = _SEALS.get(dialect, _OF_ANY)
    words = {seal: part.signature, sealed: part.redacted}
    own: Fields = {name: it for name, it in words.items() if it}
    said: Fields = {"text": part.text} if part.text or not own else {}
    return said | ({"provider_metadata": {provider: own}} if own else {})


def _finish(turn: Turn, parts: Sequence[Part]) -> Fields:
    """Why it finished, where that is not what follows by itself."""
    by_itself, _ = finish_of("", tuple(parts))
    if turn.finish is None or turn.finish is by_itself:
        return {}
    words = (turn.finish_raw, turn.finish.value)
    told = (it for it in words if it and finish_of(it, ())[0] is turn.finish)
    return {"finish_reason": next(told, turn.finish_raw or turn.finish.value)}


def _usage(usage: Usage | None) -> Fields:
    """The tokens that were counted; a total only where it is not the sum."""
    if usage is None:
        return {}
    counted: dict[str, Json] = {}
    for it in fields(usage):
        count = getattr(usage, it.name)
        is_sum = it.name == "total" and count == (usage.input or 0) + (usage.output or 0)
        if count is not None and count >= 0 and not is_sum:
            counted[it.name] = count
    return {"usage": counted} if counted else {}
