"""Checks a request against its scenario's expectations, in document 000's words."""

from __future__ import annotations

import re
from decimal import Decimal
from math import isfinite
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.scenario.documents.document import Scenario, ScenarioTurn

_TOLERANCE: Final = Decimal("0.000001")
_INTERNAL: Final = "agent__"
"""How the names of an agent's own tools begin, which no request offers."""
_MARKER: Final = re.compile(r"<\|.*?\|>")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_PLAIN: Final = range(-6, 21)
"""The powers of ten of numbers that JavaScript prints without an exponent."""


def check_system_prompt(scenario: Scenario, conversation: Conversation) -> str | None:
    """Fragments that the system prompt lacks."""
    required = scenario.system_prompt_must_include
    missing = [text for text in required if text not in conversation.system]
    return f"System prompt missing: {', '.join(missing)}" if missing else None


def check_request(step: ScenarioTurn, conversation: Conversation) -> str | None:
    """The first of tools, temperature, top_p and reasoning that is not as the step expects."""
    return (
        _check_tools(step, conversation)
        or _check_number("temperature", step.expected_temperature, conversation.temperature)
        or _check_number("topP", step.expected_top_p, conversation.top_p)
        or _check_reasoning(step, conversation)
    )


def sanitize_tool_name(name: str) -> str:
    """A tool's name as it is compared: without markers, blanks around it, and odd characters."""
    return _UNSAFE.sub("_", _MARKER.sub("", name).strip())


def _check_tools(step: ScenarioTurn, conversation: Conversation) -> str | None:
    if step.allow_missing_tools:
        return None
    offered = {sanitize_tool_name(tool.name) for tool in conversation.tools}
    expected = (
        expected_tool
        for expected_tool in step.expected_tools
        if not expected_tool.startswith(_INTERNAL)
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
    """Whether two numbers differ by 1e-6 at most, as they are spelled."""
    if not isfinite(expected):
        return False
    return abs(Decimal(str(expected)) - Decimal(str(actual))) <= _TOLERANCE


def _format_js_number(number: float | None) -> str:
    if number is None:
        return "undefined"
    exact = Decimal(repr(float(number))).normalize()
    if not exact:
        return "0"
    if exact.adjusted() in _PLAIN:
        return f"{exact:f}"
    digits, _, power = f"{exact:e}".partition("e")
    return f"{digits}e{power}"


def _check_reasoning(step: ScenarioTurn, conversation: Conversation) -> str | None:
    match step.expected_reasoning:
        case "enabled" if not conversation.reasoning_enabled:
            return "Expected reasoning to remain enabled"
        case "disabled" if conversation.reasoning_enabled:
            return "Expected reasoning to be disabled"
        case _:
            return None
