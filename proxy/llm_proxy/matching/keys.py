"""Computes keys: the hash that finds the takes of a request."""

from __future__ import annotations

import hashlib
from typing import Final

from llm_proxy.cassette import StoredRequest
from llm_proxy.matching.document import KeyDocument, key_document
from llm_proxy.matching.rules import PLAIN, NormalizedDocument, RuleSet

KEY_RULES: Final = 2
"""The version of the rules that every key is made by, stored in every cassette: those of this
module, of `document`, and the fields that dialects call volatile."""


def normalized_document(
    provider: str, request: StoredRequest, rules: RuleSet = PLAIN
) -> NormalizedDocument:
    """The document of a redacted request, after an operator's rules."""
    return rules.apply(key_document(provider, request))


def request_key(provider: str, request: StoredRequest, rules: RuleSet = PLAIN) -> str:
    """The key under which this request finds its takes: 64 hexadecimal digits."""
    return document_key(normalized_document(provider, request, rules).document)


def document_key(document: KeyDocument) -> str:
    """The key of a document.

    Rules that change nothing of it do not count: what they let through has the key that it has
    without them.
    """
    it = document
    headers = [f"{name}: {value}" for name, value in it.headers]
    digest = hashlib.sha256()
    for part in (
        f"llm-proxy key {KEY_RULES}", it.method, it.provider, it.path, it.query, *headers, it.kind
    ):  # fmt: skip
        digest.update(part.encode("utf-8", "surrogateescape") + b"\n")
    digest.update(document.serialized_body())
    return digest.hexdigest()
