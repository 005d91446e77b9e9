"""Finds the cassettes for a request: key documents, rules and keys.

    request ──▶ document ──▶ rules ──▶ key
                                  └──▶ leaves ──▶ differences

A `Document` is a request in the one form that all requests of its meaning share.  `RuleSet` are
what an operator loosens keys by, in their order: normalisers, and presets of them for clients.
The key is a hash of what is left; the leaves are what two requests are compared by.
"""

from llm_proxy.matching.document import KeyDocument, key_document
from llm_proxy.matching.keys import KEY_RULES, document_key, normalized_document, request_key
from llm_proxy.matching.rules import EXACT, PLAIN, MatchRule, NormalizedDocument, RuleSet

__all__ = [
    "EXACT",
    "KEY_RULES",
    "PLAIN",
    "KeyDocument",
    "MatchRule",
    "NormalizedDocument",
    "RuleSet",
    "document_key",
    "key_document",
    "normalized_document",
    "request_key",
]
