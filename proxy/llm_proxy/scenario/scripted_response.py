"""The scripted response to a request, before a dialect encodes it.

Scenarios, mocks and synthesis create scripted responses; `render` turns them into actions.  Texts
are split into pieces for streaming.  No draw of a gap between pieces depends on another, so
concurrent or reordered requests get the same durations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from llm_proxy.chance import seeded_uniform
from llm_proxy.dialects.encode_context import token_pieces
from llm_proxy.faults.rule import ScenarioRule
from llm_proxy.pacing import Pace
from llm_proxy.scenario.documents.document import ChunkSpec, FailureStatus, MillisecondsOrRange
from llm_proxy.turns import Json, Turn

TextSplitter = Callable[[str], Iterable[str]]
"""Splits a text into the pieces of a stream: none is empty, and joined they are the text."""

DEFAULT_FAILURE_MESSAGE: Final = "Simulated failure"
"""The message of a failure without one."""
_WORD_WITH_SPACE: Final = re.compile(r"\s*\S+(?:\s+\Z)?|\s+")
"""A word with its leading white space; the last one also with its trailing white space."""


def as_single_piece(text: str) -> tuple[str, ...]:
    """A text as one piece; no piece if it is empty."""
    return (text,) if text else ()


@dataclass(frozen=True, slots=True)
class ResponseTiming:
    """The delays in ms of a response at its own pace, after the request was read in full."""

    thinking_ms: float = 0.0
    """Delay before the status line."""
    compute_gap_ms: Callable[[int], float] | None = None
    """From k to the gap in ms before piece k, for k >= 1; None for no gaps."""


@dataclass(frozen=True, slots=True)
class SendTurns:
    """Respond with these turns."""

    response_turns: tuple[Turn, ...]
    split_text: TextSplitter = as_single_piece
    timing: ResponseTiming = ResponseTiming()
    pace: Pace | None = None
    """The pace that the scenario sets; None for the pace of the run."""
    turns_are_successive: bool = False
    """Whether several turns are streamed one after another and finish once, as choices of one
    response; a dialect without choices encodes them as one."""
    signs_reasoning: bool = True
    """Whether unsigned reasoning gets a made-up signature where clients send signatures back."""


@dataclass(frozen=True, slots=True)
class FailResponse:
    """Fail as a provider does."""

    failure_status: FailureStatus
    message: str = DEFAULT_FAILURE_MESSAGE
    retryable: bool = True
    retry_after_ms: float | None = None
    error_fields: Mapping[str, Json] | None = None
    """Fields for the error object; a `message` in it replaces the field `message`, and a numeric
    `status` or `statusCode` sets the HTTP status."""


@dataclass(frozen=True, slots=True)
class ReportScriptExhausted:
    """Fail with an error because a script has no more responses (document 004)."""

    message: str


@dataclass(frozen=True, slots=True)
class ScriptedResponse:
    """The action for a request, and its origin."""

    scripted_action: SendTurns | FailResponse | ReportScriptExhausted
    origin: str
    """For the journal: `test-llm: refund, turn 2`, `mock helper`, `synthesis`."""
    session_failure_reason: str = ""
    """Why the session has failed its scenario; empty if it has not."""
    warnings: tuple[str, ...] = ()
    """Sentences for the log."""
    journal_notes: tuple[str, ...] = ()
    """Sentences for the journal."""
    reported_metadata: Mapping[str, Mapping[str, Json]] | None = None
    """Provider metadata, by provider, that is reported with the turn."""
    is_synthesized: bool = False
    """Whether it comes from synthesis, not from a scenario or a mock."""
    fault_rules: tuple[ScenarioRule, ...] = ()
    """Fault rules of the scenario for this response."""


def text_splitter(chunks: ChunkSpec | None) -> TextSplitter:
    """The splitter for a scenario's `chunks`; without them, texts stay in one piece."""
    match chunks:
        case None | ChunkSpec(by="whole"):
            return as_single_piece
        case ChunkSpec(by="tokens"):
            return lambda text: _join_in_groups(token_pieces(text), chunks.size)
        case ChunkSpec(by="words"):
            return partial(split_words, size=chunks.size)
        case ChunkSpec():
            return lambda text: _join_in_groups(text, chunks.size)


def split_words(text: str, size: int) -> tuple[str, ...]:
    """Split a text into pieces of `size` words; the last may have fewer.

    White space belongs to the word after it, at the end of the text to the last word.
    """
    return _join_in_groups(_WORD_WITH_SPACE.findall(text), size)


def _join_in_groups(pieces: Sequence[str], size: int) -> tuple[str, ...]:
    return tuple("".join(pieces[start : start + size]) for start in range(0, len(pieces), size))


def draw_ms(span: MillisecondsOrRange, *seed_parts: object) -> float:
    """A duration in ms: a fixed span itself, or a uniform draw from a range."""
    if not isinstance(span, tuple):
        return float(span)
    low, high = span
    return min(low + (high - low) * seeded_uniform(*seed_parts), high)


def gap_ms_drawer(span: MillisecondsOrRange, *seed_parts: object) -> Callable[[int], float] | None:
    """A function from k to the gap in ms before piece k, drawn separately for each k.

    `seed_parts` identify the response: seed, session, key, ordinal.  None if all gaps are zero.
    """
    max_ms = max(span) if isinstance(span, tuple) else span
    return (lambda k: draw_ms(span, *seed_parts, k)) if max_ms > 0 else None
