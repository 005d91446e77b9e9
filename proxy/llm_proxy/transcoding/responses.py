"""Converts the response of a cassette to another dialect.

The parts, the finish reason and the usage are converted.  Values with a meaning for their own
provider only (ids, its raw finish reason, error types, metadata, reasoning signatures) are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import orjson

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_dialect, cassette_outcome, cassette_response_turns
from llm_proxy.dialects import Dialect, DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.turn_parts import TEXT_ARGUMENT_CALL_TYPES, is_provider_tool_call
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import header_value
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
    ("connection", "content-encoding", "content-length", "content-type", "date", "retry-after",
     "server", "transfer-encoding")
)  # fmt: skip
"""Headers that carry no details of an error, or that are transcoded with it."""


@dataclass(frozen=True, slots=True)
class TranscodedResponse:
    """A response in another dialect."""

    response: DialectResponse
    losses: tuple[str, ...]
    """What the dialect cannot represent, in words."""


def transcode_response(
    cassette: Cassette, dialect: Dialect, *, stream: bool, model: str = "", provider: str = ""
) -> TranscodedResponse:
    """The response of a cassette in a chat dialect.

    `model` replaces the recorded model, and `provider` is one of the dialect's
    `provider_variants`.  Raises `NotRepresentable` if there is no turn, if the recording is
    partial, or if the dialect cannot represent it.
    """
    outcome = cassette_outcome(cassette)
    if not outcome.is_complete:
        raise NotRepresentable(f"{cassette.file}: {outcome}; --as converts only complete responses")
    turns = cassette_response_turns(cassette)
    if not turns:
        raise NotRepresentable(f"{cassette.file}: the response contains no turn to convert")
    recorded_dialect = cassette_dialect(cassette)
    losses: dict[str, None] = {}  # an ordered set
    if dialect.name != recorded_dialect.name:
        for turn in turns:
            losses |= dict.fromkeys(_describe_losses(turn))
        turns = tuple(map(_without_provider_parts, turns))
    turns = tuple(
        replace(
            turn,
            usage=turn.usage
            and convert_token_counts(
                turn.usage, recorded_dialect.token_counting, dialect.token_counting
            ),
            model=model or turn.model or cassette.meta.model,
        )
        for turn in turns
    )
    try:
        recorded_unix_s = int(datetime.fromisoformat(cassette.meta.recorded_at).timestamp())
    except ValueError:
        recorded_unix_s = 0
    # Differs between takes of one request.
    seed = f"{cassette.meta.key} {cassette.response_end.sha256}"
    context = EncodeContext(seed, recorded_unix_s, provider=provider)
    head, failure = cassette.response_head, turns[0].failure
    if failure and head.status >= _MIN_ERROR_STATUS:
        # A date, or a number without sense, is ignored.
        retry_after = header_value(head.headers, "retry-after") or ""
        is_delay = retry_after.isdecimal() and len(retry_after) < _MAX_RETRY_AFTER_DIGITS
        response = dialect.error_response(
            head.status, failure, context, float(retry_after) if is_delay else None
        )
        if any(name.lower() not in _GENERIC_HEADERS for name, _ in head.headers):
            losses["provider-specific headers of the error"] = None
        return TranscodedResponse(response, tuple(losses))
    request = dialect.sample_request(turns[0].model, stream=stream)
    conversion_losses = dialect.representable_turns(request, turns, context).losses
    response = dialect.encode_response(request, turns, context)
    return TranscodedResponse(response, (*losses, *conversion_losses))


def _without_provider_parts(turn: Turn) -> Turn:
    """The turn without parts that only its own provider can read or run.

    Raises `NotRepresentable` if all tool calls that it waits for are of the provider's own tools.
    """
    answered_ids = {part.call_id for part in turn.parts if isinstance(part, ToolResult)}
    kept = [
        part for part in turn.parts if not is_provider_tool_call(part) or part.id in answered_ids
    ]
    calls = [
        part for part in turn.parts if isinstance(part, ToolCall) and part.id not in answered_ids
    ]
    if turn.finish is FinishReason.TOOL_CALLS and calls and not any(call in kept for call in calls):
        kinds = ", ".join(dict.fromkeys(str(dict(call.metadata)["type"]) for call in calls))
        raise NotRepresentable(
            f"the response contains tool calls that only the recorded dialect supports: {kinds}"
        )
    parts = tuple(replace(_portable_part(part), metadata=()) for part in kept)
    failure = turn.failure and Failure(turn.failure.message)
    return replace(turn, parts=parts, finish_raw="", failure=failure, id="", metadata=())


def convert_token_counts(usage: Usage, source: TokenCounting, target: TokenCounting) -> Usage:
    """The usage with the counts that the provider of `target` reports for the same tokens."""
    if source == target:
        return usage
    cached, reasoning = (usage.cache_read or 0) + (usage.cache_write or 0), usage.reasoning or 0
    total = usage.total
    if not total and usage.input is not None and usage.output is not None:
        total = usage.input + usage.output
        total += cached * (not source.cache_is_input)
        total += reasoning * (not source.reasoning_is_output)
    input_change = cached * (target.cache_is_input - source.cache_is_input)
    output_change = reasoning * (target.reasoning_is_output - source.reasoning_is_output)
    return replace(
        usage,
        input=None if usage.input is None else max(usage.input + input_change, 0),
        output=None if usage.output is None else max(usage.output + output_change, 0),
        total=total,
    )


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
            yield "reasoning signatures"
        if is_provider_tool_call(part):
            yield "calls and results of the provider's own tools"
        if isinstance(part, ToolCall) and part.metadata:
            yield "provider-specific fields of tool calls"
    if turn.failure is not None and (turn.failure.type or turn.failure.code):
        yield "the error type"
    yield from (f"metadata {name}" for name, _ in turn.metadata)
