"""What a preset is."""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.matching.document import Document
from llm_proxy.matching.rules import Normalised, Rule, Rules


@dataclass(frozen=True, slots=True)
class Preset:
    """Rules that belong together, because one client needs them all."""

    name: str
    version: int
    """Raised whenever a document comes out otherwise than before."""
    client: str
    """What it is for, in a few words."""
    steps: tuple[Rule, ...]

    def rule(self) -> Rule:
        """All of them as one rule."""
        rules = Rules(self.steps)

        def apply(document: Document) -> Normalised:
            return rules.apply(document)

        return Rule(self.name, self.version, apply, steps=self.steps)
