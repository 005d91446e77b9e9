"""Tool calls as evidence: what was called, in which step, and what its result proves.

An assertion is decided by its own result; those of a step and tool with the same label are decided
by the last of them, so that a model can poll.  With `expect_failure`, an assertion must fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from llm_proxy.turns import Json

_MAX_DIGITS: Final = 5


class ToolCallRecord(Struct, frozen=True):
    """One call of a tool, and its result."""

    number: int
    """From 1, in the order of the calls of a test."""
    tool: str
    arguments: dict[str, Json]
    """As the model sent them, without `step`, `label` and `expect_failure`."""
    result: Json
    """What the model gets; `{"error": message}` if the call failed."""
    step: str = ""
    """What the model gave as the step: its number, `setup` or `teardown`; empty if nothing."""
    is_error: bool = False
    """Whether the tool failed, or there is no such tool."""
    has_passed: bool | None = None
    """The result of an assertion; None for another tool, and for an assertion that failed to run
    is False."""
    label: str = ""
    expect_failure: bool = False
    duration_ms: float = 0.0

    @property
    def step_number(self) -> int | None:
        """The number of its step; None for the setup, the teardown, and anything else."""
        number = self.step.strip().lower().removeprefix("step").strip()
        return int(number) if number.isdecimal() and len(number) < _MAX_DIGITS else None

    @property
    def is_check(self) -> bool:
        """Whether its result can prove something: of an assertion, or of a plugin."""
        return not self.is_error and not self.tool.startswith("http_")

    @property
    def is_assertion(self) -> bool:
        """Whether the call is an assertion."""
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
            key = (call.step, call.tool, call.label) if call.label else call.number
            decided.pop(key, None)
            decided[key] = call
    return tuple(decided.values())
