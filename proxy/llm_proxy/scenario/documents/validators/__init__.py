"""Validators for rules that types cannot express.

Each file has those of one matter; a rule takes a struct and gives what it finds in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from llm_proxy.faults.document import FaultDocument
from llm_proxy.scenario.documents import document
from llm_proxy.scenario.documents.findings import StructFinding
from llm_proxy.scenario.documents.parsing.nodes import ObjectNode
from llm_proxy.scenario.documents.validators import (
    failures,
    faults,
    ids,
    paces,
    patterns,
    responses,
    spans,
    templates,
    turns,
)

Rule = Callable[[Any], Iterator[StructFinding]]

RULES: Final[Mapping[type, tuple[Rule, ...]]] = MappingProxyType(
    {
        document.Scenario: (ids.check_blanks, paces.check_pace, templates.check_templates),
        document.ScenarioTurn: (
            failures.unknown_status,
            failures.unused_failure_fields,
            paces.check_pace,
        ),
        document.ScenarioMatch: (patterns.check_text_patterns, patterns.check_json_paths),
        document.ValueCondition: (patterns.check_value_patterns,),
        document.ToolCallsResponse: (responses.duplicate_call_ids,),
        document.PartsResponse: (responses.duplicate_part_call_ids,),
        document.ReActResponse: (responses.react_without_action,),
        document.ReasoningSpec: (responses.invalid_gemini_signature,),
        document.ReasoningPartSpec: (responses.invalid_gemini_signature,),
        document.ChunkSpec: (spans.check_chunk_delay,),
        document.MockSpec: (spans.check_mock_times, spans.check_duplicate_time),
    }
)


def rules_of_nodes(struct: type, node: ObjectNode, *, whole: bool) -> Iterator[StructFinding]:
    """What is found in a struct of this type also where it is not whole."""
    if struct is document.Scenario:
        yield from turns.check_turn_numbers(node, whole=whole)
    if struct in (document.Scenario, document.ScenarioTurn, FaultDocument):
        yield from faults.check_fault_rules(node, is_one_answers=struct is not FaultDocument)
