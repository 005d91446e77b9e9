"""Validates scenario ids."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.documents.findings import StructFinding


def check_scenario_id_whitespace(scenario: Scenario) -> Iterator[StructFinding]:
    """Find an id with outer white space, which no message can name."""
    if scenario.id != scenario.id.strip():
        yield StructFinding(
            ("id",),
            "the id has blanks around it, so no message can name it: the blanks around a message "
            "do not count; take them away",
        )
