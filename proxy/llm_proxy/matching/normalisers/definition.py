"""The definition of a normaliser, before its argument is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llm_proxy.matching.rules import Apply, MatchRule


@dataclass(frozen=True, slots=True)
class NormaliserKind:
    """A normaliser."""

    name: str
    version: int
    """Raised whenever a document comes out otherwise than before."""
    ignores: str
    """What it overlooks, in a few words."""
    make_rule_of: Callable[[str], Apply]
    """What it does with its argument; raises `UsageError` for one that it cannot have."""
    argument_name: str = ""
    """What its argument is; empty where it has none."""
    example: str = ""
    """An argument."""

    def make_rule(self, argument: str = "") -> MatchRule:
        """The rule with its argument.  Raises `UsageError` for one that it cannot have."""
        return MatchRule(self.name, self.version, self.make_rule_of(argument), argument)
