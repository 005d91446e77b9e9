"""What a scenario expects of a request: the first thing that differs, in document 000's words."""

from __future__ import annotations

import re
from decimal import Decimal
from math import isfinite
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.scenario.documents.document import Scenario, Step

_TOLERANCE: Final = Decimal("0.000001")
_INTERNAL: Final = "agent__"
"""How the names of an agent's own tools begin, which no request offers."""
_MARKER: Final = re.compile(r"<\|.*?\|>")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_PLAIN: Final = range(-6, 21)
"""The powers of ten of numbers that JavaScript prints without an exponent."""


def context(scenario: Scenario, conversation: Conversation) -> str | None:
    """Fragments that the system prompt lacks."""
    required = scenario.system_prompt_must_include
    missing = [it for it in required if it not in conversation.system]
    return f"System prompt missing: {', '.join(missing)}" if missing else None


def request(step: Step, conversation: Conversation) -> str | None:
    """The first of tools, temperature, top_p and reasoning that is not as the step expects."""
    return (
        _tools(step, conversation)
        or _number("temperature", step.expected_temperature, conversation.temperature)
        or _number("topP", step.expected_top_p, conversation.top_p)
        or _reasoning(step, conversation)
    )


def sanitised(name: str) -> str:
    """A tool's name as it is compared: without markers, blanks around it, and odd characters."""
    return _UNSAFE.sub("_", _MARKER.sub("", name).strip())


def _tools(step: Step, conversation: Conversation) -> str | None:
    if step.allow_missing_tools:
        return None
    offered = {sanitised(tool.name) for tool in conversation.tools}
    expected = (it for it in step.expected_tools if not it.startswith(_INTERNAL))
    missing = [name for name in expected if sanitised(name) not in offered]
    return f"Expected tools not available: {', '.join(missing)}" if missing else None


def _number(name: str, expected: float | None, actual: float | None) -> str | None:
    if expected is None or (actual is not None and _close(expected, actual)):
        return None
    message = f"Expected {name} {_shown(expected)} but received {_shown(actual)}"
    if actual is None:
        message += " (the request does not send it; some SDKs and models never do)"
    return message


def _close(expected: float, actual: float) -> bool:
    """Whether two numbers differ by 1e-6 at most, as they are spelled."""
    if not isfinite(expected):
        return False
    return abs(Decimal(str(expected)) - Decimal(str(actual))) <= _TOLERANCE


def _shown(number: float | None) -> str:
    """A number as JavaScript prints it."""
    if number is None:
        return "undefined"
    exact = Decimal(repr(float(number))).normalize()
    if not exact:
        return "0"
    if exact.adjusted() in _PLAIN:
        return f"{exact:f}"
    digits, _, power = f"{exact:e}".partition("e")
    return f"{digits}e{power}"


def _reasoning(step: Step, conversation: Conversation) -> str | None:
    match step.expected_reasoning:
        case "enabled" if not conversation.reasons:
            return "Expected reasoning to remain enabled"
        case "disabled" if conversation.reasons:
            return "Expected reasoning to be disabled"
        case _:
            return None
