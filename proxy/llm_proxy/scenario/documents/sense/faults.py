"""Faults: whether each is a rule, and has a meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from llm_proxy.errors import UsageError
from llm_proxy.faults.grammar import rule_of
from llm_proxy.scenario.documents.findings import Finding
from llm_proxy.scenario.documents.reading.nodes import Fields, Items, plain

FIELD = "faults"


def of_list(node: Fields) -> Iterator[Finding]:
    """Rules that the grammar refuses, each with its sentence."""
    entry = node.get(FIELD)
    if entry is None or not isinstance(entry.node, Items):
        return
    for index, item in enumerate(map(plain, entry.node.nodes)):
        if not isinstance(item, str | Mapping):
            continue  # its type is a mistake that has been told
        try:
            rule_of(item)
        except UsageError as error:
            yield Finding((FIELD, index), str(error))
