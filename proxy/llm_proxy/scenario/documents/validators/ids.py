"""Ids of scenarios: they are found by what a message says, without the blanks around it."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.documents.findings import Finding


def blanks(it: Scenario) -> Iterator[Finding]:
    """An id that no message can name."""
    if it.id != it.id.strip():
        yield Finding(
            ("id",),
            "the id has blanks around it, so no message can name it: the blanks around a message "
            "do not count; take them away",
        )
