"""Computes the scripted response, in the order of document 000.

Scenario, context, turn, tools, temperature, top_p, reasoning, failures, response: the first check
that fails decides, with the message of that document, and consumes no failure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from math import isfinite
from typing import Final, cast

import msgspec

from llm_proxy.conversation import Conversation
from llm_proxy.errors import JsonPathTooManySteps
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.faults.rule import ScenarioRule
from llm_proxy.pacing import parse_pace
from llm_proxy.scenario.documents.document import (
    ANY_TURN,
    FAILURE_STATUSES,
    ChunkSpec,
    FailureStatus,
    FinalReportResponse,
    Response,
    Scenario,
    ScenarioTurn,
)
from llm_proxy.scenario.engine.choosing import ChosenScenario
from llm_proxy.scenario.engine.matcher import MatchContext, context_visible_to_scenario
from llm_proxy.scenario.engine.turns import turn_from_scripted_response
from llm_proxy.scenario.generation import templates
from llm_proxy.scenario.scripted_response import (
    DEFAULT_FAILURE_MESSAGE,
    FailResponse,
    ResponseTiming,
    ScriptedResponse,
    SendTurns,
    gap_ms_drawer,
    text_splitter,
)
from llm_proxy.take_numbers import RequestCounter

_ORIGIN_NAME: Final = "test-llm"
"""The origin of error turns in the journal, and the prefix of that of scenarios."""
_TOLERANCE: Final = Decimal("0.000001")
_INTERNAL_TOOL_PREFIX: Final = "agent__"
"""The prefix of an agent's internal tools, which no request offers."""
_SPECIAL_TOKEN: Final = re.compile(r"<\|.*?\|>")
_UNSAFE_NAME_CHAR: Final = re.compile(r"[^A-Za-z0-9_-]")
_PLAIN_EXPONENTS: Final = range(-6, 21)
"""Exponents of numbers that JavaScript prints in plain decimal notation."""


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
    chosen: ChosenScenario, context: MatchContext, failure_counter: RequestCounter
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
    scenario = chosen.located_scenario.value
    context, notes = context_visible_to_scenario(scenario, context)
    conversation = context.conversation
    origin = f"{_ORIGIN_NAME}: {scenario.id}, turn {conversation.turn}"
    if (error_message := check_system_prompt(scenario, conversation)) is not None:
        return error_turn_response(error_message, context, origin, notes)
    steps = {step.turn: step for step in scenario.turns}
    step = steps.get(conversation.turn) or steps.get(ANY_TURN)
    fallback_reason = ""
    if step is None:
        turn_numbers = ", ".join(map(str, steps)) or "none"
        fallback_reason = (
            f"Scenario {scenario.id} has no turn {conversation.turn}; its turns: {turn_numbers}."
        )
        report = f"# Scenario Failure\n\n{fallback_reason}"
        step = ScenarioTurn(
            turn=conversation.turn,
            response=_failure_report("Encountered scenario mismatch.", report),
        )
    if (error_message := check_expectations(step, conversation)) is not None:
        return error_turn_response(error_message, context, origin, notes)
    return CheckedRequest(scenario, step, context, origin, fallback_reason, notes)


def next_failure_number(checked: CheckedRequest, failure_counter: RequestCounter) -> int | None:
    """Count an attempt at this step: the number of its failure, from 1; None if it succeeds."""
    max_failures = checked.scenario_turn.failures_before_success
    if not max_failures:
        return None
    context = checked.match_context
    step_key = "\0".join((checked.scenario.id, str(context.conversation.turn), context.provider))
    number = failure_counter.next_ordinal(context.session, step_key)
    return number if number <= max_failures else None


def response_or_failure(checked: CheckedRequest, failure_number: int | None) -> ScriptedResponse:
    """The failure with this number; with None, the response.

    Raises `NotRepresentable` if a value must be generated for a schema that nothing satisfies.
    """
    scenario, step, context = checked.scenario, checked.scenario_turn, checked.match_context
    notes = checked.journal_notes
    if failure_number is not None:
        failure = _scripted_failure(step)
        progress = f"failure {failure_number} of {step.failures_before_success}"
        note = f"{progress}: {failure.failure_status}, {failure.message}"
        return ScriptedResponse(failure, checked.origin, journal_notes=(*notes, note))
    response: Response = step.response
    warnings: tuple[str, ...] = ()
    if scenario.templates:
        try:
            filled = templates.fill_templates(msgspec.to_builtins(response), context.body)
        except JsonPathTooManySteps as error:
            return error_turn_response(f"{checked.origin}: {error}", context, checked.origin, notes)
        response, warnings = msgspec.convert(filled.value, Response), filled.warnings
    send_turns = _send_turns_action(step.chunks or scenario.chunks, response, context)
    pace = step.pace.strip() or scenario.pace.strip()
    fault_rules: tuple[ScenarioRule, ...] = ()
    if checked.fallback_reason:
        warnings = (*warnings, checked.fallback_reason)
    else:
        fault_rules = _scripted_fault_rules(scenario, step)
    return ScriptedResponse(
        replace(send_turns, pace=parse_pace(pace) if pace else None),
        checked.origin,
        checked.fallback_reason,
        warnings,
        notes,
        response.provider_metadata or None,
        fault_rules=fault_rules,
    )


def error_turn_response(
    message: str, context: MatchContext, origin: str = _ORIGIN_NAME, notes: tuple[str, ...] = ()
) -> ScriptedResponse:
    """The error turn for a request that no scenario answers or that fails a check."""
    report = f"# Test Harness Error\n\n{message}"
    response = _failure_report("Scenario validation failed.", report)
    send_turns = _send_turns_action(None, response, context)
    return ScriptedResponse(send_turns, origin, message, (message,), notes)


def check_system_prompt(scenario: Scenario, conversation: Conversation) -> str | None:
    """The message if the system prompt lacks a required fragment; else None."""
    required = scenario.system_prompt_must_include
    missing = [fragment for fragment in required if fragment not in conversation.system]
    return f"System prompt missing: {', '.join(missing)}" if missing else None


def check_expectations(step: ScenarioTurn, conversation: Conversation) -> str | None:
    """The message of the first failed check of tools, temperature, top_p and reasoning, or None."""
    if not step.allow_missing_tools:
        offered = {sanitize_tool_name(tool.name) for tool in conversation.tools}
        missing = [
            name
            for name in step.expected_tools
            if not name.startswith(_INTERNAL_TOOL_PREFIX)
            and sanitize_tool_name(name) not in offered
        ]
        if missing:
            return f"Expected tools not available: {', '.join(missing)}"
    if message := (
        _check_number("temperature", step.expected_temperature, conversation.temperature)
        or _check_number("topP", step.expected_top_p, conversation.top_p)
    ):
        return message
    match step.expected_reasoning:
        case "enabled" if not conversation.reasoning_enabled:
            return "Expected reasoning to remain enabled"
        case "disabled" if conversation.reasoning_enabled:
            return "Expected reasoning to be disabled"
        case _:
            return None


def sanitize_tool_name(name: str) -> str:
    """A tool name without `<|…|>` tokens, outer white space, and unsafe characters."""
    return _UNSAFE_NAME_CHAR.sub("_", _SPECIAL_TOKEN.sub("", name).strip())


def _check_number(name: str, expected: float | None, actual: float | None) -> str | None:
    """Numbers may differ by 1e-6 in their decimal notation."""
    if expected is None:
        return None
    if (
        actual is not None
        and isfinite(expected)
        and abs(Decimal(str(expected)) - Decimal(str(actual))) <= _TOLERANCE
    ):
        return None
    message = (
        f"Expected {name} {_format_js_number(expected)} but received {_format_js_number(actual)}"
    )
    if actual is None:
        message += " (the request does not send it; some SDKs and models never do)"
    return message


def _format_js_number(number: float | None) -> str:
    if number is None:
        return "undefined"
    exact = Decimal(repr(float(number))).normalize()
    if not exact:
        return "0"
    if exact.adjusted() in _PLAIN_EXPONENTS:
        return f"{exact:f}"
    digits, _, exponent = f"{exact:e}".partition("e")
    return f"{digits}e{exponent}"


def _failure_report(assistant_text: str, report_content: str) -> FinalReportResponse:
    return FinalReportResponse(
        assistant_text=assistant_text,
        report_content=report_content,
        report_format="markdown",
        status="failure",
    )


def _scripted_failure(step: ScenarioTurn) -> FailResponse:
    status: FailureStatus = "model_error"
    if step.failure_throws:
        status = "thrown"
    elif step.failure_status in FAILURE_STATUSES:
        status = cast("FailureStatus", step.failure_status)
    return FailResponse(
        status,
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
        for number, rule in enumerate(parse_rules(faults) if faults else (), 1)
    )


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
        (turn_from_scripted_response(response, context),),
        text_splitter(chunks),
        timing,
        signs_reasoning=False,
    )
