"""Paces: whether they can be kept."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.errors import UsageError
from llm_proxy.pacing import parse_pace
from llm_proxy.scenario.documents.document import Scenario, Step
from llm_proxy.scenario.documents.findings import Finding


def of_answers(it: Scenario | Step) -> Iterator[Finding]:
    """A pace that is none; an empty one is the pace of the run."""
    if it.pace.strip():
        try:
            parse_pace(it.pace)
        except UsageError as error:
            yield Finding(("pace",), str(error))
