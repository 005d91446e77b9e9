"""Finds the cassettes for a request: key documents, rules and keys.

    request ──▶ document ──▶ rules ──▶ key
                                  └──▶ leaves ──▶ differences

A `KeyDocument` is the canonical form of a request.  A `RuleSet` holds an operator's rules, in
order: normalisers, and presets of them for clients, which remove differences that should not
count.  The key is a hash of the result; its leaves are compared to explain a miss.
"""

from llm_proxy.matching.keys import (
    KEY_RULES_VERSION,
    NO_RULES,
    KeyDocument,
    NormaliserRule,
    NormalizedDocument,
    RuleSet,
    key_document,
    normalized_document,
    request_key,
)

__all__ = [
    "KEY_RULES_VERSION",
    "NO_RULES",
    "KeyDocument",
    "NormaliserRule",
    "NormalizedDocument",
    "RuleSet",
    "key_document",
    "normalized_document",
    "request_key",
]
