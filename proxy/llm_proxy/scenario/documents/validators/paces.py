"""Validates paces."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.errors import UsageError
from llm_proxy.pacing import parse_pace
from llm_proxy.scenario.documents.document import Scenario, ScenarioTurn
from llm_proxy.scenario.documents.findings import StructFinding


def check_pace(scenario: Scenario | ScenarioTurn) -> Iterator[StructFinding]:
    """A pace that is none; an empty one is the pace of the run."""
    if scenario.pace.strip():
        try:
            parse_pace(scenario.pace)
        except UsageError as error:
            yield StructFinding(("pace",), str(error))
