"""Validators for rules that types cannot express.

Some rules hold for structs with mistakes too, and so take the valid members of an object.
"""

from __future__ import annotations

import base64
import binascii
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any, Final

import msgspec
from msgspec import UNSET

from llm_proxy import dialects
from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.rule import FaultRulesFile
from llm_proxy.pacing import parse_pace
from llm_proxy.scenario.documents.document import (
    ANY_TURN,
    FAILURE_STATUSES,
    SIGNATURE_FIELDS,
    ChunkSpec,
    MockSpec,
    PartsResponse,
    ReActResponse,
    ReasoningSpec,
    Scenario,
    ScenarioMatch,
    ScenarioTurn,
    ToolCallPartSpec,
    ToolCallSpec,
    ToolCallsResponse,
    ValueCondition,
    default_call_id,
)
from llm_proxy.scenario.documents.mistakes import StructFinding
from llm_proxy.scenario.documents.names import choice_message
from llm_proxy.scenario.documents.parsing import Node, plain_value

_Findings = Iterator[StructFinding]
_TextWithPath = tuple[tuple[str | int, ...], str]

_BASE64_SIGNATURE_KEYS: Final = tuple(
    dict.fromkeys(
        key
        for dialect in dialects.DIALECTS
        if dialect.metadata_names.has_base64_signatures
        for key in dialect.metadata_names.read_keys
    )
)
"""The keys of `provider_metadata` under which a signature must be base64."""
_LIKELY_TEMPLATE: Final = re.compile(r"\{\{[ \t]*(?:\$.{0,500}?|[^\s{}:$][^{}:\n]*)\}\}")
"""`{{ … }}` that is probably meant as a template, unlike `style={{ color: "red" }}` in code."""
_MAX_REASON_CHARS: Final = 100
"""The most characters of an error's reason in a message."""
_MAX_REPEAT: Final = re.compile(r"\{(?:\d*,)?(\d+)")
"""Captures the upper bound of a counted repetition."""
_MAX_COPIES: Final = 100_000
"""The most copies of a part of an expression, if all counted repetitions are nested: some 60 MB."""


def validate(struct_type: type, members: Mapping[str, Node], struct: object) -> _Findings:
    """The findings in the valid members of an object, and in its struct; None if incomplete."""
    if struct_type is Scenario:
        yield from _check_turn_numbers(members, is_complete=struct is not None)
    if struct_type in (Scenario, ScenarioTurn, FaultRulesFile):
        yield from _check_fault_rules(members, is_in_scenario=struct_type is not FaultRulesFile)
    match struct:
        case Scenario():
            if struct.id != struct.id.strip():
                yield StructFinding(
                    ("id",),
                    "the id starts or ends with white space, so no message can match it; remove "
                    "the white space",
                )
            yield from _check_pace(struct.pace)
            yield from _check_templates(struct)
        case ScenarioTurn():
            yield from _check_failure(struct)
            yield from _check_pace(struct.pace)
            yield from _check_call_ids(struct)
        case ScenarioMatch():
            yield from _check_regex("user", struct.user)
            yield from _check_regex("system", struct.system)
            if struct.json:
                yield from _check_json_paths(struct.json)
        case ValueCondition():
            yield from _check_regex("matches", struct.matches)
        case ReActResponse(action="", final_answer=""):
            message = "the response is empty; set action or final_answer"
            yield StructFinding((), message)
        case ReasoningSpec():
            yield from _check_signature(struct)
        case ChunkSpec():
            yield from _check_span("delay_ms", struct.delay_ms)
        case MockSpec():
            for name in ("thinking_ms", "delay_ms", "chunk_delay_ms"):
                yield from _check_span(name, getattr(struct, name))
            if struct.thinking_ms is not UNSET and struct.delay_ms is not UNSET:
                message = "ignored because thinking_ms is set too; remove one of the fields"
                yield StructFinding(("delay_ms",), message, "warning")
            texts = _iterate_texts(msgspec.to_builtins(struct), ())
            yield from _find_unused_templates(texts, "use a scenario with templates: true")
        case _:
            pass


def _check_turn_numbers(scenario: Mapping[str, Node], *, is_complete: bool) -> _Findings:
    """Find duplicate turn numbers; with `is_complete` also missing ones."""
    if "turns" not in scenario:
        return
    line_by_turn: dict[int | str, int] = {}
    for index, step in enumerate(scenario["turns"].value):
        turn = step.value.get("turn") if step.value else None
        if turn is None:
            continue
        if turn.value in line_by_turn:
            yield StructFinding(
                ("turns", index, "turn"),
                f"duplicate turn {turn.value}; the first one is at line {line_by_turn[turn.value]}",
            )
        line_by_turn.setdefault(turn.value, turn.place.line)
    if not is_complete:
        return
    if not line_by_turn:
        yield StructFinding(
            ("turns",), "the scenario has no turns, so every request fails", "warning"
        )
    elif ANY_TURN not in line_by_turn:
        numbers = {turn for turn in line_by_turn if isinstance(turn, int)}
        missing = next((n for n in range(1, max(numbers)) if n not in numbers), None)
        if missing is not None:
            message = f"turn {missing} is missing; requests for turn {missing} will not match"
            yield StructFinding(("turns",), message, "warning")


def _check_fault_rules(members: Mapping[str, Node], *, is_in_scenario: bool) -> _Findings:
    """Find rules that the grammar rejects, and in a scenario those for listeners."""
    rules = plain_value(members["faults"]) if "faults" in members else ()
    for index, item in enumerate(rules):
        if item is None:
            continue  # its type is a mistake that is already reported
        try:
            rule = parse_rule(item)
        except UsageError as error:
            yield StructFinding(("faults", index), str(error))
        else:
            if is_in_scenario and rule.kind.scope == "listener":
                yield StructFinding(
                    ("faults", index),
                    f"the fault '{rule.kind.name}' cannot be used in a scenario; use --fault or "
                    "PUT /_proxy/faults",
                )


def _check_pace(pace: str) -> _Findings:
    if pace.strip():
        try:
            parse_pace(pace)
        except UsageError as error:
            yield StructFinding(("pace",), str(error))


def _check_templates(scenario: Scenario) -> _Findings:
    """Find invalid templates, or those that are not enabled."""
    texts = [
        path_and_text
        for index, step in enumerate(scenario.turns)
        for path_and_text in _iterate_texts(
            msgspec.to_builtins(step.response), ("turns", index, "response")
        )
    ]
    if not scenario.templates:
        yield from _find_unused_templates(texts, "set templates: true in the scenario")
        return
    from llm_proxy.scenario.generation import templates  # noqa: PLC0415 # 0.03 s, and few documents need it

    for path, text in texts:
        if error := templates.template_error(text):
            yield StructFinding(path, error)


def _find_unused_templates(texts: Iterable[_TextWithPath], advice: str) -> _Findings:
    """Find texts with a template that is not replaced."""
    for path, text in texts:
        if template := _LIKELY_TEMPLATE.search(text):
            shown_template = printable_excerpt(template[0], _MAX_REASON_CHARS)
            message = f"{shown_template} is sent unchanged; to replace templates, {advice}"
            yield StructFinding(path, message, "warning")


def _iterate_texts(value: Any, path: tuple[str | int, ...]) -> Iterator[_TextWithPath]:
    match value:
        case str():
            yield path, value
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _iterate_texts(item, (*path, index))
        case dict():
            for name, item in value.items():
                yield from _iterate_texts(item, (*path, name))
        case _:
            pass


def _check_failure(step: ScenarioTurn) -> _Findings:
    """Find an unknown status, and failure fields of a turn that never fails."""
    if step.failure_status and step.failure_status not in FAILURE_STATUSES:
        yield StructFinding(
            ("failure_status",),
            f"treated as model_error: {choice_message(step.failure_status, FAILURE_STATUSES)}",
            "lint",
        )
    is_set_by_field = {
        "failure_throws": step.failure_throws,
        "failure_status": bool(step.failure_status),
        "failure_message": bool(step.failure_message),
        "failure_retryable": not step.failure_retryable,
        "failure_retry_after_ms": step.failure_retry_after_ms is not None,
        "failure_error": bool(step.failure_error),
    }
    for name, is_set in is_set_by_field.items():
        if is_set and not step.failures_before_success:
            message = (
                f"{name} has no effect because failures_before_success is 0; set "
                "failures_before_success to the number of failures"
            )
            yield StructFinding((name,), message, "warning")


def _check_json_paths(paths: Iterable[str]) -> _Findings:
    from llm_proxy import json_paths  # noqa: PLC0415 # 0.03 s, and few documents need it

    for path in paths:
        try:
            json_paths.compile_path(path)
        except ValueError as error:
            reason = printable_excerpt(str(error), _MAX_REASON_CHARS)
            yield StructFinding(
                ("json", path),
                f"not a valid JSONPath: {reason}; example: $.messages[0].content",
            )


def _check_regex(field: str, pattern: str) -> _Findings:
    if not pattern:
        return
    import regex  # noqa: PLC0415 # few documents need it

    counts = (int(value) for value in _MAX_REPEAT.findall(pattern))
    if prod(max(1, count) for count in counts) > _MAX_COPIES:  # `regex` copies a counted part
        yield StructFinding(
            (field,), "the regular expression is too large; reduce the repetition counts in {…}"
        )
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that may change its meaning
            regex.compile(pattern)
    except regex.error as error:
        yield StructFinding(
            (field,),
            f"invalid regular expression: {error}; put \\ before special characters",
        )
    except (OverflowError, RecursionError):
        yield StructFinding((field,), "the regular expression is too large")


def _check_call_ids(step: ScenarioTurn) -> _Findings:
    """Find repeated ids in the response of a turn; those of `any` turn are checked as turn 1's."""
    items: Iterable[object]
    match step.response:
        case ToolCallsResponse(tool_calls=items):
            field = "tool_calls"
        case PartsResponse(parts=items):
            field = "parts"
        case _:
            return
    turn = 1 if step.turn == ANY_TURN else step.turn
    seen: set[str] = set()
    for index, call in enumerate(items):
        if not isinstance(call, ToolCallSpec | ToolCallPartSpec):
            continue
        call_id = call.call_id or default_call_id(turn, index + 1)
        if call_id in seen:
            yield StructFinding(
                ("response", field, index),
                f"two calls of this response have the id {call_id}, so their results cannot be "
                "distinguished",
                "warning",
            )
        seen.add(call_id)


def _check_signature(reasoning: ReasoningSpec) -> _Findings:
    for provider in _BASE64_SIGNATURE_KEYS:
        fields: Mapping[str, Any] = reasoning.provider_metadata.get(provider, {})
        for name in SIGNATURE_FIELDS:
            signature = fields.get(name)
            try:
                if isinstance(signature, str):
                    base64.b64decode(signature.replace("-", "+").replace("_", "/"), validate=True)
            except binascii.Error:
                yield StructFinding(
                    ("provider_metadata", provider, name),
                    "not valid base64; Gemini clients reject this signature",
                    "warning",
                )


def _check_span(name: str, span: object) -> _Findings:
    """Find a span `[least, most]` in the wrong order."""
    if isinstance(span, tuple) and span[0] > span[1]:
        low, high = (f"{number:g}" for number in span)
        yield StructFinding(
            (name,), f"the minimum {low} is greater than the maximum {high}; write [{high}, {low}]"
        )
