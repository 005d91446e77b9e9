"""The scripted response to a request, before a dialect encodes it.

Scenarios, mocks and synthesis create scripted responses; `render` turns them into actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from llm_proxy.faults.rule import ScenarioRule
from llm_proxy.pacing import Pace
from llm_proxy.turns import Json, Turn

TextSplitter = Callable[[str], Iterable[str]]
"""Splits a text into the pieces of a stream: none is empty, and joined they are the text."""

FailureStatus = Literal[
    "thrown", "timeout", "invalid_response", "network_error", "rate_limit", "model_error"
]

DEFAULT_FAILURE_MESSAGE: Final = "Simulated failure"
"""The message of a failure without one."""


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
