"""Validators for rules that types cannot express.

Each module covers one subject; a validator takes a struct and yields its findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from llm_proxy.faults.rule_list_schema import FaultRulesFile
from llm_proxy.scenario.documents import document
from llm_proxy.scenario.documents.findings import StructFinding
from llm_proxy.scenario.documents.nodes import ObjectNode
from llm_proxy.scenario.documents.validators import (
    failures,
    faults,
    ids,
    paces,
    patterns,
    responses,
    templates,
    time_ranges,
    turns,
)

Validator = Callable[[Any], Iterator[StructFinding]]

VALIDATORS_BY_STRUCT: Final[Mapping[type, tuple[Validator, ...]]] = MappingProxyType(
    {
        document.Scenario: (
            ids.check_scenario_id_whitespace,
            paces.check_pace,
            templates.check_templates,
        ),
        document.ScenarioTurn: (
            failures.check_failure_status,
            failures.check_unused_failure_fields,
            paces.check_pace,
        ),
        document.ScenarioMatch: (patterns.check_text_patterns, patterns.check_json_paths),
        document.ValueCondition: (patterns.check_value_patterns,),
        document.ToolCallsResponse: (responses.check_call_ids,),
        document.PartsResponse: (responses.check_part_call_ids,),
        document.ReActResponse: (responses.check_react_action,),
        document.ReasoningSpec: (responses.check_gemini_signature,),
        document.ReasoningPartSpec: (responses.check_gemini_signature,),
        document.ChunkSpec: (time_ranges.check_chunk_delay,),
        document.MockSpec: (
            time_ranges.check_mock_times,
            time_ranges.check_duplicate_thinking_time,
        ),
    }
)


def validate_node(struct: type, node: ObjectNode, *, is_complete: bool) -> Iterator[StructFinding]:
    """The findings of validators that also run on structs with mistakes."""
    if struct is document.Scenario:
        yield from turns.check_turn_numbers(node, is_complete=is_complete)
    if struct in (document.Scenario, document.ScenarioTurn, FaultRulesFile):
        yield from faults.check_fault_rules(node, is_in_scenario=struct is not FaultRulesFile)
