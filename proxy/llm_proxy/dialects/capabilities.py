"""What one response format can represent: data that `conversion` applies to a turn.

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


def not_convertible(_part: Part) -> None:
    """The lens of a wire that has no word for such a part."""


def has_tool_calls(parts: Sequence[Part]) -> bool:
    """Whether one of the parts is a call: all of them wait for the client."""
    return any(isinstance(part, ToolCall) for part in parts)


def without_metadata(part: P) -> P:
    """The part without metadata."""
    return replace(part, metadata=())


def without_citations(text: Text) -> Text:
    """The words, without what they rest on."""
    return Text(text.text)


def unsigned_reasoning(reasoning: Reasoning) -> Reasoning | None:
    """Readable reasoning, without a seal."""
    return Reasoning(reasoning.text) if reasoning.text else None


def text_argument_call(call: ToolCall) -> ToolCall:
    """A call whose arguments stand on the wire as text, valid JSON or not."""
    return ToolCall(call.id, call.name, call.arguments)


def object_argument_call(call: ToolCall) -> ToolCall | None:
    """A call whose arguments stand on the wire as an object; None where they are none."""
    arguments = normalized_object_text(call.arguments)
    return None if arguments is None else ToolCall(call.id, call.name, arguments)


def normalized_object_text(arguments: str) -> str | None:
    """The JSON object that the text spells, spelled as we do.

    None where it spells none, or one with numbers that JSON's readers would change.
    """
    try:
        json.loads(
            arguments,
            parse_int=_exact_integer,
            parse_float=_finite_float,
            parse_constant=_finite_float,
        )
        value = lenient_json.parse_json(arguments.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return (lenient_json.compact_json(value) or None) if isinstance(value, dict) else None


def _exact_integer(digits: str) -> int:
    """A whole number of at most 64 bits."""
    number = int(digits)
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"{digits} is no number of 64 bits")
    return number


def _finite_float(spelled: str) -> float:
    number = float(spelled)
    if not isfinite(number):
        raise ValueError(f"{spelled} is not finite")
    return number


def nonempty_metadata(metadata: Metadata, names: tuple[str, ...]) -> Metadata:
    """What stands under these names and says something, in the order of the names."""
    return lenient_json.named_metadata(dict(metadata), names)


def with_message(failure: Failure) -> Failure:
    """An error in words; one without any is told by its type or code."""
    return replace(failure, message=failure.message or failure.type or failure.code or "error")


def unchanged(turn: Turn) -> Turn:
    """A turn of which nothing more is to be made."""
    return turn


def error_only(turn: Turn) -> Turn:
    """A turn that is an error and nothing beside it."""
    return replace(turn, metadata=())


def without_usage(turn: Turn) -> Turn:
    """A turn that failed, on a wire that counts tokens at the end."""
    return replace(turn, usage=None)


def is_empty_part(part: Part) -> bool:
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
class Capabilities:
    """The words of one kind of answer: streaming or whole, on one path of a dialect."""

    dialect: str
    streams: bool
    finish_of_raw: Mapping[str, Finish]
    """What each of the wire's reasons to finish means; any other word means `OTHER`."""
    raw_of_finish: Mapping[Finish, str]
    """The wire's word for each reason that it has one for; `STOP` is among them."""
    stop_means_tool_calls: bool = False
    """Whether the word for `STOP` means `TOOL_CALLS` where the caller is waited for."""
    convert_text: Callable[[Text], Text] = without_citations
    convert_reasoning: Callable[[Reasoning], Reasoning | None] = not_convertible
    convert_refusal: Callable[[Refusal], Refusal | None] = not_convertible
    convert_tool_call: Callable[[ToolCall], ToolCall | None] = not_convertible
    convert_provider_tool_call: Callable[[ToolCall], ToolCall | None] | None = None
    """For calls that the provider's own tools answered; None where they are told as others are."""
    awaits_client: Callable[[Sequence[Part]], bool] = has_tool_calls
    """Whether a turn of these parts, as they are told, waits for its caller to run a tool."""
    convert_tool_result: Callable[[ToolResult], ToolResult | None] = not_convertible
    convert_media: Callable[[Media], Media | None] = not_convertible
    merged_kinds: frozenset[type[Part]] = frozenset((Text, Reasoning, Refusal))
    """The kinds of which neighbours become one part, since nothing on the wire parts them."""
    kinds_kept_empty: frozenset[type[Part]] = frozenset()
    """The kinds that are told even where they say nothing, if anything stands beside them."""
    part_order: tuple[type[Part], ...] = ()
    """The order of kinds, where the wire has one place for each; empty where parts keep theirs."""
    id_prefix: str | None = None
    """What ids begin with; None where an answer has no id."""
    call_id_prefix: str | None = "call_"
    """What the ids of calls begin with; None where a call needs no id."""
    names_model: bool = True
    usage_fields: tuple[str, ...] = ("input", "output")
    """The fields of `Usage` that it has words for."""
    required_usage_fields: tuple[str, ...] = ()
    """Those that are told whenever usage is."""
    always_has_usage: bool = False
    """Whether every answer tells usage."""
    metadata_names: tuple[str, ...] = ()
    """The metadata of a turn that it has words for, in the order in which they are read."""
    shared_metadata_names: tuple[str, ...] = ()
    """Those of them that belong to the answer, and so to each of its choices alike."""
    allows_several_turns: bool = False
    """Whether one answer can hold several turns."""
    allows_successive_turns: bool = False
    """Whether they can come one after the other, and finish once."""
    arrange: Callable[[Turn], Turn] = unchanged
    """What else the wire does to a turn that otherwise fits; done twice, it is as done once."""
    convert_failure: Callable[[Failure], Failure] = with_message
    convert_failed_turn: Callable[[Turn], Turn] = without_usage
    """A turn that breaks off with an error, as far as a stream has told it by then."""
    convert_http_error_turn: Callable[[Turn], Turn] = error_only
    """A turn that is told as an HTTP error, given with all its metadata."""
