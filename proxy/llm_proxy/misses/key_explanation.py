"""Explains step by step what the key of a request is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llm_proxy.diff.json_leaves import RequestDifference
from llm_proxy.matching import KeyDocument, key_document
from llm_proxy.misses.document_diff import find_differences
from llm_proxy.routing import RoutedRequest


@dataclass(frozen=True, slots=True)
class AppliedRule:
    """What one rule did to a document."""

    rule: str
    """With its version: `uuids@1`; a preset's as `claude-code@2: uuids@1`."""
    changed: tuple[RequestDifference, ...]
    """`stored` is what was there before, `asked` what is there now."""
    names: Mapping[str, str]
    """What it replaced by names of ours, by these."""
    further_count: int = 0
    """How many changes there are beside those."""


@dataclass(frozen=True, slots=True)
class KeyExplanation:
    """From a request to what its key is made of."""

    before: KeyDocument
    """The document before any rule."""
    applied: tuple[AppliedRule, ...]
    after: KeyDocument


def explain_key(routed: RoutedRequest) -> KeyExplanation:
    """What the rules of a call make of its request."""
    document = before = key_document(routed.provider, routed.stored_request)
    applied: list[AppliedRule] = []
    for rule in routed.rules.rules:
        for step in rule.steps or (rule,):
            done = step.apply(document)
            name = f"{rule}: {step}" if rule.steps else str(rule)
            changes = find_differences(done.document, document)
            applied.append(
                AppliedRule(name, changes.differences, done.aliases, changes.further_count)
            )
            document = done.document
    return KeyExplanation(before, tuple(applied), document)
