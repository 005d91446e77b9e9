"""What one response format can represent: data that `conversion` applies to a turn.

A *converter* returns a part as the format can represent it, or None if the format cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.encoding import normalized_object_json
from llm_proxy.dialects.wire import has_tool_calls, with_default_error_message
from llm_proxy.turns import (
    Failure,
    FinishReason,
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


def convert_to_none(_part: Part) -> None:
    """The converter for a part that the format cannot represent."""


def without_part_metadata(part: P) -> P:
    """The part without metadata."""
    return replace(part, metadata=())


def without_citations(text: Text) -> Text:
    """The text alone, without citations and metadata."""
    return Text(text.text)


def without_signature(reasoning: Reasoning) -> Reasoning | None:
    """Readable reasoning without a signature; None if it has no readable text."""
    return Reasoning(reasoning.text) if reasoning.text else None


def tool_call_with_text_arguments(call: ToolCall) -> ToolCall:
    """The call for a format that sends arguments as text, valid JSON or not."""
    return ToolCall(call.id, call.name, call.arguments)


def tool_call_with_object_arguments(call: ToolCall) -> ToolCall | None:
    """The call for a format that sends arguments as an object; None if they are not an object."""
    arguments = normalized_object_json(call.arguments)
    return None if arguments is None else ToolCall(call.id, call.name, arguments)


def nonempty_metadata(metadata: Metadata, names: tuple[str, ...]) -> Metadata:
    """The pairs with these names whose values are not empty, in the order of the names."""
    return lenient_json.select_metadata(dict(metadata), names)


def unchanged_turn(turn: Turn) -> Turn:
    """The same turn: the default of `Capabilities.normalize_turn`."""
    return turn


def without_turn_metadata(turn: Turn) -> Turn:
    """The failed turn without metadata, so that only its error remains."""
    return replace(turn, metadata=())


def without_usage(turn: Turn) -> Turn:
    """The turn without usage: for a failed stream, in formats that count tokens at the end."""
    return replace(turn, usage=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What one kind of response can represent: streamed or whole, on one path of a dialect."""

    dialect: str
    is_streamed: bool
    finish_by_raw_reason: Mapping[str, FinishReason]
    """The `FinishReason` of each of the format's finish reasons; any other is `OTHER`."""
    raw_reason_by_finish: Mapping[FinishReason, str]
    """The format's finish reason for each `FinishReason` that it represents; always with `STOP`."""
    stop_means_tool_calls: bool = False
    """Whether the finish reason for `STOP` means `TOOL_CALLS` if `awaits_client` is true."""
    convert_text: Callable[[Text], Text] = without_citations
    convert_reasoning: Callable[[Reasoning], Reasoning | None] = convert_to_none
    convert_refusal: Callable[[Refusal], Refusal | None] = convert_to_none
    convert_tool_call: Callable[[ToolCall], ToolCall | None] = convert_to_none
    convert_provider_tool_call: Callable[[ToolCall], ToolCall | None] | None = None
    """For calls that the provider's own tools answered; None if they are converted as others."""
    awaits_client_predicate: Callable[[Sequence[Part]], bool] = has_tool_calls
    """Whether a turn with these converted parts waits for the client to run a tool."""
    convert_tool_result: Callable[[ToolResult], ToolResult | None] = convert_to_none
    convert_media: Callable[[Media], Media | None] = convert_to_none
    merged_kinds: frozenset[type[Part]] = frozenset((Text, Reasoning, Refusal))
    """The kinds whose neighbours are merged, since the format has no boundary between them."""
    part_kinds_kept_if_empty: frozenset[type[Part]] = frozenset()
    """The kinds that are kept even if empty, provided that they have metadata."""
    part_order: tuple[type[Part], ...] = ()
    """The order of kinds, if the format has one field for each; empty if parts keep their order."""
    id_prefix: str | None = None
    """The prefix of response ids; None if a response has no id."""
    call_id_prefix: str | None = "call_"
    """The prefix of call ids; None if a call needs no id."""
    includes_model: bool = True
    usage_fields: tuple[str, ...] = ("input", "output")
    """The fields of `Usage` that it can represent."""
    required_usage_fields: tuple[str, ...] = ()
    """Those that are always sent with usage."""
    always_has_usage: bool = False
    """Whether every response has usage."""
    metadata_names: tuple[str, ...] = ()
    """The names of the turn metadata that it can represent, in decoding order."""
    response_level_metadata_names: tuple[str, ...] = ()
    """Those that belong to the response, and so are equal in all its choices."""
    response_allows_several_choices: bool = False
    """Whether one response can hold several turns."""
    response_allows_successive_choices: bool = False
    """Whether several turns can come one after the other, with one finish reason."""
    normalize_turn: Callable[[Turn], Turn] = unchanged_turn
    """The format's last changes to a converted turn; must be idempotent."""
    convert_failure: Callable[[Failure], Failure] = with_default_error_message
    convert_failed_turn: Callable[[Turn], Turn] = without_usage
    """Reduces a failed turn to what a stream has sent before its error."""
    convert_http_error_turn: Callable[[Turn], Turn] = without_turn_metadata
    """Reduces a failed turn, given with all its metadata, to what an HTTP error can hold."""
