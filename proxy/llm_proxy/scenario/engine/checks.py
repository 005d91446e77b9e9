"""Checks a request against its scenario's expectations, with the messages of document 000.

Every check returns the error message, or None if it passes.
"""

from __future__ import annotations

import re
from decimal import Decimal
from math import isfinite
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.scenario.documents.document import Scenario, ScenarioTurn

_TOLERANCE: Final = Decimal("0.000001")
_INTERNAL_TOOL_PREFIX: Final = "agent__"
"""The prefix of an agent's internal tools, which no request offers."""
_SPECIAL_TOKEN: Final = re.compile(r"<\|.*?\|>")
_UNSAFE_NAME_CHAR: Final = re.compile(r"[^A-Za-z0-9_-]")
_PLAIN_EXPONENTS: Final = range(-6, 21)
"""Exponents of numbers that JavaScript prints in plain decimal notation."""


def check_system_prompt(scenario: Scenario, conversation: Conversation) -> str | None:
    """Check that the system prompt contains the required fragments."""
    required = scenario.system_prompt_must_include
    missing = [fragment for fragment in required if fragment not in conversation.system]
    return f"System prompt missing: {', '.join(missing)}" if missing else None


def check_expectations(step: ScenarioTurn, conversation: Conversation) -> str | None:
    """Check tools, temperature, top_p and reasoning, in this order; the first failure counts."""
    return (
        _check_tools(step, conversation)
        or _check_number("temperature", step.expected_temperature, conversation.temperature)
        or _check_number("topP", step.expected_top_p, conversation.top_p)
        or _check_reasoning(step, conversation)
    )


def sanitize_tool_name(name: str) -> str:
    """A tool name without `<|…|>` tokens, outer white space, and unsafe characters."""
    return _UNSAFE_NAME_CHAR.sub("_", _SPECIAL_TOKEN.sub("", name).strip())


def _check_tools(step: ScenarioTurn, conversation: Conversation) -> str | None:
    if step.allow_missing_tools:
        return None
    offered = {sanitize_tool_name(tool.name) for tool in conversation.tools}
    expected = (
        expected_tool
        for expected_tool in step.expected_tools
        if not expected_tool.startswith(_INTERNAL_TOOL_PREFIX)
    )
    missing = [name for name in expected if sanitize_tool_name(name) not in offered]
    return f"Expected tools not available: {', '.join(missing)}" if missing else None


def _check_number(name: str, expected: float | None, actual: float | None) -> str | None:
    if expected is None or (actual is not None and _is_close(expected, actual)):
        return None
    message = (
        f"Expected {name} {_format_js_number(expected)} but received {_format_js_number(actual)}"
    )
    if actual is None:
        message += " (the request does not send it; some SDKs and models never do)"
    return message


def _is_close(expected: float, actual: float) -> bool:
    """Whether two numbers differ by at most 1e-6 in their decimal notation."""
    if not isfinite(expected):
        return False
    return abs(Decimal(str(expected)) - Decimal(str(actual))) <= _TOLERANCE


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


def _check_reasoning(step: ScenarioTurn, conversation: Conversation) -> str | None:
    match step.expected_reasoning:
        case "enabled" if not conversation.reasoning_enabled:
            return "Expected reasoning to remain enabled"
        case "disabled" if conversation.reasoning_enabled:
            return "Expected reasoning to be disabled"
        case _:
            return None
