"""Checks a readable cassette's file name, key and folder against its content.

`parse_cassette` validates the file itself; this module checks it against the library's rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy import dialects, matching, redaction
from llm_proxy.cassette import Cassette, StoredRequest
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.matching import KEY_RULES_VERSION
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.routing import is_valid_name

_RECORD_AGAIN: Final = "record the cassette again"


def consistency_problems(
    cassette: Cassette, key_prefix: str | None, session: str | None
) -> Iterator[str]:
    """The problems of line 1, each in one sentence.

    `key_prefix` is the first 16 digits of the key in the file's name, None for another kind of
    name; `session` is that of the folder, None if the library is not known.
    """
    meta = cassette.meta
    known = [dialect.name for dialect in (*dialects.DIALECTS, dialects.OPAQUE)]
    if meta.dialect not in known:
        quoted_dialect = printable_excerpt(repr(meta.dialect), 60)
        yield (
            f"the dialect {quoted_dialect} is not supported by this version of llm-proxy; upgrade "
            f"llm-proxy, or {_RECORD_AGAIN}"
        )
    if key_prefix is not None and key_prefix != meta.key[:16]:
        yield (
            f"the key starts with {meta.key[:16]}, but the file name starts with {key_prefix}; "
            f"rename the file to {meta.key[:16]}-<take>.jsonl"
        )
    key = _recomputed_key(cassette)
    if key not in {None, meta.key} and not was_redacted_after_keying(cassette.request):
        yield (
            f'the key of the stored request is {str(key)[:16]}…, but "key" in line 1 is '
            f"{meta.key[:16]}…; {_RECORD_AGAIN}"
        )
    if meta.key_rules_version > KEY_RULES_VERSION:
        yield (
            f"key rules version {meta.key_rules_version} is not supported by this version of "
            f"llm-proxy (newest supported: {KEY_RULES_VERSION}); upgrade llm-proxy"
        )
    for label, name in (("session", meta.session), ("provider", meta.provider)):
        if not is_valid_name(name):
            yield (
                f"{printable_excerpt(repr(name), 60)} is not a valid {label} name; {_RECORD_AGAIN}"
            )
    if is_valid_name(meta.session) and session not in {None, meta.session}:
        own_folder = f"into the folder @{meta.session}/"
        if meta.session == DEFAULT_SESSION:
            own_folder = f"out of the folder @{session}/"
        yield (
            f"the session in line 1 is {meta.session}, but the file is in the folder of session "
            f"{session}; move the file {own_folder}"
        )


def _recomputed_key(cassette: Cassette) -> str | None:
    """The key of the stored request by the rules of line 1; None if this version lacks them."""
    meta = cassette.meta
    if meta.key_rules_version != KEY_RULES_VERSION:
        return None
    try:
        rules = parse_rules(meta.match_rules)
    except UsageError:  # of another version of this tool
        return None
    if redaction.has_older_rules(meta.redaction_rules_version):  # stored as it was keyed
        rules = replace(rules, redaction=redaction.NO_REDACTION)
    return matching.request_key(meta.provider, cassette.request, rules)


def was_redacted_after_keying(stored_request: StoredRequest) -> bool:
    """Whether the stored request was redacted after its key was computed.

    Its key is that of the request with the secrets, so it cannot be computed again.
    """
    headers = (value for _, value in stored_request.headers)
    texts = (stored_request.path, stored_request.query, *headers)
    return any(
        placeholder.encode() in stored_request.body or any(placeholder in text for text in texts)
        for placeholder in redaction.POST_KEY_PLACEHOLDERS
    )
