"""The scripted response to a request, before a dialect encodes it.

Scenarios, mocks and synthesis all give directions; `performing` makes actions of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from llm_proxy.faults.rule import ScenarioRule
from llm_proxy.pacing import Pace
from llm_proxy.turns import Json, Turn

Cut = Callable[[str], Iterable[str]]
"""How a text becomes the pieces of a stream: none is empty, and joined they are the text."""

FailureStatus = Literal[
    "thrown", "timeout", "invalid_response", "network_error", "rate_limit", "model_error"
]

SIMULATED: Final = "Simulated failure"
"""What a failure says that has no message of its own."""


def uncut(text: str) -> tuple[str, ...]:
    """A text in one piece."""
    return (text,) if text else ()


@dataclass(frozen=True, slots=True)
class ResponseTiming:
    """When an answer goes out, in ms since the request was read in full, at its own pace."""

    thinking_ms: float = 0.0
    """Before the status line."""
    gap_ms: Callable[[int], float] | None = None
    """The time between piece k and the one before it, from k = 1 on; None is none at all."""


@dataclass(frozen=True, slots=True)
class SendTurns:
    """Answer with these turns."""

    turns: tuple[Turn, ...]
    split_text: Cut = uncut
    timing: ResponseTiming = ResponseTiming()
    pace: Pace | None = None
    """The pace that its author wants; None where any will do."""
    turns_are_successive: bool = False
    """Whether several turns are told one after the other and finish once, as choices of one
    answer; a dialect without choices tells them as one."""
    signs_reasoning: bool = True
    """Whether reasoning without a seal is given a made one, where clients hand seals back."""


@dataclass(frozen=True, slots=True)
class FailResponse:
    """Fail as a provider does."""

    status: FailureStatus
    message: str = SIMULATED
    retryable: bool = True
    retry_after_ms: float | None = None
    error: Mapping[str, Json] | None = None
    """Fields for the error object; `message` wins over the message, a numeric `status` or
    `statusCode` is the HTTP status."""


@dataclass(frozen=True, slots=True)
class ReportExhausted:
    """A script has no more answers: its author should hear of it, loudly (document 004)."""

    message: str


@dataclass(frozen=True, slots=True)
class ScriptedResponse:
    """What to do for a request, and why."""

    action: SendTurns | FailResponse | ReportExhausted
    origin: str
    """What decided: `scenario refund, turn 2`, `mock helper`, `synthesis`."""
    unsuccessful: str = ""
    """Why the session has failed, as its author would want to know; empty where it has not."""
    warnings: tuple[str, ...] = ()
    """For the log."""
    notes: tuple[str, ...] = ()
    """For the journal."""
    reported: Mapping[str, Mapping[str, Json]] | None = None
    """Metadata of the provider's that is reported with the turn."""
    is_synthesized: bool = False
    """Whether nobody scripted it."""
    faults: tuple[ScenarioRule, ...] = ()
    """What its author lets go wrong on the way."""
