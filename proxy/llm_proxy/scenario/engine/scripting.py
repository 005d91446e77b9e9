"""Computes the scripted response, in the order of document 000.

Scenario, context, turn, tools, temperature, top_p, reasoning, failures, response: the first check
that fails decides, and consumes no failure.
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
from llm_proxy.scenario.documents.document import (
    ANY_TURN,
    ChunkSpec,
    Response,
    Scenario,
    ScenarioTurn,
)
from llm_proxy.scenario.engine import checks, error_reports, turns, unsigned_reasoning
from llm_proxy.scenario.engine.choosing import ChosenScenario
from llm_proxy.scenario.engine.failure_counter import FailureCounter
from llm_proxy.scenario.engine.match_context import MatchContext
from llm_proxy.scenario.generation import templates
from llm_proxy.scenario.pieces import gap_ms_drawer, text_splitter
from llm_proxy.scenario.scripted_response import (
    DEFAULT_FAILURE_MESSAGE,
    FailResponse,
    FailureStatus,
    ResponseTiming,
    ScriptedResponse,
    SendTurns,
)

_ORIGIN_NAME: Final = "test-llm"
"""The origin of error turns in the journal, and the prefix of that of scenarios."""
_FAILURE_STATUSES: Final[Mapping[str, FailureStatus]] = {
    "timeout": "timeout",
    "invalid_response": "invalid_response",
    "network_error": "network_error",
    "rate_limit": "rate_limit",
}
"""By `failure_status` of a scenario; any other means `model_error`."""


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request that passed the checks of its scenario."""

    scenario: Scenario
    scenario_turn: ScenarioTurn
    match_context: MatchContext
    """Without unsigned reasoning, if the scenario strips it."""
    origin: str
    fallback_reason: str
    """Why `step` is the fallback; empty if the scenario has a step for the turn."""
    journal_notes: tuple[str, ...]


def scripted_response(
    chosen: ChosenScenario, context: MatchContext, failure_counter: FailureCounter
) -> ScriptedResponse:
    """The response or the next failure.  Raises `NotRepresentable` as `response_or_failure`."""
    checked = check_request(chosen, context)
    if isinstance(checked, ScriptedResponse):
        return checked
    return response_or_failure(checked, next_failure_number(checked, failure_counter))


def check_request(
    chosen: ChosenScenario, context: MatchContext
) -> CheckedRequest | ScriptedResponse:
    """The step for a request; a response with an error turn if a check fails."""
    scenario = chosen.located_scenario.scenario
    context, notes = unsigned_reasoning.context_visible_to_scenario(scenario, context)
    conversation = context.conversation
    origin = f"{_ORIGIN_NAME}: {scenario.id}, turn {conversation.turn}"
    if (error_message := checks.check_system_prompt(scenario, conversation)) is not None:
        return error_turn_response(error_message, context, origin, notes)
    step, fallback_reason = _step_for_turn(scenario, conversation.turn)
    if (error_message := checks.check_expectations(step, conversation)) is not None:
        return error_turn_response(error_message, context, origin, notes)
    return CheckedRequest(scenario, step, context, origin, fallback_reason, notes)


def next_failure_number(checked: CheckedRequest, failure_counter: FailureCounter) -> int | None:
    """Count a failure of this step: its number from 1; None if the attempt succeeds."""
    context, turn = checked.match_context, checked.match_context.conversation.turn
    max_failures = checked.scenario_turn.failures_before_success
    return failure_counter.next_failure_number(
        context.session, checked.scenario.id, turn, context.provider, max_failures
    )


def response_or_failure(checked: CheckedRequest, failure_number: int | None) -> ScriptedResponse:
    """The failure with this number; with None, the response.

    Raises `NotRepresentable` if a value must be generated for a schema that nothing satisfies.
    """
    step, notes = checked.scenario_turn, checked.journal_notes
    if failure_number is not None:
        failure = _scripted_failure(step)
        progress = f"failure {failure_number} of {step.failures_before_success}"
        note = f"{progress}: {failure.failure_status}, {failure.message}"
        return ScriptedResponse(failure, checked.origin, journal_notes=(*notes, note))
    try:
        response, warnings = _fill_templates(checked.scenario, step, checked.match_context)
    except JsonPathTooManySteps as error:
        return error_turn_response(
            f"{checked.origin}: {error}", checked.match_context, checked.origin, notes
        )
    send_turns = _send_turns_action(
        step.chunks or checked.scenario.chunks, response, checked.match_context
    )
    pace = step.pace.strip() or checked.scenario.pace.strip()
    return ScriptedResponse(
        replace(send_turns, pace=parse_pace(pace) if pace else None),
        checked.origin,
        checked.fallback_reason,
        (*warnings, *filter(None, (checked.fallback_reason,))),
        notes,
        response.provider_metadata or None,
        fault_rules=()
        if checked.fallback_reason
        else _scripted_fault_rules(checked.scenario, step),
    )


def error_turn_response(
    message: str, context: MatchContext, origin: str = _ORIGIN_NAME, notes: tuple[str, ...] = ()
) -> ScriptedResponse:
    """The error turn for a request that no scenario answers or that fails a check."""
    send_turns = _send_turns_action(None, error_reports.failed_check_response(message), context)
    return ScriptedResponse(send_turns, origin, message, (message,), notes)


def _step_for_turn(scenario: Scenario, turn: int) -> tuple[ScenarioTurn, str]:
    """The step of this turn, or of any turn, and ""; else the fallback and its reason."""
    steps = {scenario_turn.turn: scenario_turn for scenario_turn in scenario.turns}
    step = steps.get(turn) or steps.get(ANY_TURN)
    if step is not None:
        return step, ""
    turn_numbers = ", ".join(str(scenario_turn.turn) for scenario_turn in scenario.turns) or "none"
    message = f"Scenario {scenario.id} has no turn {turn}; its turns: {turn_numbers}."
    return error_reports.missing_turn_fallback(turn, message), message


def _scripted_failure(step: ScenarioTurn) -> FailResponse:
    return FailResponse(
        "thrown"
        if step.failure_throws
        else _FAILURE_STATUSES.get(step.failure_status, "model_error"),
        step.failure_message or DEFAULT_FAILURE_MESSAGE,
        step.failure_retryable,
        step.failure_retry_after_ms,
        step.failure_error or None,
    )


def _scripted_fault_rules(scenario: Scenario, step: ScenarioTurn) -> tuple[ScenarioRule, ...]:
    """The fault rules of the turn, then those of the scenario."""
    faults_by_owner = {
        f"{scenario.id}, turn {step.turn}": step.faults,
        scenario.id: scenario.faults,
    }
    return tuple(
        ScenarioRule(rule, f"{owner}, fault {number}")
        for owner, faults in faults_by_owner.items()
        for number, rule in enumerate(parse_rules(faults), 1)
    )


def _fill_templates(
    scenario: Scenario, step: ScenarioTurn, context: MatchContext
) -> tuple[Response, tuple[str, ...]]:
    """The response with its templates filled in, and their warnings."""
    if not scenario.templates:
        return step.response, ()
    filled = templates.fill_templates(msgspec.to_builtins(step.response), context.body)
    return msgspec.convert(filled.value, Response), filled.warnings


def _send_turns_action(
    chunks: ChunkSpec | None, response: Response, context: MatchContext
) -> SendTurns:
    timing = (
        ResponseTiming()
        if chunks is None
        else ResponseTiming(compute_gap_ms=gap_ms_drawer(chunks.delay_ms, context.seed, "gap"))
    )
    # Only signatures from the scenario: document 000 strips reasoning that lacks one.
    return SendTurns(
        (turns.turn_from_scripted_response(response, context),),
        text_splitter(chunks),
        timing,
        signs_reasoning=False,
    )
