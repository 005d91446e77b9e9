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


def unsplit(text: str) -> tuple[str, ...]:
    """A text as one piece; no piece if it is empty."""
    return (text,) if text else ()


@dataclass(frozen=True, slots=True)
class ResponseTiming:
    """When a response is sent at its own pace, from the moment the request is read in full."""

    thinking_ms: float = 0.0
    """Delay before the status line."""
    gap_ms: Callable[[int], float] | None = None
    """From k to the gap in ms before piece k, for k >= 1; None for no gaps."""


@dataclass(frozen=True, slots=True)
class SendTurns:
    """Respond with these turns."""

    turns: tuple[Turn, ...]
    split_text: TextSplitter = unsplit
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

    status: FailureStatus
    message: str = DEFAULT_FAILURE_MESSAGE
    retryable: bool = True
    retry_after_ms: float | None = None
    error: Mapping[str, Json] | None = None
    """Fields for the error object; `message` wins over the message, a numeric `status` or
    `statusCode` is the HTTP status."""


@dataclass(frozen=True, slots=True)
class ReportExhausted:
    """Fail with an error because a script has no more responses (document 004)."""

    message: str


@dataclass(frozen=True, slots=True)
class ScriptedResponse:
    """The action for a request, and where it comes from."""

    action: SendTurns | FailResponse | ReportExhausted
    origin: str
    """For the journal: `test-llm: refund, turn 2`, `mock helper`, `synthesis`."""
    session_failure: str = ""
    """Why the session has failed its scenario; empty if it has not."""
    warnings: tuple[str, ...] = ()
    """For the log."""
    notes: tuple[str, ...] = ()
    """For the journal."""
    reported_metadata: Mapping[str, Mapping[str, Json]] | None = None
    """Provider metadata, by provider, that is reported with the turn."""
    is_synthesized: bool = False
    """Whether it comes from synthesis, not from a scenario or a mock."""
    faults: tuple[ScenarioRule, ...] = ()
    """Fault rules of the scenario for this response."""
