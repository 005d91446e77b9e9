"""The definition of a preset."""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.matching.document import KeyDocument
from llm_proxy.matching.rules import MatchRule, NormalizedDocument, RuleSet


@dataclass(frozen=True, slots=True)
class Preset:
    """Rules that belong together, because one client needs them all."""

    name: str
    version: int
    """Raised whenever a document comes out otherwise than before."""
    client: str
    """What it is for, in a few words."""
    steps: tuple[MatchRule, ...]

    def combined_rule(self) -> MatchRule:
        """All of them as one rule."""
        rules = RuleSet(self.steps)

        def apply(document: KeyDocument) -> NormalizedDocument:
            return rules.apply(document)

        return MatchRule(self.name, self.version, apply, steps=self.steps)
