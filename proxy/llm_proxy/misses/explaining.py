"""What a request's key is made from, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llm_proxy.diff.json_leaves import Difference
from llm_proxy.matching import Document, document_of
from llm_proxy.misses.document_diff import found
from llm_proxy.routing import Call


@dataclass(frozen=True, slots=True)
class Applied:
    """What one rule did to a document."""

    rule: str
    """With its version: `uuids@1`; a preset's as `claude-code@2: uuids@1`."""
    changed: tuple[Difference, ...]
    """`stored` is what was there before, `asked` what is there now."""
    names: Mapping[str, str]
    """What it replaced by names of ours, by these."""
    more: int = 0
    """How many changes there are beside those."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """From a request to what its key is made of."""

    before: Document
    """The document before any rule."""
    applied: tuple[Applied, ...]
    after: Document


def explanation(call: Call) -> Explanation:
    """What the rules of a call make of its request."""
    document = before = document_of(call.provider, call.stored)
    applied: list[Applied] = []
    for rule in call.rules.each:
        for step in rule.steps or (rule,):
            done = step.apply(document)
            name = f"{rule}: {step}" if rule.steps else str(rule)
            changes = found(done.document, document)
            applied.append(Applied(name, changes.told, done.names, changes.more))
            document = done.document
    return Explanation(before, tuple(applied), document)
