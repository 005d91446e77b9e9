"""Rules that types cannot say: what makes no sense, or probably is not what was meant.

Each file has those of one matter; a rule takes a struct and gives what it finds in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from llm_proxy.faults.document import FaultDocument
from llm_proxy.scenario.documents import document
from llm_proxy.scenario.documents.findings import Finding
from llm_proxy.scenario.documents.parsing.nodes import Fields
from llm_proxy.scenario.documents.validators import (
    answers,
    failures,
    faults,
    ids,
    paces,
    patterns,
    spans,
    templates,
    turns,
)

Rule = Callable[[Any], Iterator[Finding]]

RULES: Final[Mapping[type, tuple[Rule, ...]]] = MappingProxyType(
    {
        document.Scenario: (ids.blanks, paces.of_answers, templates.of_answers),
        document.Step: (failures.unknown_status, failures.never_played, paces.of_answers),
        document.Match: (patterns.of_texts, patterns.of_paths),
        document.Condition: (patterns.of_values,),
        document.ToolCalls: (answers.calls_of_one_id,),
        document.Parts: (answers.parts_of_one_id,),
        document.ReAct: (answers.nothing_to_do,),
        document.Thought: (answers.seal_of_gemini,),
        document.SaidReasoning: (answers.seal_of_gemini,),
        document.Chunks: (spans.of_chunks,),
        document.Mock: (spans.of_mock, spans.two_names),
    }
)


def rules_of_nodes(struct: type, node: Fields, *, whole: bool) -> Iterator[Finding]:
    """What is found in a struct of this type also where it is not whole."""
    if struct is document.Scenario:
        yield from turns.numbers(node, whole=whole)
    if struct in (document.Scenario, document.Step, FaultDocument):
        yield from faults.of_list(node, is_one_answers=struct is not FaultDocument)
