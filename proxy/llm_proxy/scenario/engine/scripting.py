"""What a scenario answers, in the order of document 000.

Scenario, context, turn, tools, temperature, top_p, reasoning, failures, answer: the first check
that fails decides, and uses up no failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from llm_proxy.errors import TooManySteps
from llm_proxy.faults.grammar import rules_of
from llm_proxy.faults.rule import ScriptedRule
from llm_proxy.pacing import parse_pace
from llm_proxy.scenario.documents.document import Chunks, Response, Scenario, Step
from llm_proxy.scenario.documents.fields import ANY
from llm_proxy.scenario.engine import checks, error_reports, history, turns
from llm_proxy.scenario.engine.choosing import Chosen
from llm_proxy.scenario.engine.failure_counter import Attempts
from llm_proxy.scenario.engine.match_context import Cue
from llm_proxy.scenario.generation import templates
from llm_proxy.scenario.render.durations import gap
from llm_proxy.scenario.render.text_splitting import cutter
from llm_proxy.scenario.scripted_response import (
    SIMULATED,
    Direction,
    Fail,
    FailureStatus,
    Say,
    Timing,
)

_NAME: Final = "test-llm"
"""What scripted answers come from, in the journal."""
_STATUSES: Final[Mapping[str, FailureStatus]] = {
    "timeout": "timeout",
    "invalid_response": "invalid_response",
    "network_error": "network_error",
    "rate_limit": "rate_limit",
}
"""What a scenario's words for a failure mean; any other means `model_error`."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A request that is as its scenario expects it."""

    scenario: Scenario
    step: Step
    cue: Cue
    """As the scenario sees it."""
    source: str
    mismatch: str
    """Why the step is the fallback; empty where the scenario has one."""
    notes: tuple[str, ...]


def direct(chosen: Chosen, cue: Cue, attempts: Attempts) -> Direction:
    """What to answer.  Raises `CannotSay` where an answer cannot be made of a schema."""
    checked = check(chosen, cue)
    if isinstance(checked, Direction):
        return checked
    return answer(checked, take_failure(checked, attempts))


def check(chosen: Chosen, cue: Cue) -> Checked | Direction:
    """The step that answers; an error turn where the request is not as it should be."""
    scenario = chosen.scripted.scenario
    cue, notes = history.view(scenario, cue)
    conversation = cue.conversation
    source = f"{_NAME}: {scenario.id}, turn {conversation.turn}"
    if (wrong := checks.context(scenario, conversation)) is not None:
        return error_turn(wrong, cue, source, notes)
    step, mismatch = _step(scenario, conversation.turn)
    if (wrong := checks.request(step, conversation)) is not None:
        return error_turn(wrong, cue, source, notes)
    return Checked(scenario, step, cue, source, mismatch, notes)


def take_failure(checked: Checked, attempts: Attempts) -> int | None:
    """The number of the failure that this attempt is; None where it succeeds."""
    cue, turn = checked.cue, checked.cue.conversation.turn
    allowed = checked.step.failures_before_success
    return attempts.take_failure(cue.session, checked.scenario.id, turn, cue.provider, allowed)


def answer(checked: Checked, number: int | None) -> Direction:
    """The failure of this number, or the answer.  Raises `CannotSay` as `direct` does."""
    step, notes = checked.step, checked.notes
    if number is not None:
        failure = _failure(step)
        failures = f"failure {number} of {step.failures_before_success}"
        note = f"{failures}: {failure.status}, {failure.message}"
        return Direction(failure, checked.source, notes=(*notes, note))
    try:
        response, warnings = _filled(checked.scenario, step, checked.cue)
    except TooManySteps as error:
        return error_turn(f"{checked.source}: {error}", checked.cue, checked.source, notes)
    say = _say(step.chunks or checked.scenario.chunks, response, checked.cue)
    pace = step.pace.strip() or checked.scenario.pace.strip()
    return Direction(
        replace(say, pace=parse_pace(pace) if pace else None),
        checked.source,
        checked.mismatch,
        (*warnings, *filter(None, (checked.mismatch,))),
        notes,
        response.provider_metadata or None,
        faults=() if checked.mismatch else _faults(checked.scenario, step),
    )


def error_turn(
    message: str, cue: Cue, source: str = _NAME, notes: tuple[str, ...] = ()
) -> Direction:
    """The answer to a request that no scenario answers, or not as it is."""
    say = _say(None, error_reports.failed_check(message), cue)
    return Direction(say, source, message, (message,), notes)


def _step(scenario: Scenario, turn: int) -> tuple[Step, str]:
    """The step of that turn, or of any; else the fallback, with why it is one."""
    steps = {it.turn: it for it in scenario.turns}
    step = steps.get(turn) or steps.get(ANY)
    if step is not None:
        return step, ""
    there = ", ".join(str(it.turn) for it in scenario.turns) or "none"
    message = f"Scenario {scenario.id} has no turn {turn}; its turns: {there}."
    return error_reports.mismatch(turn, message), message


def _failure(step: Step) -> Fail:
    """The failure that a step scripts."""
    return Fail(
        "thrown" if step.failure_throws else _STATUSES.get(step.failure_status, "model_error"),
        step.failure_message or SIMULATED,
        step.failure_retryable,
        step.failure_retry_after_ms,
        step.failure_error or None,
    )


def _faults(scenario: Scenario, step: Step) -> tuple[ScriptedRule, ...]:
    """What goes wrong with an answer on its way: as its turn says, then as its scenario does."""
    lists = {f"{scenario.id}, turn {step.turn}": step.faults, scenario.id: scenario.faults}
    return tuple(
        ScriptedRule(rule, f"{where}, fault {number}")
        for where, given in lists.items()
        for number, rule in enumerate(rules_of(given), 1)
    )


def _filled(scenario: Scenario, step: Step, cue: Cue) -> tuple[Response, tuple[str, ...]]:
    """The answer with what its templates stand for, and what they stand for in vain."""
    if not scenario.templates:
        return step.response, ()
    filled = templates.filled(msgspec.to_builtins(step.response), cue.body)
    return msgspec.convert(filled.value, Response), filled.warnings


def _say(chunks: Chunks | None, response: Response, cue: Cue) -> Say:
    timing = Timing() if chunks is None else Timing(gap=gap(chunks.delay_ms, cue.seed, "gap"))
    # Reasoning has the seals that its author gave it: those it lacks are what document 000 strips.
    return Say((turns.turn(response, cue),), cutter(chunks), timing, seals=False)
