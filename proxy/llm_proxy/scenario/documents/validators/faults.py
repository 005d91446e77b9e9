"""Validates fault rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from llm_proxy.errors import UsageError
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.scenario.documents.findings import StructFinding
from llm_proxy.scenario.documents.nodes import ListNode, ObjectNode, plain_value

FAULTS_FIELD: Final = "faults"
_LISTENER_MESSAGE: Final = (
    "{} is no matter of an answer: give it with --fault, or PUT it to /_proxy/faults"
)


def check_fault_rules(node: ObjectNode, *, is_in_scenario: bool) -> Iterator[StructFinding]:
    """Find fault rules that the grammar rejects.

    With `is_in_scenario` also rules for listeners, which cannot apply to a single response.
    """
    entry = node.find_entry(FAULTS_FIELD)
    if entry is None or not isinstance(entry.node, ListNode):
        return
    for index, item in enumerate(map(plain_value, entry.node.nodes)):
        if not isinstance(item, str | Mapping):
            continue  # its type is a mistake that is already reported
        try:
            rule = parse_rule(item)
        except UsageError as error:
            yield StructFinding((FAULTS_FIELD, index), str(error))
        else:
            if is_in_scenario and rule.kind.scope == "listener":
                yield StructFinding((FAULTS_FIELD, index), _LISTENER_MESSAGE.format(rule.kind.name))
