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

_HAND_EDITED_ADVICE: Final = "was edited by hand; record it again"


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
            f"dialect {quoted_dialect} is not one that this version knows: upgrade llm-proxy, "
            f"unless line 1 {_HAND_EDITED_ADVICE}"
        )
    if key_prefix is not None and key_prefix != meta.key[:16]:
        yield (
            f"the key begins {meta.key[:16]}, the file's name says {key_prefix}: "
            f"a replay does not find it; rename the file to {meta.key[:16]}-<take>.jsonl"
        )
    key = _recomputed_key(cassette)
    if key not in {None, meta.key} and not was_redacted_after_keying(cassette.request):
        yield (
            f"the stored request has key {str(key)[:16]}…, line 1 says {meta.key[:16]}…: "
            f"one of them {_HAND_EDITED_ADVICE}"
        )
    if meta.key_rules_version > KEY_RULES_VERSION:
        yield (
            f"key rules {meta.key_rules_version} are newer than ours ({KEY_RULES_VERSION}): "
            "upgrade "
            "llm-proxy"
        )
    for label, name in (("session", meta.session), ("provider", meta.provider)):
        if not is_valid_name(name):
            yield (
                f"no {label} can be called {printable_excerpt(repr(name), 60)}: line 1 "
                f"{_HAND_EDITED_ADVICE}"
            )
    if is_valid_name(meta.session) and session not in {None, meta.session}:
        own_folder = f"@{meta.session}/"
        if meta.session == DEFAULT_SESSION:
            own_folder = "the library's own folder"
        yield (
            f"session {meta.session} lies in the folder of session {session}: "
            f"move it below {own_folder}"
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
