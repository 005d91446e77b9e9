"""Computes the scripted response, in the order of document 000.

Scenario, context, turn, tools, temperature, top_p, reasoning, failures, answer: the first check
that fails decides, and uses up no failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from llm_proxy.errors import JsonPathTooManySteps
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.faults.rule import ScenarioRule
from llm_proxy.pacing import parse_pace
from llm_proxy.scenario.documents.document import ChunkSpec, Response, Scenario, ScenarioTurn
from llm_proxy.scenario.documents.fields import ANY
from llm_proxy.scenario.engine import checks, error_reports, turns, unsigned_reasoning
from llm_proxy.scenario.engine.choosing import ChosenScenario
from llm_proxy.scenario.engine.failure_counter import FailureCounter
from llm_proxy.scenario.engine.match_context import MatchContext
from llm_proxy.scenario.generation import templates
from llm_proxy.scenario.render.durations import gap_drawer
from llm_proxy.scenario.render.text_splitting import text_splitter
from llm_proxy.scenario.scripted_response import (
    SIMULATED,
    FailResponse,
    FailureStatus,
    ResponseTiming,
    ScriptedResponse,
    SendTurns,
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
class CheckedRequest:
    """A request that is as its scenario expects it."""

    scenario: Scenario
    step: ScenarioTurn
    cue: MatchContext
    """As the scenario sees it."""
    source: str
    mismatch: str
    """Why the step is the fallback; empty where the scenario has one."""
    notes: tuple[str, ...]


def scripted_response(
    chosen: ChosenScenario, cue: MatchContext, attempts: FailureCounter
) -> ScriptedResponse:
    """What to answer.  Raises `NotRepresentable` where an answer cannot be made of a schema."""
    checked = check_request(chosen, cue)
    if isinstance(checked, ScriptedResponse):
        return checked
    return response_or_failure(checked, take_failure(checked, attempts))


def check_request(chosen: ChosenScenario, cue: MatchContext) -> CheckedRequest | ScriptedResponse:
    """The step that answers; an error turn where the request is not as it should be."""
    scenario = chosen.located.scenario
    cue, notes = unsigned_reasoning.visible_request(scenario, cue)
    conversation = cue.conversation
    source = f"{_NAME}: {scenario.id}, turn {conversation.turn}"
    if (wrong := checks.check_system_prompt(scenario, conversation)) is not None:
        return error_turn_response(wrong, cue, source, notes)
    step, mismatch = _step_for_turn(scenario, conversation.turn)
    if (wrong := checks.check_request(step, conversation)) is not None:
        return error_turn_response(wrong, cue, source, notes)
    return CheckedRequest(scenario, step, cue, source, mismatch, notes)


def take_failure(checked: CheckedRequest, attempts: FailureCounter) -> int | None:
    """The number of the failure that this attempt is; None where it succeeds."""
    cue, turn = checked.cue, checked.cue.conversation.turn
    allowed = checked.step.failures_before_success
    return attempts.take_failure(cue.session, checked.scenario.id, turn, cue.provider, allowed)


def response_or_failure(checked: CheckedRequest, number: int | None) -> ScriptedResponse:
    """The failure of this number, or the answer.  Raises `NotRepresentable` as `direct` does."""
    step, notes = checked.step, checked.notes
    if number is not None:
        failure = _scripted_failure(step)
        failures = f"failure {number} of {step.failures_before_success}"
        note = f"{failures}: {failure.status}, {failure.message}"
        return ScriptedResponse(failure, checked.source, notes=(*notes, note))
    try:
        response, warnings = _fill_templates(checked.scenario, step, checked.cue)
    except JsonPathTooManySteps as error:
        return error_turn_response(f"{checked.source}: {error}", checked.cue, checked.source, notes)
    say = _send_turns(step.chunks or checked.scenario.chunks, response, checked.cue)
    pace = step.pace.strip() or checked.scenario.pace.strip()
    return ScriptedResponse(
        replace(say, pace=parse_pace(pace) if pace else None),
        checked.source,
        checked.mismatch,
        (*warnings, *filter(None, (checked.mismatch,))),
        notes,
        response.provider_metadata or None,
        faults=() if checked.mismatch else _scripted_faults(checked.scenario, step),
    )


def error_turn_response(
    message: str, cue: MatchContext, source: str = _NAME, notes: tuple[str, ...] = ()
) -> ScriptedResponse:
    """The answer to a request that no scenario answers, or not as it is."""
    say = _send_turns(None, error_reports.failed_check_report(message), cue)
    return ScriptedResponse(say, source, message, (message,), notes)


def _step_for_turn(scenario: Scenario, turn: int) -> tuple[ScenarioTurn, str]:
    """The step of that turn, or of any; else the fallback, with why it is one."""
    steps = {scenario_turn.turn: scenario_turn for scenario_turn in scenario.turns}
    step = steps.get(turn) or steps.get(ANY)
    if step is not None:
        return step, ""
    there = ", ".join(str(scenario_turn.turn) for scenario_turn in scenario.turns) or "none"
    message = f"Scenario {scenario.id} has no turn {turn}; its turns: {there}."
    return error_reports.mismatch_step(turn, message), message


def _scripted_failure(step: ScenarioTurn) -> FailResponse:
    return FailResponse(
        "thrown" if step.failure_throws else _STATUSES.get(step.failure_status, "model_error"),
        step.failure_message or SIMULATED,
        step.failure_retryable,
        step.failure_retry_after_ms,
        step.failure_error or None,
    )


def _scripted_faults(scenario: Scenario, step: ScenarioTurn) -> tuple[ScenarioRule, ...]:
    """What goes wrong with an answer on its way: as its turn says, then as its scenario does."""
    lists = {f"{scenario.id}, turn {step.turn}": step.faults, scenario.id: scenario.faults}
    return tuple(
        ScenarioRule(rule, f"{where}, fault {number}")
        for where, faults in lists.items()
        for number, rule in enumerate(parse_rules(faults), 1)
    )


def _fill_templates(
    scenario: Scenario, step: ScenarioTurn, cue: MatchContext
) -> tuple[Response, tuple[str, ...]]:
    """The answer with what its templates stand for, and what they stand for in vain."""
    if not scenario.templates:
        return step.response, ()
    filled = templates.fill_templates(msgspec.to_builtins(step.response), cue.body)
    return msgspec.convert(filled.fill_value, Response), filled.warnings


def _send_turns(chunks: ChunkSpec | None, response: Response, cue: MatchContext) -> SendTurns:
    timing = (
        ResponseTiming()
        if chunks is None
        else ResponseTiming(gap_ms=gap_drawer(chunks.delay_ms, cue.seed, "gap"))
    )
    # Reasoning has the seals that its author gave it: those it lacks are what document 000 strips.
    return SendTurns(
        (turns.scripted_turn(response, cue),),
        text_splitter(chunks),
        timing,
        signs_reasoning=False,
    )
