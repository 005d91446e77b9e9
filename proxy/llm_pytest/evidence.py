"""Tool calls as evidence: what was called, in which step, and what its result proves.

An assertion is decided by its own result; those of a step and tool with the same label are decided
by the last of them, so that a model can poll.  With `expect_failure`, an assertion must fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from llm_proxy.turns import Json
from llm_pytest.models import TestSpec

_STEP_NUMBER: Final = re.compile(r"\W*(?:steps?)?[\W_]*([0-9]{1,4})(?![0-9])", re.IGNORECASE)
"""The forms in which models write a step: `2`, `Step 2`, `#2`, `2. Pay`, `step_2`."""


class ToolCallRecord(Struct, frozen=True):
    """One call of a tool, and its result."""

    number: int
    """From 1, in the order of the calls of a test."""
    tool: str
    arguments: dict[str, Json]
    """Without `step`, `label` and `expect_failure`, and with names in place of secrets."""
    result: Json
    """What the model gets; `{"error": message}` if the call failed."""
    step: str = ""
    """What the model gave as the step: its number, `setup` or `teardown`; empty if nothing."""
    is_error: bool = False
    """Whether the tool failed, or there is no such tool."""
    has_passed: bool | None = None
    """The result of a check, False if it could not run; None for another call."""
    label: str = ""
    expect_failure: bool = False
    duration_ms: float = 0.0

    def step_number(self, spec: TestSpec) -> int | None:
        """The number of its step; None for the setup, the teardown, and anything else."""
        names = [step.name.casefold() for step in spec.steps]
        if (name := self.step.strip().casefold()) in names:
            return names.index(name) + 1
        number = int(found[1]) if (found := _STEP_NUMBER.match(self.step)) else 0
        return number if 1 <= number <= len(names) else None

    @property
    def is_check(self) -> bool:
        """Whether its result can prove something: of an assertion, or of a plugin."""
        return not self.is_error and not self.tool.startswith("http_")

    @property
    def is_assertion(self) -> bool:
        """Whether the call is an assertion, or a labelled check of a plugin."""
        return self.has_passed is not None

    @property
    def is_as_expected(self) -> bool:
        """Whether it has passed, or has failed as it must; an error is no failure of this kind."""
        return not self.is_error and self.has_passed is not self.expect_failure


def decided_assertions(calls: Iterable[ToolCallRecord]) -> tuple[ToolCallRecord, ...]:
    """The assertions that count, in order: of those with the same label only the last one."""
    decided: dict[object, ToolCallRecord] = {}
    for call in calls:
        if call.is_assertion:
            number = _STEP_NUMBER.match(call.step)
            step = number[1] if number else call.step.lower()
            key = (step, call.tool, call.label) if call.label else call.number
            decided.pop(key, None)
            decided[key] = call
    return tuple(decided.values())
