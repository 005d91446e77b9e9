"""What a normaliser is, before it has its argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llm_proxy.matching.rules import Apply, Rule


@dataclass(frozen=True, slots=True)
class Kind:
    """A normaliser."""

    name: str
    version: int
    """Raised whenever a document comes out otherwise than before."""
    overlooks: str
    """What it overlooks, in a few words."""
    make: Callable[[str], Apply]
    """What it does with its argument; raises `UsageError` for one that it cannot have."""
    takes: str = ""
    """What its argument is; empty where it has none."""
    example: str = ""
    """An argument."""

    def rule(self, argument: str = "") -> Rule:
        """The rule with its argument.  Raises `UsageError` for one that it cannot have."""
        return Rule(self.name, self.version, self.make(argument), argument)
