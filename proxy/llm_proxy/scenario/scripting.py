"""Computes the scripted response of a scenario or a mock, in the order of document 000.

Scenario, context, turn, tools, temperature, top_p, reasoning, failures, response: the first check
that fails decides, with the message of that document, and consumes no failure.

A mock answers every request, with the options of document 004: `replies` take precedence over
`reply`, and that over `respond`; without any of them the mock echoes the last user text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from math import isfinite
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import UNSET

from llm_proxy import dialects
from llm_proxy.conversation import Conversation
from llm_proxy.dialects.encoding import token_pieces
from llm_proxy.dialects.estimates_and_fakes import estimated_token_count
from llm_proxy.dialects.lenient_json import compact_json
from llm_proxy.errors import JsonPathTooManySteps
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.faults.rule import ScenarioRule
from llm_proxy.pacing import parse_pace
from llm_proxy.scenario.choosing import ChosenScenario, MatchContext, context_visible_to_scenario
from llm_proxy.scenario.documents.document import (
    ANY_TURN,
    FAILURE_STATUSES,
    SIGNATURE_FIELDS,
    ChunkSpec,
    FailureStatus,
    FinalReportResponse,
    MockReply,
    MockSpec,
    PartsResponse,
    ReActResponse,
    ReasoningPartSpec,
    ReasoningSpec,
    RefusalPartSpec,
    Response,
    Scenario,
    ScenarioTurn,
    StructuredResponse,
    TextPartSpec,
    TextResponse,
    ToolCallPartSpec,
    ToolCallSpec,
    ToolCallsResponse,
    UsageSpec,
    default_call_id,
)
from llm_proxy.scenario.generation import generated_values, templates
from llm_proxy.scenario.scripted_response import (
    DEFAULT_FAILURE_MESSAGE,
    FailResponse,
    RefuseMismatch,
    ReportScriptExhausted,
    ScriptedResponse,
    SendTurns,
    draw_ms,
    gap_ms_drawer,
    text_splitter,
)
from llm_proxy.take_numbers import RequestCounter
from llm_proxy.turns import (
    FinishReason,
    Json,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Turn,
    Usage,
)

OnMismatch = Literal["auto", "report", "error"]
"""What a client receives for a request that no scenario expects: a final report, an HTTP error, or
the report only if the client declares the report's tool."""

_ORIGIN_NAME: Final = "test-llm"
"""The origin of error turns in the journal, and the prefix of that of scenarios."""
_UNNAMED_MOCK: Final = MockSpec().name
_TOLERANCE: Final = Decimal("0.000001")
_INTERNAL_TOOL_PREFIX: Final = "agent__"
"""The prefix of an agent's internal tools, which no request offers."""
_SPECIAL_TOKEN: Final = re.compile(r"<\|.*?\|>")
_UNSAFE_NAME_CHAR: Final = re.compile(r"[^A-Za-z0-9_-]")
_PLAIN_EXPONENTS: Final = range(-6, 21)
"""Exponents of numbers that JavaScript prints in plain decimal notation."""
_FINAL_REPORT_CALL_ID: Final = "agent-final-report"
_FINAL_REPORT_TOOL: Final = "agent__final_report"
_DEFAULT_INPUT_TOKENS: Final = 64
_DEFAULT_OUTPUT_TOKENS: Final = 32
"""The default token counts of a response without scripted `usage`."""
_MAX_EXACT_INT: Final = 2**53

_REDACTED_FIELDS: Final = (
    *("redactedData", "redacted_data", "data"),
    *("encrypted_content", "encryptedContent", "reasoningEncryptedContent"),
)

_FINISH_BY_REASON: Final = {
    reason: finish
    for finish, reasons in (
        (FinishReason.STOP, "stop end_turn eos complete completed"),
        (FinishReason.LENGTH, "length max_tokens max_output_tokens"),
        (FinishReason.TOOL_CALLS, "tool_calls tool_call tool_use function_call"),
        (FinishReason.CONTENT_FILTER, "content_filter safety"),
        (FinishReason.STOP_SEQUENCE, "stop_sequence"),
        (FinishReason.REFUSAL, "refusal"),
        (FinishReason.CONTEXT_FULL, "model_context_window_exceeded"),
        (FinishReason.PAUSED, "pause_turn"),
        (FinishReason.ERROR, "error"),
    )
    for reason in reasons.split()
}
"""Finish reasons of all providers, in lower case with underscores."""


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
        status: FailureStatus = "model_error"
        if step.failure_throws:
            status = "thrown"
        elif step.failure_status in FAILURE_STATUSES:
            status = cast("FailureStatus", step.failure_status)
        failure = FailResponse(
            status,
            step.failure_message or DEFAULT_FAILURE_MESSAGE,
            step.failure_retryable,
            step.failure_retry_after_ms,
            step.failure_error or None,
        )
        progress = f"failure {failure_number} of {step.failures_before_success}"
        note = f"{progress}: {failure.failure_status}, {failure.message}"
        return ScriptedResponse(failure, checked.origin, journal_notes=(*notes, note))
    response: Response = step.response
    warnings: tuple[str, ...] = ()
    if scenario.templates:
        try:
            filled, warnings = templates.fill_templates(msgspec.to_builtins(response), context.body)
        except JsonPathTooManySteps as error:
            return error_turn_response(f"{checked.origin}: {error}", context, checked.origin, notes)
        response = msgspec.convert(filled, Response)
    send_turns = _send_turns_action(step.chunks or scenario.chunks, response, context)
    pace = step.pace.strip() or scenario.pace.strip()
    fault_rules: tuple[ScenarioRule, ...] = ()
    if checked.fallback_reason:
        warnings = (*warnings, checked.fallback_reason)
    else:
        faults_by_owner = {
            f"{scenario.id}, turn {step.turn}": step.faults,
            scenario.id: scenario.faults,
        }
        fault_rules = tuple(
            ScenarioRule(rule, f"{owner}, fault {number}")
            for owner, faults in faults_by_owner.items()
            for number, rule in enumerate(parse_rules(faults) if faults else (), 1)
        )
    return ScriptedResponse(
        replace(send_turns, pace=parse_pace(pace) if pace else None),
        checked.origin,
        checked.fallback_reason,
        warnings,
        notes,
        response.provider_metadata or None,
        fault_rules=fault_rules,
        failure_kind=f"no such turn: {scenario.id}" if checked.fallback_reason else "",
    )


def error_turn_response(
    message: str, context: MatchContext, origin: str = _ORIGIN_NAME, notes: tuple[str, ...] = ()
) -> ScriptedResponse:
    """The error turn for a request that no scenario answers or that fails a check."""
    report = f"# Test Harness Error\n\n{message}"
    response = _failure_report("Scenario validation failed.", report)
    send_turns = _send_turns_action(None, response, context)
    return ScriptedResponse(send_turns, origin, message, (message,), notes)


def apply_on_mismatch(
    response: ScriptedResponse, conversation: Conversation, on_mismatch: OnMismatch
) -> ScriptedResponse:
    """The response, with an HTTP error in place of a final report that is not to be sent.

    An agent that receives a call of a tool it never declared sends requests without end.
    """
    tool_names = (sanitize_tool_name(tool.name) for tool in conversation.tools)
    sends_report = on_mismatch == "report" or (
        on_mismatch == "auto" and _FINAL_REPORT_TOOL in tool_names
    )
    if sends_report or not response.session_failure_reason:
        return response
    return replace(response, scripted_action=RefuseMismatch(response.session_failure_reason))


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
        message += " (the request does not set it; some SDKs never do)"
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


def _send_turns_action(
    chunks: ChunkSpec | None, response: Response, context: MatchContext
) -> SendTurns:
    # Only signatures from the scenario: document 000 strips reasoning that lacks one.
    return SendTurns(
        (turn_from_scripted_response(response, context),),
        text_splitter(chunks),
        gap_ms=gap_ms_drawer(chunks.delay_ms, context.seed, "gap") if chunks else None,
        signs_reasoning=False,
    )


def _failure_report(assistant_text: str, report_content: str) -> FinalReportResponse:
    return FinalReportResponse(
        assistant_text=assistant_text,
        report_content=report_content,
        report_format="markdown",
        status="failure",
    )


def turn_from_scripted_response(response: Response, context: MatchContext) -> Turn:
    """The turn of a scripted response, for the dialect and model of the request.

    Raises `NotRepresentable` if a value must be generated for a schema that nothing satisfies.
    """
    content = response.reasoning_content
    content_items = content if isinstance(content, tuple) else () if content is None else (content,)
    reasoning = (
        ReasoningSpec(text=item) if isinstance(item, str) else item
        for item in (*response.reasoning, *content_items)
    )
    parts = (
        *(_reasoning_part(item, context) for item in reasoning),
        *_response_parts(response, context),
    )
    finish_reason, raw_reason = parse_finish_reason(response.finish_reason, parts)
    return Turn(
        parts,
        finish_reason,
        raw_reason,
        scripted_usage(response.usage),
        model=context.model,
        metadata=_provider_metadata(response.provider_metadata, context),
    )


def parse_finish_reason(reason: str, parts: tuple[Part, ...]) -> tuple[FinishReason, str]:
    """The finish reason, and the raw text if it is an unknown one.

    Without a `reason`, `TOOL_CALLS` if a part is a tool call, else `STOP`.
    """
    if not reason:
        has_tool_call = any(isinstance(part, ToolCall) for part in parts)
        return (FinishReason.TOOL_CALLS if has_tool_call else FinishReason.STOP), ""
    finish = _FINISH_BY_REASON.get(reason.lower().replace("-", "_"))
    return (FinishReason.OTHER, reason) if finish is None else (finish, "")


def scripted_usage(
    usage: UsageSpec,
    default_input: int = _DEFAULT_INPUT_TOKENS,
    default_output: int = _DEFAULT_OUTPUT_TOKENS,
) -> Usage:
    """Token counts; the default for what is not scripted, and the sum as the total."""
    input_tokens = default_input if usage.input is None else usage.input
    output_tokens = default_output if usage.output is None else usage.output
    total_tokens = input_tokens + output_tokens if usage.total is None else usage.total
    return Usage(
        input_tokens,
        output_tokens,
        total_tokens,
        usage.cache_read,
        usage.cache_write,
        usage.reasoning,
    )


def _reasoning_part(reasoning: ReasoningSpec, context: MatchContext) -> Reasoning:
    """The reasoning part, with the signature and redacted content for this dialect."""
    fields = dict(_provider_metadata(reasoning.provider_metadata, context))
    texts = {name: value for name, value in fields.items() if isinstance(value, str) and value}
    signature, redacted = (
        next((texts[name] for name in names if name in texts), None)
        for names in (SIGNATURE_FIELDS, _REDACTED_FIELDS)
    )
    known_names = {*SIGNATURE_FIELDS, *_REDACTED_FIELDS}
    other_fields = tuple(item for item in fields.items() if item[0] not in known_names)
    return Reasoning(reasoning.text, signature, redacted, other_fields)


def _provider_metadata(
    metadata_by_provider: Mapping[str, Mapping[str, Any]], context: MatchContext
) -> Metadata:
    """The (name, value) pairs under the keys of this dialect, then of the provider."""
    dialect = dialects.dialect_named(context.dialect)
    keys = dict.fromkeys((*dialect.metadata_names.read_keys, context.provider))
    return tuple(item for key in keys for item in metadata_by_provider.get(key, {}).items())


def _response_parts(response: Response, context: MatchContext) -> Iterator[Part]:
    match response:
        case TextResponse(assistant_text=text):
            yield Text(text)
        case ToolCallsResponse(assistant_text=leading_text, tool_calls=calls):
            if leading_text:
                yield Text(leading_text)
            for index, call in enumerate(calls):
                if call.assistant_text:
                    yield Text(call.assistant_text)
                yield _tool_call(call, index, context)
        case FinalReportResponse():
            if response.assistant_text:
                yield Text(response.assistant_text)
            arguments = {"status": response.status}
            if response.report_format:
                arguments["report_format"] = response.report_format
            arguments["report_content"] = response.report_content
            if response.report_content_json is not UNSET:
                arguments["content_json"] = response.report_content_json
            yield ToolCall(_FINAL_REPORT_CALL_ID, _FINAL_REPORT_TOOL, json_stringify(arguments))
        case StructuredResponse(values=values):
            generated: Json = dict(values)
            if (schema := context.conversation.response_schema) is not None:
                generated = generated_values.make_value(schema, context.seed, values)
            yield Text(json_stringify(generated))
        case ReActResponse():
            yield Text(react_text(response))
        case PartsResponse(parts=parts):
            for index, part in enumerate(parts):
                match part:
                    case TextPartSpec(text=text):
                        yield Text(text)
                    case ReasoningPartSpec():
                        yield _reasoning_part(part, context)
                    case RefusalPartSpec(text=text):
                        yield Refusal(text)
                    case ToolCallPartSpec():
                        yield _tool_call(part, index, context)


def react_text(react_response: ReActResponse) -> str:
    """The ReAct text that clients parse (document 002): one line per field, without empty fields.

    Line ends within thought and action are removed: the client's parser reads only the first line.
    An action always has an input, followed by a line end.
    """
    thought, action = (
        " ".join(line.strip() for line in text.splitlines()).strip()
        for text in (react_response.thought, react_response.action)
    )
    final_answer = react_response.final_answer.strip()
    lines = [f"Thought: {thought}"] if thought else []
    if action:
        arguments = compact_json(dict(react_response.action_input))
        lines += [f"Action: {action}", f"Action Input: {arguments}"]
    if final_answer:
        lines.append(f"Final Answer: {final_answer}")
    elif action or thought:
        lines.append("")
    return "\n".join(lines)


def _tool_call(
    call: ToolCallSpec | ToolCallPartSpec, index: int, context: MatchContext
) -> ToolCall:
    """A call; its arguments "made" are generated for the schema of the request's tool."""
    arguments: Json = {}
    if not isinstance(call.arguments, str):
        arguments = dict(call.arguments)
    else:
        tools = (tool for tool in context.conversation.tools if tool.name == call.tool_name)
        if (tool := next(tools, None)) is not None and tool.parameters_schema is not None:
            arguments = generated_values.make_value(tool.parameters_schema, context.seed)
    call_id = call.call_id or default_call_id(context.conversation.turn, index + 1)
    return ToolCall(call_id, call.tool_name, json_stringify(arguments))


def json_stringify(value: Any) -> str:
    """JSON as `JSON.stringify` writes it: compact, in the order given, 1.0 as 1."""
    return compact_json(_convert_integral_floats(value))


def _convert_integral_floats(value: Any) -> Json:
    match value:
        case float() if value.is_integer() and abs(value) < _MAX_EXACT_INT:
            return int(value)
        case dict():
            return {name: _convert_integral_floats(member) for name, member in value.items()}
        case list() | tuple():
            return [_convert_integral_floats(item) for item in value]
        case _:
            unchanged: Json = value
            return unchanged


def mock_response(
    mock: MockSpec, number: int, context: MatchContext, function_reply: MockReply | None = None
) -> ScriptedResponse:
    """The response of a mock to the call with this number in its session, from 1.

    `ReportScriptExhausted` after the last of its `replies`.  `function_reply` is that of the
    operator's function (`respond`); None if there is none.
    """
    origin = "mock" if mock.name == _UNNAMED_MOCK else f"mock {mock.name}"
    if mock.replies is not UNSET:
        if number > len(mock.replies):
            replies = "1 reply" if len(mock.replies) == 1 else f"{len(mock.replies)} replies"
            message = (
                f"The mock {mock.name!r} has {replies}, but this is request {number}; add a reply "
                "or send fewer requests."
            )
            return ScriptedResponse(ReportScriptExhausted(message), origin)
        scripted: str | MockReply = mock.replies[number - 1]
    elif mock.reply is not UNSET:
        scripted = mock.reply
    else:
        scripted = function_reply or context.conversation.last_user_text
    reply = MockReply(content=scripted) if isinstance(scripted, str) else scripted
    tool_calls = (
        ToolCall(
            call.id or default_call_id(context.conversation.turn, call_number),
            call.name,
            json_stringify(call.args),
        )
        for call_number, call in enumerate(reply.tool_calls, 1)
    )
    parts: tuple[Part, ...] = (*((Text(reply.content),) if reply.content else ()), *tool_calls)
    stop_reason = reply.stop_reason or mock.stop_reason
    finish_reason, raw_reason = parse_finish_reason(stop_reason, parts)
    usage = scripted_usage(
        mock.usage if reply.usage is None else reply.usage,
        estimated_token_count(context.conversation.prompt),
        estimated_token_count(reply.content),
    )
    turn = Turn(parts, finish_reason, raw_reason, usage, model=context.model)
    thinking = mock.delay_ms if mock.thinking_ms is UNSET else mock.thinking_ms
    send_turns = SendTurns(
        (turn,),
        token_pieces,
        0.0 if thinking is UNSET else draw_ms(thinking, context.seed, "thinking"),
        gap_ms_drawer(mock.chunk_delay_ms, context.seed, "gap"),
    )
    return ScriptedResponse(send_turns, origin)
