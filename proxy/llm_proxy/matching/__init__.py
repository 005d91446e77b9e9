"""Which cassettes answer a request: its key, what may loosen it, and how two requests differ.

    request ──▶ document ──▶ rules ──▶ key
                                  └──▶ leaves ──▶ differences

A `Document` is a request in the one form that all requests of its meaning share.  `Rules` are
what an operator loosens keys by, in their order: normalisers, and presets of them for clients.
The key is a hash of what is left; the leaves are what two requests are compared by.
"""

from llm_proxy.matching.document import Document, document_of
from llm_proxy.matching.keys import KEY_RULES, key, key_of, normalised
from llm_proxy.matching.rules import EXACT, PLAIN, Normalised, Rule, Rules

__all__ = [
    "EXACT",
    "KEY_RULES",
    "PLAIN",
    "Document",
    "Normalised",
    "Rule",
    "Rules",
    "document_of",
    "key",
    "key_of",
    "normalised",
]
