"""What one kind of answer of a dialect has words for: data, which `fitting` holds a turn against.

A *lens* gives a part as the wire would tell it, or None where the wire has no word for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import TypeVar

from llm_proxy.dialects import lenient_json
from llm_proxy.turns import (
    Failure,
    Finish,
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

P = TypeVar("P", Text, Reasoning, Refusal, ToolCall, ToolResult, Media)


def nothing(_part: Part) -> None:
    """The lens of a wire that has no word for such a part."""


def has_calls(parts: Sequence[Part]) -> bool:
    """Whether one of the parts is a call: all of them wait for the client."""
    return any(isinstance(part, ToolCall) for part in parts)


def bare(part: P) -> P:
    """The part without metadata."""
    return replace(part, metadata=())


def plain_text(text: Text) -> Text:
    """The words, without what they rest on."""
    return Text(text.text)


def thought(reasoning: Reasoning) -> Reasoning | None:
    """Readable reasoning, without a seal."""
    return Reasoning(reasoning.text) if reasoning.text else None


def call_in_words(call: ToolCall) -> ToolCall:
    """A call whose arguments stand on the wire as text, valid JSON or not."""
    return ToolCall(call.id, call.name, call.arguments)


def call_of_object(call: ToolCall) -> ToolCall | None:
    """A call whose arguments stand on the wire as an object; None where they are none."""
    arguments = as_object(call.arguments)
    return None if arguments is None else ToolCall(call.id, call.name, arguments)


def as_object(arguments: str) -> str | None:
    """The JSON object that the text spells, spelled as we do.

    None where it spells none, or one with numbers that JSON's readers would change.
    """
    try:
        json.loads(arguments, parse_int=_exact, parse_float=_finite, parse_constant=_finite)
        value = lenient_json.parse(arguments.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return (lenient_json.compact(value) or None) if isinstance(value, dict) else None


def _exact(digits: str) -> int:
    """A whole number of at most 64 bits."""
    number = int(digits)
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"{digits} is no number of 64 bits")
    return number


def _finite(spelled: str) -> float:
    """A number that is one."""
    number = float(spelled)
    if not isfinite(number):
        raise ValueError(f"{spelled} is not finite")
    return number


def kept(metadata: Metadata, names: tuple[str, ...]) -> Metadata:
    """What stands under these names and says something, in the order of the names."""
    return lenient_json.metadata(dict(metadata), names)


def worded(failure: Failure) -> Failure:
    """An error in words; one without any is told by its type or code."""
    return replace(failure, message=failure.message or failure.type or failure.code or "error")


def as_it_is(turn: Turn) -> Turn:
    """A turn of which nothing more is to be made."""
    return turn


def wordless(turn: Turn) -> Turn:
    """A turn that is an error and nothing beside it."""
    return replace(turn, metadata=())


def uncounted(turn: Turn) -> Turn:
    """A turn that failed, on a wire that counts tokens at the end."""
    return replace(turn, usage=None)


def is_silent(part: Part) -> bool:
    """Whether a part says nothing at all."""
    match part:
        case Text():
            return not part.text and not part.citations
        case Reasoning():
            return not (part.text or part.signature or part.redacted)
        case Refusal():
            return not part.text
        case Media():
            return not (part.url or part.base64 or part.transcript)
        case ToolCall() | ToolResult():
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The words of one kind of answer: streaming or whole, on one path of a dialect."""

    dialect: str
    streams: bool
    finishes: Mapping[str, Finish]
    """What each of the wire's reasons to finish means; any other word means `OTHER`."""
    words: Mapping[Finish, str]
    """The wire's word for each reason that it has one for; `STOP` is among them."""
    calls_stop: bool = False
    """Whether the word for `STOP` means `TOOL_CALLS` where the caller is waited for."""
    text: Callable[[Text], Text] = plain_text
    reasoning: Callable[[Reasoning], Reasoning | None] = nothing
    refusal: Callable[[Refusal], Refusal | None] = nothing
    call: Callable[[ToolCall], ToolCall | None] = nothing
    provided: Callable[[ToolCall], ToolCall | None] | None = None
    """For calls that the provider's own tools answered; None where they are told as others are."""
    waits: Callable[[Sequence[Part]], bool] = has_calls
    """Whether a turn of these parts, as they are told, waits for its caller to run a tool."""
    result: Callable[[ToolResult], ToolResult | None] = nothing
    media: Callable[[Media], Media | None] = nothing
    joined: frozenset[type[Part]] = frozenset((Text, Reasoning, Refusal))
    """The kinds of which neighbours become one part, since nothing on the wire parts them."""
    lasting: frozenset[type[Part]] = frozenset()
    """The kinds that are told even where they say nothing, if anything stands beside them."""
    order: tuple[type[Part], ...] = ()
    """The order of kinds, where the wire has one place for each; empty where parts keep theirs."""
    id_prefix: str | None = None
    """What ids begin with; None where an answer has no id."""
    call_prefix: str | None = "call_"
    """What the ids of calls begin with; None where a call needs no id."""
    names_model: bool = True
    counts: tuple[str, ...] = ("input", "output")
    """The fields of `Usage` that it has words for."""
    always: tuple[str, ...] = ()
    """Those that are told whenever usage is."""
    counts_always: bool = False
    """Whether every answer tells usage."""
    keeps: tuple[str, ...] = ()
    """The metadata of a turn that it has words for, in the order in which they are read."""
    shared: tuple[str, ...] = ()
    """Those of them that belong to the answer, and so to each of its choices alike."""
    choices: bool = False
    """Whether one answer can hold several turns."""
    successive: bool = False
    """Whether they can come one after the other, and finish once."""
    arranged: Callable[[Turn], Turn] = as_it_is
    """What else the wire does to a turn that otherwise fits; done twice, it is as done once."""
    failure: Callable[[Failure], Failure] = worded
    failed: Callable[[Turn], Turn] = uncounted
    """A turn that breaks off with an error, as far as a stream has told it by then."""
    refused: Callable[[Turn], Turn] = wordless
    """A turn that is told as an HTTP error, given with all its metadata."""
