"""Validates paces."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.errors import UsageError
from llm_proxy.pacing import parse_pace
from llm_proxy.scenario.documents.document import Scenario, ScenarioTurn
from llm_proxy.scenario.documents.findings import StructFinding


def check_pace(struct: Scenario | ScenarioTurn) -> Iterator[StructFinding]:
    """Find an invalid pace; an empty one means the pace of the run."""
    if struct.pace.strip():
        try:
            parse_pace(struct.pace)
        except UsageError as error:
            yield StructFinding(("pace",), str(error))
