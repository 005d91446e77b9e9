"""The definition of a normaliser, before its argument is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llm_proxy.matching.rules import ApplyRule, NormaliserRule


@dataclass(frozen=True, slots=True)
class NormaliserDefinition:
    """The name, version and implementation of a normaliser."""

    name: str
    version: int
    """Incremented whenever it normalises a document differently than before."""
    ignored_description: str
    """What it ignores, in a few words."""
    make_document_normaliser: Callable[[str], ApplyRule]
    """Returns the rule's function for an argument; raises `UsageError` for an invalid one."""
    argument_description: str = ""
    """What its argument is, such as `a JSONPath`; empty if it takes none."""
    example_argument: str = ""
    """An example of an argument."""

    def make_rule(self, argument: str = "") -> NormaliserRule:
        """The rule with an argument.  Raises `UsageError` for an invalid one."""
        return NormaliserRule(
            self.name, self.version, self.make_document_normaliser(argument), argument
        )
