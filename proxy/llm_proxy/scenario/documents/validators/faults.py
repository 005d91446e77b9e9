"""Faults: whether each is a rule, and has a meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from llm_proxy.errors import UsageError
from llm_proxy.faults.grammar import rule_of
from llm_proxy.scenario.documents.findings import Finding
from llm_proxy.scenario.documents.parsing.nodes import Fields, Items, plain

FIELD: Final = "faults"
_LISTENER: Final = "{} is no matter of an answer: give it with --fault, or PUT it to /_proxy/faults"


def of_list(node: Fields, *, is_one_answers: bool) -> Iterator[Finding]:
    """Rules that the grammar refuses, each with its sentence.

    `is_one_answers` where the rules are about the answers of a scenario.
    """
    entry = node.get(FIELD)
    if entry is None or not isinstance(entry.node, Items):
        return
    for index, item in enumerate(map(plain, entry.node.nodes)):
        if not isinstance(item, str | Mapping):
            continue  # its type is a mistake that has been told
        try:
            rule = rule_of(item)
        except UsageError as error:
            yield Finding((FIELD, index), str(error))
        else:
            if is_one_answers and rule.kind.scope == "listener":
                yield Finding((FIELD, index), _LISTENER.format(rule.kind.name))
