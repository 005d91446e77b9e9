"""Computes keys: the hash that finds the takes of a request."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from llm_proxy.cassette import StoredRequest
from llm_proxy.matching.key_documents import KeyDocument, key_document
from llm_proxy.matching.rules import NO_RULES, NormaliserRule, NormalizedDocument, RuleSet

KEY_RULES_VERSION: Final = 2
"""The version of the key computation, stored in every cassette: this module, `key_documents`, and
the fields that dialects list as volatile."""


def normalized_document(
    provider: str, request: StoredRequest, rules: RuleSet = NO_RULES
) -> NormalizedDocument:
    """The document of a redacted request after the operator's rules."""
    return rules.normalize_document(key_document(provider, request))


def request_key(provider: str, request: StoredRequest, rules: RuleSet = NO_RULES) -> str:
    """The key of a redacted request: 64 hexadecimal digits."""
    return document_key(normalized_document(provider, request, rules).document)


def document_key(document: KeyDocument) -> str:
    """The key of a document: the SHA-256 of its canonical form, in hexadecimal.

    Rules that do not change a document do not change its key: the rules' names are not hashed.
    """
    head = (
        f"llm-proxy key {KEY_RULES_VERSION}",
        document.method,
        document.provider,
        document.path,
        document.query,
        *(f"{name}: {value}" for name, value in document.headers),
        document.body_kind,
    )
    digest = hashlib.sha256(
        "".join(f"{part}\n" for part in head).encode("utf-8", "surrogateescape")
    )
    digest.update(document.canonical_body())
    return digest.hexdigest()


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
