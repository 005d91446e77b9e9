"""The turns of a scenario, and what they expect."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.scenario.documents.fields import ANY
from llm_proxy.scenario.documents.findings import Finding, warning
from llm_proxy.scenario.documents.parsing.nodes import Fields, Items, Scalar


def numbers(scenario: Fields, *, whole: bool) -> Iterator[Finding]:
    """Turns of one number, and numbers that are left out."""
    entry = scenario.get("turns")
    if entry is None or not isinstance(entry.node, Items):
        return
    lines: dict[int | str, int] = {}
    for index, step in enumerate(entry.node.nodes):
        turn = step.get("turn") if isinstance(step, Fields) else None
        if turn is None or not isinstance(turn.node, Scalar):
            continue
        number = turn.node.value
        if not isinstance(number, int) and number != ANY:
            continue
        if number in lines:
            yield Finding(
                ("turns", index, "turn"),
                f"there are two turns {number}: the first is in line {lines[number]}",
            )
        lines.setdefault(number, turn.mark.line)
    if whole:
        yield from _gaps(lines)


def _gaps(lines: dict[int | str, int]) -> Iterator[Finding]:
    if not lines:
        yield warning(("turns",), "there are no turns, so every request fails")
        return
    numbers = {it for it in lines if isinstance(it, int)}
    if len(numbers) < len(lines):
        return  # a step for any turn leaves no gap
    missing = [it for it in range(1, max(numbers)) if it not in numbers][:1]
    for number in missing:
        yield warning(
            ("turns",), f"turn {number} is missing, so a request for it gets a failure report"
        )
