"""Validates a scenario's turns and their numbers."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.scenario.documents.fields import ANY_TURN
from llm_proxy.scenario.documents.findings import StructFinding, warning_finding
from llm_proxy.scenario.documents.nodes import ListNode, ObjectNode, ScalarNode


def check_turn_numbers(scenario: ObjectNode, *, is_complete: bool) -> Iterator[StructFinding]:
    """Find duplicate turn numbers; with `is_complete` also missing ones."""
    entry = scenario.find_entry("turns")
    if entry is None or not isinstance(entry.node, ListNode):
        return
    line_by_turn: dict[int | str, int] = {}
    for index, step in enumerate(entry.node.nodes):
        turn = step.find_entry("turn") if isinstance(step, ObjectNode) else None
        if turn is None or not isinstance(turn.node, ScalarNode):
            continue
        number = turn.node.value
        if not isinstance(number, int) and number != ANY_TURN:
            continue
        if number in line_by_turn:
            yield StructFinding(
                ("turns", index, "turn"),
                f"there are two turns {number}: the first is in line {line_by_turn[number]}",
            )
        line_by_turn.setdefault(number, turn.mark.line)
    if is_complete:
        yield from _missing_turn_findings(line_by_turn)


def _missing_turn_findings(line_by_turn: dict[int | str, int]) -> Iterator[StructFinding]:
    if not line_by_turn:
        yield warning_finding(("turns",), "there are no turns, so every request fails")
        return
    numbers = {turn for turn in line_by_turn if isinstance(turn, int)}
    if len(numbers) < len(line_by_turn):
        return  # a step for any turn covers all others
    first_missing = [number for number in range(1, max(numbers)) if number not in numbers][:1]
    for number in first_missing:
        yield warning_finding(
            ("turns",), f"turn {number} is missing, so a request for it gets a failure report"
        )
