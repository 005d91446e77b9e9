"""Keys: the hash under which a request finds its takes."""

from __future__ import annotations

import hashlib
from typing import Final

from llm_proxy.cassette import StoredRequest
from llm_proxy.matching.document import Document, document_of
from llm_proxy.matching.rules import PLAIN, Normalised, Rules

KEY_RULES: Final = 2
"""The version of the rules that every key is made by, stored in every cassette: those of this
module, of `document`, and the fields that dialects call volatile."""


def normalised(provider: str, request: StoredRequest, rules: Rules = PLAIN) -> Normalised:
    """The document of a redacted request, after an operator's rules."""
    return rules.apply(document_of(provider, request))


def key(provider: str, request: StoredRequest, rules: Rules = PLAIN) -> str:
    """The key under which this request finds its takes: 64 hexadecimal digits."""
    return key_of(normalised(provider, request, rules).document)


def key_of(document: Document) -> str:
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
    digest.update(document.spelled())
    return digest.hexdigest()
