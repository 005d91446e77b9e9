"""What every format needs before its own bytes: the context of its encoder, and prepared turns.

* Applications act on text, tool calls and media: a format that has no such part, or several turns
  where it has one, raises `NotRepresentable`.
* A refusal becomes text if the format has no refusals.  Reasoning, and calls and results of the
  provider's own tools, are left out if it has no field for them; so are empty parts.
* A finish reason becomes the nearest that the format has.  A turn without one gets `STOP`, or
  `TOOL_CALLS` if it waits for the client.
* What the format requires is generated: ids, the requested model, `{}` for the arguments of a call
  without any, counts of zero.  A lone surrogate becomes U+FFFD.
* A failure is that of all turns, which have no finish reason then.  If choices come one after the
  other, only the first has one.

Nothing here uses randomness or a clock: the same `EncodeContext` gives the same bytes.
"""

from __future__ import annotations

import json
import re
from base64 import b32encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import isfinite
from typing import Final
from uuid import UUID

from llm_proxy.dialects import lenient_json, turn_parts
from llm_proxy.dialects.turn_parts import replace_lone_surrogates
from llm_proxy.dialects.wire import WireFormat
from llm_proxy.errors import NotRepresentable
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

PART_LABELS: Final = {
    Text: "text",
    Reasoning: "reasoning",
    Refusal: "a refusal",
    ToolCall: "a tool call",
    ToolResult: "a tool result",
    Media: "media",
}
_TOKEN_PATTERN: Final = re.compile(r"\s*\S{1,12}|\s+")
"""A word with the space before it, like a token; at most 12 characters of a longer one."""


def token_pieces(text: str) -> list[str]:
    """Splits a text into pieces of about a token each; joined, they are the text."""
    return _TOKEN_PATTERN.findall(text)


def one_piece(text: str) -> list[str]:
    """The text as its only piece: for encodings that are decoded at once."""
    return [text] if text else []


@dataclass(frozen=True, slots=True)
class RateLimitWindow:
    """The state of one rate limit, as providers report it in headers."""

    limit: int
    remaining: int
    reset_s: float
    """Seconds until the full limit is available again."""


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """The rate limits of an account, for providers that report them in headers."""

    request_window: RateLimitWindow | None = None
    """None if there is no such limit."""
    token_window: RateLimitWindow | None = None

    @property
    def named_windows(self) -> tuple[tuple[str, RateLimitWindow], ...]:
        """The existing limits, each after its name: `requests`, `tokens`."""
        windows = (("requests", self.request_window), ("tokens", self.token_window))
        return tuple((name, window) for name, window in windows if window is not None)


@dataclass(frozen=True, slots=True)
class EncodeContext:
    """How to encode a turn, as far as the turn does not determine it."""

    seed: str
    """The seed of identifiers: the same seed gives the same ones."""
    created_unix_s: int
    """The time of the response, in s since 1970 (UTC)."""
    split_text: Callable[[str], Iterable[str]] = token_pieces
    """Splits a text into the pieces of a stream: none is empty, and joined they are the text."""
    provider: str = ""
    """The provider within a dialect's family: a name of `llm_proxy.providers`."""
    models: tuple[str, ...] = ()
    """The names in a list of models."""
    account_limits: AccountLimits | None = None
    """None if the limits of the account are not reported."""
    choices_are_successive: bool = False
    """Whether several choices come one after the other and finish once, as choice 0; else they are
    interleaved and each finishes.  Only streams of the OpenAI family have the former."""
    signs_reasoning: bool = True
    """Whether unsigned reasoning gets a fake signature, if clients must send signatures back."""

    def fake_identifier(self, prefix: str, ordinal: int = 0, length: int = 24) -> str:
        """A fake identifier: `prefix`, and `length` (at most 52) lower-case letters and digits.

        The same seed, prefix and ordinal give the same identifier.
        """
        return prefix + b32encode(self._seeded_digest(prefix, ordinal)).decode().lower()[:length]

    def fake_uuid(self, purpose: str, ordinal: int = 0) -> str:
        """A fake UUID; the same seed, purpose and ordinal give the same one."""
        return str(UUID(bytes=self._seeded_digest(purpose, ordinal)[:16], version=4))

    def _seeded_digest(self, purpose: str, ordinal: int) -> bytes:
        return sha256(f"{self.seed}\0{purpose}\0{ordinal}".encode()).digest()


def first_failure(turns: Sequence[Turn]) -> Failure | None:
    """The failure of a response with these turns, without lone surrogates."""
    failure = next((turn.failure for turn in turns if turn.failure), None)
    return failure and replace_lone_surrogates(Turn((), failure=failure)).failure


def prepared_turns(
    turns: Sequence[Turn], wire_format: WireFormat, model: str, context: EncodeContext
) -> tuple[Turn, ...]:
    """The turns as an encoder needs them; `model` is the requested one.

    Raises `NotRepresentable` if text, tool calls or media would be lost.
    """
    failure = first_failure(turns)
    call_ids: set[str] = set()
    prepared = []
    for turn in map(replace_lone_surrogates, turns):
        parts = turn_parts.merge_neighbours(
            _prepared_parts(turn.parts, wire_format, call_ids, context), wire_format.merged
        )
        awaits_client = wire_format.awaits_client(parts)
        wanted = turn.finish or (FinishReason.TOOL_CALLS if awaits_client else FinishReason.STOP)
        raw = wire_format.finish.encode(wanted, turn.finish_raw, awaits_client=awaits_client)
        prepared.append(
            Turn(
                parts,
                finish=wire_format.finish.decode(raw, awaits_client=awaits_client),
                finish_raw=raw,
                usage=wire_format.usage.complete(turn.usage),
                id=""
                if wire_format.id_prefix is None
                else turn.id or context.fake_identifier(wire_format.id_prefix),
                model=turn.model or model,
                metadata=lenient_json.select_metadata(dict(turn.metadata), wire_format.metadata),
            )
        )
    if failure is not None:
        return tuple(
            replace(turn, finish=None, finish_raw="", failure=failure) for turn in prepared
        )
    is_successive = wire_format.is_streamed and context.choices_are_successive
    if is_successive and not wire_format.has_interleaved_choices:
        # The first choice finishes for all; the others have only the metadata of the response.
        for at, turn in enumerate(prepared[1:], 1):
            metadata = lenient_json.select_metadata(
                dict(turn.metadata), wire_format.response_metadata
            )
            prepared[at] = replace(turn, finish=None, finish_raw="", metadata=metadata)
    return tuple(prepared)


def _prepared_parts(
    parts: Sequence[Part], wire_format: WireFormat, call_ids: set[str], context: EncodeContext
) -> Iterator[Part]:
    """The parts to send; `call_ids` collects the ids of the response's calls."""
    provider_calls = provider_call_identities(parts)
    for given in parts:
        part = given
        if is_provider_part(part, provider_calls):
            if ToolResult not in wire_format.parts:
                continue
            if isinstance(part, ToolCall):
                provider_call = wire_format.convert_provider_call(part)
                if provider_call is None:
                    continue
                part = provider_call
        if isinstance(part, Refusal) and Refusal not in wire_format.parts:
            part = Text(part.text)
        if isinstance(part, ToolCall) and ToolCall in wire_format.parts:
            part = _complete_call(part, wire_format, call_ids, context)
        converted = wire_format.convert_part(part) if type(part) in wire_format.parts else None
        if converted is None and not isinstance(part, Reasoning | ToolResult):
            raise NotRepresentable(
                f"{wire_format.dialect} cannot represent {PART_LABELS[type(part)]}"
            )
        if converted is not None and not is_silent(converted, wire_format):
            yield converted


def _complete_call(
    call: ToolCall, wire_format: WireFormat, call_ids: set[str], context: EncodeContext
) -> ToolCall:
    """The call with an id that is unique in the response, and with arguments."""
    call_id, prefix = call.id, wire_format.call_id_prefix
    if prefix is not None and (not call_id or call_id in call_ids):
        call_id = context.fake_identifier(prefix, len(call_ids))
    call_ids.add(call_id)
    arguments = call.arguments or "{}"
    if wire_format.has_object_arguments:
        normalized = normalized_object_json(arguments)
        if normalized is None:
            raise arguments_error(wire_format.dialect, call)
        arguments = normalized
    return replace(call, id=call_id, arguments=arguments)


def arguments_error(dialect: str, call: ToolCall) -> NotRepresentable:
    """The error for a call whose arguments are not an object where they have to be."""
    return NotRepresentable(
        f"{dialect}: the arguments of {call.name or 'a tool call'} are not a JSON object, or "
        "contain a number that exceeds 64 bits"
    )


def provider_call_identities(parts: Sequence[Part]) -> set[tuple[str, str]]:
    """What identifies the calls of the provider's own tools: those that a result answers."""
    return {
        _call_identity(part.call_id, part.name) for part in parts if isinstance(part, ToolResult)
    }


def is_provider_part(part: Part, provider_calls: set[tuple[str, str]]) -> bool:
    """Whether it is a call or a result of the provider's own tools."""
    return isinstance(part, ToolResult) or (
        isinstance(part, ToolCall) and _call_identity(part.id, part.name) in provider_calls
    )


def _call_identity(call_id: str, name: str) -> tuple[str, str]:
    """What a call and its result share: the id, or the name if there is no id."""
    return (call_id, "") if call_id else ("", name)


def is_silent(part: Part, wire_format: WireFormat) -> bool:
    """Whether a part has nothing to send; tool calls and results always have."""
    if wire_format.is_sent_empty(part):
        return False
    if isinstance(part, Text) or (isinstance(part, Reasoning) and not wire_format.has_signatures):
        return not part.text
    return turn_parts.is_empty_part(part)


def normalized_object_json(arguments: str) -> str | None:
    """The JSON object in the text, re-encoded as `compact_json` writes it.

    None if the text is not a JSON object, or has numbers that JSON parsers would change.
    """
    try:
        json.loads(
            arguments,
            parse_int=_parse_64_bit_integer,
            parse_float=_parse_finite_float,
            parse_constant=_parse_finite_float,
        )
        parsed = lenient_json.parse_json(arguments.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return (lenient_json.compact_json(parsed) or None) if isinstance(parsed, dict) else None


def _parse_64_bit_integer(digits: str) -> int:
    number = int(digits)
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"{digits} does not fit into 64 bits")
    return number


def _parse_finite_float(literal: str) -> float:
    number = float(literal)
    if not isfinite(number):
        raise ValueError(f"{literal} is not finite")
    return number
