"""Redactors of known secrets alone, without the rules for shapes and names."""

from __future__ import annotations

from collections.abc import Iterable

from llm_proxy.redaction import NO_REDACTION, KnownSecret, Redactor

PLACEHOLDER = "[redacted]"


def redactor_of(secrets: Iterable[bytes]) -> Redactor:
    """A redactor that replaces each of `secrets` by `PLACEHOLDER`."""
    return Redactor(NO_REDACTION.finder(dict.fromkeys(secrets, KnownSecret("test", PLACEHOLDER))))
