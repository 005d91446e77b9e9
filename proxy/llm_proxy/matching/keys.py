"""Computes keys: the hash that finds the takes of a request."""

from __future__ import annotations

import hashlib
from typing import Final

from llm_proxy.cassette import StoredRequest
from llm_proxy.matching.key_documents import KeyDocument, key_document
from llm_proxy.matching.rules import NO_RULES, NormalizedDocument, RuleSet

KEY_RULES_VERSION: Final = 2
"""The version of the key computation, stored in every cassette: this module, `document`, and the
fields that dialects list as volatile."""


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
    headers = [f"{name}: {value}" for name, value in document.headers]
    digest = hashlib.sha256()
    for part in (
        f"llm-proxy key {KEY_RULES_VERSION}",
        document.method,
        document.provider,
        document.path,
        document.query,
        *headers,
        document.body_kind,
    ):
        digest.update(part.encode("utf-8", "surrogateescape") + b"\n")
    digest.update(document.canonical_body())
    return digest.hexdigest()
