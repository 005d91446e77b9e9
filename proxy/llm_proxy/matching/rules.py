"""Match rules: they remove differences between requests before the key is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.matching.key_documents import KeyDocument


@dataclass(frozen=True, slots=True)
class NormalizedDocument:
    """A document after rules were applied."""

    document: KeyDocument
    value_by_alias: Mapping[str, str] = field(default_factory=dict)
    """The replaced values by alias, such as `<uuid-1>`.  Two requests with the same key have the
    same aliases, so their values can be mapped to each other."""


ApplyRule = Callable[[KeyDocument], NormalizedDocument]
"""Returns the document without the differences that the rule ignores: equal for documents that
differ only in them.  Idempotent."""


@dataclass(frozen=True, slots=True)
class NormaliserRule:
    """A normaliser with its argument, or a preset."""

    name: str
    version: int
    """Changes whenever the same document would be normalised differently."""
    normalize_document: ApplyRule
    argument: str = ""
    preset_rules: tuple[NormaliserRule, ...] = ()
    """The rules that a preset combines; empty for a normaliser."""

    def __str__(self) -> str:
        """The form stored in cassettes: `uuids@1`, `ignore@1=$.metadata`."""
        argument = f"={self.argument}" if self.argument else ""
        return f"{self.name}@{self.version}{argument}"

    @property
    def option_text(self) -> str:
        """The form of the command line: `uuids`, `ignore=$.metadata`."""
        return f"{self.name}={self.argument}" if self.argument else self.name


@dataclass(frozen=True, slots=True)
class NormaliserDefinition:
    """A normaliser before its argument is known."""

    name: str
    version: int
    """Incremented whenever it normalises a document differently than before."""
    make_document_normaliser: Callable[[str], ApplyRule]
    """Returns the rule's function for an argument; raises `UsageError` for an invalid one."""
    argument_description: str = ""
    """What its argument is, such as `a JSONPath`; empty if it takes none."""
    example_argument: str = ""
    """An example of an argument."""

    def make_rule(self, argument: str = "") -> NormaliserRule:
        """The rule with an argument.  Raises `UsageError` for an invalid one."""
        function = self.make_document_normaliser(argument)
        return NormaliserRule(self.name, self.version, function, argument)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The match rules of a run, in the order in which they are applied."""

    rules: tuple[NormaliserRule, ...] = ()
    is_exact: bool = False
    """Whether `--match exact` disables rules: then no other setting adds any."""

    @property
    def rule_texts(self) -> tuple[str, ...]:
        """The rules as stored in line 1 of a cassette."""
        return tuple(map(str, self.rules))

    def normalize_document(self, document: KeyDocument) -> NormalizedDocument:
        """The document after all rules."""
        value_by_alias: dict[str, str] = {}
        for rule in self.rules:
            normalized = rule.normalize_document(document)
            document = normalized.document
            value_by_alias |= normalized.value_by_alias
        return NormalizedDocument(document, value_by_alias)


NO_RULES: Final = RuleSet()
"""No rules: keys are exact."""
EXACT_MATCH: Final = RuleSet(is_exact=True)
"""No rules, and `is_exact` keeps others from being added."""
