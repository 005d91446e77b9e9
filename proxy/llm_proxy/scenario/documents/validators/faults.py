"""Validates fault rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from llm_proxy.errors import UsageError
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.scenario.documents.findings import StructFinding
from llm_proxy.scenario.documents.parsing.nodes import ListNode, ObjectNode, plain_value

FIELD: Final = "faults"
_LISTENER: Final = "{} is no matter of an answer: give it with --fault, or PUT it to /_proxy/faults"


def check_fault_rules(node: ObjectNode, *, is_one_answers: bool) -> Iterator[StructFinding]:
    """Rules that the grammar refuses, each with its sentence.

    `is_one_answers` where the rules are about the answers of a scenario.
    """
    entry = node.member(FIELD)
    if entry is None or not isinstance(entry.node, ListNode):
        return
    for index, item in enumerate(map(plain_value, entry.node.nodes)):
        if not isinstance(item, str | Mapping):
            continue  # its type is a mistake that has been told
        try:
            rule = parse_rule(item)
        except UsageError as error:
            yield StructFinding((FIELD, index), str(error))
        else:
            if is_one_answers and rule.kind.scope == "listener":
                yield StructFinding((FIELD, index), _LISTENER.format(rule.kind.name))
