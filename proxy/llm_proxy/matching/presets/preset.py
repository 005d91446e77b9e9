"""The definition of a preset."""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.matching.key_documents import KeyDocument
from llm_proxy.matching.rules import NormaliserRule, NormalizedDocument, RuleSet


@dataclass(frozen=True, slots=True)
class Preset:
    """The combination of rules that one client needs."""

    name: str
    version: int
    """Incremented whenever it normalises a document differently than before."""
    client: str
    """The client that it is for, as displayed."""
    rules: tuple[NormaliserRule, ...]

    def combined_rule(self) -> NormaliserRule:
        """All rules of the preset as one rule."""
        rules = RuleSet(self.rules)

        def apply(document: KeyDocument) -> NormalizedDocument:
            return rules.normalize_document(document)

        return NormaliserRule(self.name, self.version, apply, preset_rules=self.rules)
