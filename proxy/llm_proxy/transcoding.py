"""A recorded answer told again, in another dialect: a re-telling, never a replay.

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
from llm_proxy.cassette_views import dialect_of, turns_of
from llm_proxy.dialects import Response
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.provider_calls import WORDED, is_provided
from llm_proxy.errors import CannotSay
from llm_proxy.exchange import header
from llm_proxy.outcome import outcome
from llm_proxy.turns import (
    Counting,
    Failure,
    Finish,
    Part,
    Reasoning,
    Text,
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
class Retelling:
    """An answer in other words."""

    response: Response
    lost: tuple[str, ...]
    """What those words do not say of it, each a few words."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How an answer is to be told."""

    dialect: str
    """The name of a dialect that is spoken."""
    whole: bool = False
    """As one document, not as a stream."""
    model: str = ""
    """Another model than the recorded one."""
    provider: str = ""
    """The member of the dialect's family that speaks."""


def retell(cassette: Cassette, manner: Manner) -> Retelling:
    """What this cassette holds, told in this manner.

    Raises `CannotSay` where nothing was said, not all of it was recorded, or the dialect has no
    words for it; `KeyError` for a dialect that is not spoken.
    """
    dialect = dialects.speakers()[manner.dialect]
    recorded = outcome(cassette)
    if not recorded.complete:
        raise CannotSay(f"{cassette.file} is {recorded}; told again it would seem whole")
    turns = turns_of(cassette)
    if not turns:
        raise CannotSay(f"{cassette.file} holds no turn: nothing that could be told again")
    is_foreign = dialect.name != dialect_of(cassette).name
    told = tuple(map(_abroad, turns)) if is_foreign else turns
    left = tuple(dict.fromkeys(it for turn in turns for it in _left(turn))) if is_foreign else ()
    counts = (dialect_of(cassette).counting, dialect.counting)
    told = tuple(replace(it, usage=it.usage and _recounted(it.usage, *counts)) for it in told)
    asked = manner.model or cassette.meta.model
    told = tuple(replace(it, model=manner.model or it.model or asked) for it in told)
    seed = f"{cassette.meta.key} {cassette.end.sha256}"  # takes of one request are told apart
    delivery = Delivery(seed, _second(cassette.meta.recorded), provider=manner.provider)
    failure = told[0].failure
    if failure and cassette.head.status >= _REFUSED:
        after = _seconds(header(cassette.head.headers, "retry-after"))
        refused = dialect.refuse(cassette.head.status, failure, delivery, after)
        others = any(name.lower() not in _OF_ANY for name, _ in cassette.head.headers)
        return Retelling(refused, (*left, *("the other headers of its error",) * others))
    request = dialect.typical(told[0].model, stream=not manner.whole)
    lost = dialect.fit(request, told, delivery).lost
    return Retelling(dialect.speak(request, told, delivery), (*left, *lost))


def _second(recorded: str) -> int:
    """The moment of the recording, in s since 1970; 0 where it is none."""
    try:
        return int(datetime.fromisoformat(recorded).timestamp())
    except ValueError:
        return 0


def _seconds(retry_after: str | None) -> float | None:
    """When to ask again; None where it is not said in seconds."""
    is_count = retry_after is not None and retry_after.isdecimal() and len(retry_after) < _DIGITS
    return float(retry_after or 0) if is_count else None


def _abroad(turn: Turn) -> Turn:
    """The turn without what its own provider alone could read, or run.

    Raises `CannotSay` where it waits for its caller to run nothing but a tool of that provider.
    """
    answered = {it.call_id for it in turn.parts if isinstance(it, ToolResult)}
    kept = [it for it in turn.parts if not is_provided(it) or it.id in answered]
    calls = [it for it in turn.parts if isinstance(it, ToolCall) and it.id not in answered]
    if turn.finish is Finish.TOOL_CALLS and calls and not any(it in kept for it in calls):
        kinds = ", ".join(dict.fromkeys(str(dict(it.metadata)["type"]) for it in calls))
        raise CannotSay(f"it waits for a tool that only its own dialect has: {kinds}")
    parts = tuple(replace(_plain(part), metadata=()) for part in kept)
    failure = turn.failure and Failure(turn.failure.message)
    return replace(turn, parts=parts, finish_raw="", failure=failure, id="", metadata=())


def _recounted(usage: Usage, ours: Counting, theirs: Counting) -> Usage:
    """The usage as another provider would count the same tokens."""
    if ours == theirs:
        return usage
    cached = (usage.cache_read or 0) + (usage.cache_write or 0)
    moved_in = cached * (theirs.cache_is_input - ours.cache_is_input)
    moved_out = (usage.reasoning or 0) * (theirs.reasoning_is_output - ours.reasoning_is_output)
    return replace(
        usage,
        input=None if usage.input is None else max(usage.input + moved_in, 0),
        output=None if usage.output is None else max(usage.output + moved_out, 0),
        total=_total(usage, ours),
    )


def _total(usage: Usage, counted: Counting) -> int | None:
    """All tokens, in whatever way input and output were counted."""
    if usage.input is None or usage.output is None:
        return usage.total
    cached = 0 if counted.cache_is_input else (usage.cache_read or 0) + (usage.cache_write or 0)
    thought = 0 if counted.reasoning_is_output else usage.reasoning or 0
    return usage.total or usage.input + usage.output + cached + thought


def _plain(part: Part) -> Part:
    """A part in words that any dialect could have: unsealed, and a call with an object.

    What a tool took as plain text stands abroad as the `input` of an object.
    """
    match part:
        case Reasoning():
            return Reasoning(part.text)
        case Text():
            return replace(part, citations=tuple(replace(it, metadata=()) for it in part.citations))
        case ToolCall() if dict(part.metadata).get("type") in WORDED:
            return replace(part, arguments=orjson.dumps({"input": part.arguments}).decode())
        case _:
            return part


def _left(turn: Turn) -> Iterator[str]:
    """What stays behind."""
    for part in turn.parts:
        if isinstance(part, Reasoning) and (part.signature or part.redacted):
            yield "the seal of its reasoning"
        if is_provided(part):
            yield "what the provider's own tools did"
        if isinstance(part, ToolCall) and part.metadata:
            yield "the provider's own words on a tool call"
    if turn.failure is not None and (turn.failure.type or turn.failure.code):
        yield "its own type of error"
    yield from (f"metadata {name}" for name, _ in turn.metadata)
