"""The rules that loosen keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.matching.document import KeyDocument


@dataclass(frozen=True, slots=True)
class NormalizedDocument:
    """A document to which rules were applied."""

    document: KeyDocument
    aliases: Mapping[str, str] = field(default_factory=dict)
    """What was replaced by names of ours, by these names: `<uuid-1>`.  Two requests of one key have
    the same names, so what one calls its own is told from what the other does."""


Apply = Callable[[KeyDocument], NormalizedDocument]
"""Gives the document without what the rule overlooks.  The same for every document that differs in
that alone, and the same again when it is applied once more."""


@dataclass(frozen=True, slots=True)
class MatchRule:
    """A normaliser with its argument, or a preset."""

    name: str
    version: int
    """Another one whenever the same document would come out otherwise."""
    apply: Apply
    argument: str = ""
    steps: tuple[MatchRule, ...] = ()
    """The rules that a preset stands for."""

    def __str__(self) -> str:
        """As it stands in cassettes: `uuids@1`, `ignore@1=$.metadata`."""
        argument = f"={self.argument}" if self.argument else ""
        return f"{self.name}@{self.version}{argument}"

    @property
    def option_text(self) -> str:
        """As an operator writes it: `uuids`, `ignore=$.metadata`."""
        return f"{self.name}={self.argument}" if self.argument else self.name


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All of them, in the order in which they are applied."""

    rules: tuple[MatchRule, ...] = ()
    is_exact: bool = False
    """Whether there are none because of `--match exact`: whatever else is given, none counts."""

    @property
    def serialized(self) -> tuple[str, ...]:
        """As they stand in line 1 of a cassette."""
        return tuple(map(str, self.rules))

    def apply(self, document: KeyDocument) -> NormalizedDocument:
        """The document after all of them."""
        names: dict[str, str] = {}
        for rule in self.rules:
            done = rule.apply(document)
            document = done.document
            names |= done.aliases
        return NormalizedDocument(document, names)


PLAIN: Final = RuleSet()
"""None: keys are exact."""
EXACT: Final = RuleSet(is_exact=True)
"""None, and none that could be given would count."""
