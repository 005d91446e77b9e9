"""Explains step by step how the key of a request is derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llm_proxy.diff.documents import RequestDifference, find_differences
from llm_proxy.matching import KeyDocument, key_document
from llm_proxy.routing import RoutedRequest


@dataclass(frozen=True, slots=True)
class AppliedRule:
    """The effect of one match rule on a key document."""

    rule: str
    """With its version: `uuids@1`; a step of a preset: `claude-code@2: uuids@1`."""
    changes: tuple[RequestDifference, ...]
    """In each, `stored` is the value before the rule and `requested` the value after it."""
    value_by_alias: Mapping[str, str]
    """The values that the rule replaced, by their replacement, such as `<uuid-1>`."""
    further_count: int = 0
    """Number of changes that `changes` leaves out."""


@dataclass(frozen=True, slots=True)
class KeyExplanation:
    """A request's key document before and after each rule; the key is the hash of the last."""

    initial_document: KeyDocument
    """The key document before any rule."""
    applied_rules: tuple[AppliedRule, ...]
    final_document: KeyDocument


def explain_key(routed: RoutedRequest) -> KeyExplanation:
    """Applies the rules of a request to its key document, one by one."""
    document = before = key_document(routed.provider, routed.stored_request)
    applied: list[AppliedRule] = []
    for rule in routed.match_rules.rules:
        for step in rule.preset_rules or (rule,):
            normalized = step.normalize_document(document)
            name = f"{rule}: {step}" if rule.preset_rules else str(rule)
            found = find_differences(normalized.document, document)
            applied.append(
                AppliedRule(name, found.differences, normalized.value_by_alias, found.further_count)
            )
            document = normalized.document
    return KeyExplanation(before, tuple(applied), document)
