"""Transcodes a recorded response into another dialect.

What crosses from one dialect into another is what was said: the parts, why it finished, and what
it cost.  What only means something to the provider that said it (ids, its own word for the
finish, types of errors, metadata, the seal of its reasoning) stays behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import orjson

from llm_proxy import dialects
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_dialect, cassette_turns
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.provider_calls import WORDED, is_provider_tool_call
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import header_value
from llm_proxy.outcome import outcome_of
from llm_proxy.turns import (
    Failure,
    Finish,
    Part,
    Reasoning,
    Text,
    TokenCounting,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

_REFUSED: Final = 400
"""From this status on, an answer is an error."""
_DIGITS: Final = 10
"""Of a `Retry-After`: one of more digits is no time to wait."""
_OF_ANY: Final = frozenset(
    (
        *("connection", "content-encoding", "content-length", "content-type", "date"),
        *("retry-after", "server", "transfer-encoding"),
    )
)
"""Headers that say nothing of an error, or are told with it."""


@dataclass(frozen=True, slots=True)
class TranscodedResponse:
    """An answer in other words."""

    response: DialectResponse
    losses: tuple[str, ...]
    """What those words do not say of it, each a few words."""


@dataclass(frozen=True, slots=True)
class TranscodeOptions:
    """How an answer is to be told."""

    dialect: str
    """The name of a dialect that is spoken."""
    is_whole: bool = False
    """As one document, not as a stream."""
    model: str = ""
    """Another model than the recorded one."""
    provider: str = ""
    """The member of the dialect's family that speaks."""


def transcode(cassette: Cassette, options: TranscodeOptions) -> TranscodedResponse:
    """What this cassette holds, told in this manner.

    Raises `NotRepresentable` where nothing was said, not all of it was recorded, or the dialect
    has no words for it; `KeyError` for a dialect that is not spoken.
    """
    dialect = dialects.chat_dialects()[options.dialect]
    recorded = outcome_of(cassette)
    if not recorded.complete:
        raise NotRepresentable(f"{cassette.file} is {recorded}; told again it would seem whole")
    turns = cassette_turns(cassette)
    if not turns:
        raise NotRepresentable(f"{cassette.file} holds no turn: nothing that could be told again")
    is_foreign = dialect.name != cassette_dialect(cassette).name
    values = tuple(map(_without_provider_parts, turns)) if is_foreign else turns
    left = (
        tuple(
            dict.fromkeys(removed_part for turn in turns for removed_part in _removed_parts(turn))
        )
        if is_foreign
        else ()
    )
    counts = (cassette_dialect(cassette).token_counting, dialect.token_counting)
    values = tuple(
        replace(item, usage=item.usage and _convert_token_counts(item.usage, *counts))
        for item in values
    )
    text = options.model or cassette.meta.model
    values = tuple(replace(item, model=options.model or item.model or text) for item in values)
    seed = f"{cassette.meta.key} {cassette.end.sha256}"  # takes of one request are told apart
    delivery = EncodeContext(
        seed, _recorded_second(cassette.meta.recorded), provider=options.provider
    )
    failure = values[0].failure
    if failure and cassette.head.status >= _REFUSED:
        after = _retry_after_seconds(header_value(cassette.head.headers, "retry-after"))
        refused = dialect.error_response(cassette.head.status, failure, delivery, after)
        others = any(name.lower() not in _OF_ANY for name, _ in cassette.head.headers)
        return TranscodedResponse(refused, (*left, *("the other headers of its error",) * others))
    request = dialect.sample_request(values[0].model, stream=not options.is_whole)
    lost = dialect.convert(request, values, delivery).losses
    return TranscodedResponse(dialect.encode(request, values, delivery), (*left, *lost))


def _recorded_second(recorded: str) -> int:
    """The moment of the recording, in s since 1970; 0 where it is none."""
    try:
        return int(datetime.fromisoformat(recorded).timestamp())
    except ValueError:
        return 0


def _retry_after_seconds(retry_after: str | None) -> float | None:
    """When to ask again; None where it is not said in seconds."""
    is_count = retry_after is not None and retry_after.isdecimal() and len(retry_after) < _DIGITS
    return float(retry_after or 0) if is_count else None


def _without_provider_parts(turn: Turn) -> Turn:
    """The turn without what its own provider alone could read, or run.

    Raises `NotRepresentable` where it waits for its caller to run nothing but a tool of that
    provider.
    """
    answered = {item.call_id for item in turn.parts if isinstance(item, ToolResult)}
    kept = [item for item in turn.parts if not is_provider_tool_call(item) or item.id in answered]
    calls = [item for item in turn.parts if isinstance(item, ToolCall) and item.id not in answered]
    if (
        turn.finish is Finish.TOOL_CALLS
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


def _convert_token_counts(usage: Usage, ours: TokenCounting, theirs: TokenCounting) -> Usage:
    if ours == theirs:
        return usage
    cached = (usage.cache_read or 0) + (usage.cache_write or 0)
    moved_in = cached * (theirs.cache_is_input - ours.cache_is_input)
    moved_out = (usage.reasoning or 0) * (theirs.reasoning_is_output - ours.reasoning_is_output)
    return replace(
        usage,
        input=None if usage.input is None else max(usage.input + moved_in, 0),
        output=None if usage.output is None else max(usage.output + moved_out, 0),
        total=_total_tokens(usage, ours),
    )


def _total_tokens(usage: Usage, counted: TokenCounting) -> int | None:
    if usage.input is None or usage.output is None:
        return usage.total
    cached = 0 if counted.cache_is_input else (usage.cache_read or 0) + (usage.cache_write or 0)
    thought = 0 if counted.reasoning_is_output else usage.reasoning or 0
    return usage.total or usage.input + usage.output + cached + thought


def _portable_part(part: Part) -> Part:
    """A part in words that any dialect could have: unsealed, and a call with an object.

    What a tool took as plain text stands abroad as the `input` of an object.
    """
    match part:
        case Reasoning():
            return Reasoning(part.text)
        case Text():
            return replace(
                part, citations=tuple(replace(citation, metadata=()) for citation in part.citations)
            )
        case ToolCall() if dict(part.metadata).get("type") in WORDED:
            return replace(part, arguments=orjson.dumps({"input": part.arguments}).decode())
        case _:
            return part


def _removed_parts(turn: Turn) -> Iterator[str]:
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
