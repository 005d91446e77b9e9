"""What an operator loosens keys by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.matching.document import Document


@dataclass(frozen=True, slots=True)
class Normalised:
    """A document to which rules were applied."""

    document: Document
    names: Mapping[str, str] = field(default_factory=dict)
    """What was replaced by names of ours, by these names: `<uuid-1>`.  Two requests of one key have
    the same names, so what one calls its own is told from what the other does."""


Apply = Callable[[Document], Normalised]
"""Gives the document without what the rule overlooks.  The same for every document that differs in
that alone, and the same again when it is applied once more."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A normaliser with its argument, or a preset."""

    name: str
    version: int
    """Another one whenever the same document would come out otherwise."""
    apply: Apply
    argument: str = ""
    steps: tuple[Rule, ...] = ()
    """The rules that a preset stands for."""

    def __str__(self) -> str:
        """As it stands in cassettes: `uuids@1`, `ignore@1=$.metadata`."""
        argument = f"={self.argument}" if self.argument else ""
        return f"{self.name}@{self.version}{argument}"

    @property
    def setting(self) -> str:
        """As an operator writes it: `uuids`, `ignore=$.metadata`."""
        return f"{self.name}={self.argument}" if self.argument else self.name


@dataclass(frozen=True, slots=True)
class Rules:
    """All of them, in the order in which they are applied."""

    each: tuple[Rule, ...] = ()
    is_exact: bool = False
    """Whether there are none because of `--match exact`: whatever else is given, none counts."""

    @property
    def spelled(self) -> tuple[str, ...]:
        """As they stand in line 1 of a cassette."""
        return tuple(map(str, self.each))

    def apply(self, document: Document) -> Normalised:
        """The document after all of them."""
        names: dict[str, str] = {}
        for rule in self.each:
            done = rule.apply(document)
            document = done.document
            names |= done.names
        return Normalised(document, names)


PLAIN: Final = Rules()
"""None: keys are exact."""
EXACT: Final = Rules(is_exact=True)
"""None, and none that could be given would count."""
