"""Validates a scenario's turns and their numbers."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.scenario.documents.fields import ANY
from llm_proxy.scenario.documents.findings import StructFinding, warning
from llm_proxy.scenario.documents.parsing.nodes import ListNode, ObjectNode, ScalarNode


def check_turn_numbers(scenario: ObjectNode, *, whole: bool) -> Iterator[StructFinding]:
    """Turns of one number, and numbers that are left out."""
    entry = scenario.member("turns")
    if entry is None or not isinstance(entry.node, ListNode):
        return
    lines: dict[int | str, int] = {}
    for index, step in enumerate(entry.node.nodes):
        turn = step.member("turn") if isinstance(step, ObjectNode) else None
        if turn is None or not isinstance(turn.node, ScalarNode):
            continue
        number = turn.node.value
        if not isinstance(number, int) and number != ANY:
            continue
        if number in lines:
            yield StructFinding(
                ("turns", index, "turn"),
                f"there are two turns {number}: the first is in line {lines[number]}",
            )
        lines.setdefault(number, turn.mark.line)
    if whole:
        yield from _gaps(lines)


def _gaps(lines: dict[int | str, int]) -> Iterator[StructFinding]:
    if not lines:
        yield warning(("turns",), "there are no turns, so every request fails")
        return
    numbers = {line for line in lines if isinstance(line, int)}
    if len(numbers) < len(lines):
        return  # a step for any turn leaves no gap
    missing = [count for count in range(1, max(numbers)) if count not in numbers][:1]
    for number in missing:
        yield warning(
            ("turns",), f"turn {number} is missing, so a request for it gets a failure report"
        )
