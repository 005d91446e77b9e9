"""Transcodes a recorded response into another dialect.

The parts, the finish reason and the usage are transcoded.  Values with a meaning for their own
provider only (ids, its raw finish reason, error types, metadata, reasoning signatures) are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import orjson

from llm_proxy import dialects
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_dialect, cassette_response_turns
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.provider_tool_calls import TEXT_ARGUMENT_CALL_TYPES, is_provider_tool_call
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import header_value
from llm_proxy.outcome import cassette_outcome
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Part,
    Reasoning,
    Text,
    TokenCounting,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

_MIN_ERROR_STATUS: Final = 400
"""From this status on, a response is an error."""
_MAX_RETRY_AFTER_DIGITS: Final = 10
"""A `Retry-After` of this many digits or more is no sensible delay, and is ignored."""
_GENERIC_HEADERS: Final = frozenset(
    (
        *("connection", "content-encoding", "content-length", "content-type", "date"),
        *("retry-after", "server", "transfer-encoding"),
    )
)
"""Headers that carry no details of an error, or that are transcoded with it."""


@dataclass(frozen=True, slots=True)
class TranscodedResponse:
    """A response in another dialect, and what it lost."""

    response: DialectResponse
    losses: tuple[str, ...]
    """What the new dialect cannot represent, each in a few words."""


@dataclass(frozen=True, slots=True)
class TranscodeOptions:
    """The target dialect and form of a transcoded response."""

    dialect_name: str
    """The name of a chat dialect."""
    is_non_streaming: bool = False
    """Whether to encode one document instead of a stream."""
    model: str = ""
    """A model name to use instead of the recorded one; empty to keep it."""
    provider: str = ""
    """The provider of the dialect's family whose variant to encode."""


def transcode(cassette: Cassette, options: TranscodeOptions) -> TranscodedResponse:
    """Transcode the response of a cassette.

    Raises `NotRepresentable` if there is no turn, if the recording is partial, or if the dialect
    cannot represent it; `KeyError` for an unknown chat dialect.
    """
    dialect = dialects.chat_dialects()[options.dialect_name]
    outcome = cassette_outcome(cassette)
    if not outcome.is_complete:
        raise NotRepresentable(f"{cassette.file} is {outcome}; told again it would seem whole")
    turns = cassette_response_turns(cassette)
    if not turns:
        raise NotRepresentable(f"{cassette.file} holds no turn: nothing that could be told again")
    is_foreign = dialect.name != cassette_dialect(cassette).name
    transcoded_turns = tuple(map(_without_provider_parts, turns)) if is_foreign else turns
    removed = (
        tuple(
            dict.fromkeys(removed_part for turn in turns for removed_part in _describe_losses(turn))
        )
        if is_foreign
        else ()
    )
    token_countings = (cassette_dialect(cassette).token_counting, dialect.token_counting)
    transcoded_turns = tuple(
        replace(item, usage=item.usage and _convert_token_counts(item.usage, *token_countings))
        for item in transcoded_turns
    )
    default_model = options.model or cassette.meta.model
    transcoded_turns = tuple(
        replace(item, model=options.model or item.model or default_model)
        for item in transcoded_turns
    )
    # Differs between takes of one request.
    seed = f"{cassette.meta.key} {cassette.response_end.sha256}"
    context = EncodeContext(
        seed, _recorded_unix_s(cassette.meta.recorded_at), provider=options.provider
    )
    failure = transcoded_turns[0].failure
    if failure and cassette.response_head.status >= _MIN_ERROR_STATUS:
        retry_after_s = _retry_after_seconds(
            header_value(cassette.response_head.headers, "retry-after")
        )
        error_response = dialect.error_response(
            cassette.response_head.status, failure, context, retry_after_s
        )
        has_other_headers = any(
            name.lower() not in _GENERIC_HEADERS for name, _ in cassette.response_head.headers
        )
        return TranscodedResponse(
            error_response, (*removed, *("the other headers of its error",) * has_other_headers)
        )
    request = dialect.sample_request(transcoded_turns[0].model, stream=not options.is_non_streaming)
    conversion_losses = dialect.representable_turns(request, transcoded_turns, context).losses
    return TranscodedResponse(
        dialect.encode_response(request, transcoded_turns, context), (*removed, *conversion_losses)
    )


def _recorded_unix_s(recorded_at: str) -> int:
    """The time of the recording in s since 1970; 0 if it is invalid."""
    try:
        return int(datetime.fromisoformat(recorded_at).timestamp())
    except ValueError:
        return 0


def _retry_after_seconds(retry_after: str | None) -> float | None:
    """The delay of a `Retry-After` in seconds; None if it is a date or absent."""
    is_number = (
        retry_after is not None
        and retry_after.isdecimal()
        and len(retry_after) < _MAX_RETRY_AFTER_DIGITS
    )
    return float(retry_after or 0) if is_number else None


def _without_provider_parts(turn: Turn) -> Turn:
    """The turn without parts that only its own provider can read or run.

    Raises `NotRepresentable` if all tool calls that it waits for are of the provider's own tools.
    """
    answered_ids = {item.call_id for item in turn.parts if isinstance(item, ToolResult)}
    kept = [
        item for item in turn.parts if not is_provider_tool_call(item) or item.id in answered_ids
    ]
    calls = [
        item for item in turn.parts if isinstance(item, ToolCall) and item.id not in answered_ids
    ]
    if (
        turn.finish is FinishReason.TOOL_CALLS
        and calls
        and not any(tool_call in kept for tool_call in calls)
    ):
        kinds = ", ".join(
            dict.fromkeys(str(dict(tool_call.metadata)["type"]) for tool_call in calls)
        )
        raise NotRepresentable(f"it waits for a tool that only its own dialect has: {kinds}")
    parts = tuple(replace(_portable_part(part), metadata=()) for part in kept)
    failure = turn.failure and Failure(turn.failure.message)
    return replace(turn, parts=parts, finish_raw="", failure=failure, id="", metadata=())


def _convert_token_counts(usage: Usage, source: TokenCounting, target: TokenCounting) -> Usage:
    if source == target:
        return usage
    cached = (usage.cache_read or 0) + (usage.cache_write or 0)
    input_change = cached * (target.cache_is_input - source.cache_is_input)
    output_change = (usage.reasoning or 0) * (
        target.reasoning_is_output - source.reasoning_is_output
    )
    return replace(
        usage,
        input=None if usage.input is None else max(usage.input + input_change, 0),
        output=None if usage.output is None else max(usage.output + output_change, 0),
        total=_total_tokens(usage, source),
    )


def _total_tokens(usage: Usage, counting: TokenCounting) -> int | None:
    if usage.input is None or usage.output is None:
        return usage.total
    cached = 0 if counting.cache_is_input else (usage.cache_read or 0) + (usage.cache_write or 0)
    reasoning = 0 if counting.reasoning_is_output else usage.reasoning or 0
    return usage.total or usage.input + usage.output + cached + reasoning


def _portable_part(part: Part) -> Part:
    """A part that any dialect can represent: without signature, tool arguments as an object.

    Plain text arguments become the `input` of an object.
    """
    match part:
        case Reasoning():
            return Reasoning(part.text)
        case Text():
            return replace(
                part, citations=tuple(replace(citation, metadata=()) for citation in part.citations)
            )
        case ToolCall() if dict(part.metadata).get("type") in TEXT_ARGUMENT_CALL_TYPES:
            return replace(part, arguments=orjson.dumps({"input": part.arguments}).decode())
        case _:
            return part


def _describe_losses(turn: Turn) -> Iterator[str]:
    for part in turn.parts:
        if isinstance(part, Reasoning) and (part.signature or part.redacted):
            yield "the seal of its reasoning"
        if is_provider_tool_call(part):
            yield "what the provider's own tools did"
        if isinstance(part, ToolCall) and part.metadata:
            yield "the provider's own words on a tool call"
    if turn.failure is not None and (turn.failure.type or turn.failure.code):
        yield "its own type of error"
    yield from (f"metadata {name}" for name, _ in turn.metadata)
