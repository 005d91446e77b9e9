"""Match rules and keys: rules remove differences between requests before the key is computed.

A key is the hash that finds the takes of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.cassette import StoredRequest
from llm_proxy.matching.key_documents import KeyDocument, key_document


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


def normalized_document(
    provider: str, request: StoredRequest, rules: RuleSet = NO_RULES
) -> NormalizedDocument:
    """The document of a redacted request after the operator's rules."""
    return rules.normalize_document(key_document(provider, request))


def request_key(provider: str, request: StoredRequest, rules: RuleSet = NO_RULES) -> str:
    """The key of a redacted request: 64 hexadecimal digits."""
    return normalized_document(provider, request, rules).document.compute_key()


def colliding_rules(
    requests: Sequence[tuple[str, StoredRequest]], rules: RuleSet
) -> tuple[NormaliserRule, ...]:
    """The rules that make the keys of these (provider, request) pairs equal.

    A rule counts if the keys differ without it.  All rules if no single one is the cause; none if
    the keys are equal without any rules.
    """

    def have_different_keys(applied_rules: tuple[NormaliserRule, ...]) -> bool:
        rule_set = RuleSet(applied_rules)
        return len({request_key(provider, request, rule_set) for provider, request in requests}) > 1

    if not have_different_keys(()):
        return ()
    colliding = tuple(
        rule
        for rule in rules.rules
        if have_different_keys(tuple(other for other in rules.rules if other is not rule))
    )
    return colliding or rules.rules
