"""Checks a readable cassette's file name, key and folder against its content.

`read_cassette` has checked the file in itself; here it is held against the rules of the library.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from llm_proxy import dialects, matching, redaction
from llm_proxy.cassette import Cassette, StoredRequest
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.errors import UsageError, printable
from llm_proxy.matching import KEY_RULES
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.routing import is_valid_name

_EDITED: Final = "was edited by hand; record it again"


@dataclass(frozen=True, slots=True)
class LibraryLocation:
    """What a file's place in a library says about it."""

    key_prefix: str | None
    """The first digits of the key, as the file's name has them; None for another kind of name."""
    session: str | None
    """The session, as the folder has it; None where the library is not known."""


def integrity_complaints(cassette: Cassette, location: LibraryLocation) -> Iterator[str]:
    """What is wrong with line 1, each in one sentence."""
    meta = cassette.meta
    known = [dialect.name for dialect in (*dialects.DIALECTS, dialects.OPAQUE)]
    if meta.dialect not in known:
        named = printable(repr(meta.dialect), 60)
        yield (
            f"dialect {named} is not one that this version knows: upgrade llm-proxy, "
            f"unless line 1 {_EDITED}"
        )
    if location.key_prefix is not None and location.key_prefix != meta.key[:16]:
        yield (
            f"the key begins {meta.key[:16]}, the file's name says {location.key_prefix}: "
            f"a replay does not find it; rename the file to {meta.key[:16]}-<take>.jsonl"
        )
    key = _recomputed_key(cassette)
    if key not in {None, meta.key} and not has_other_key(cassette.request):
        yield (
            f"the stored request has key {str(key)[:16]}…, line 1 says {meta.key[:16]}…: "
            f"one of them {_EDITED}"
        )
    if meta.key_rules > KEY_RULES:
        yield f"key rules {meta.key_rules} are newer than ours ({KEY_RULES}): upgrade llm-proxy"
    for label, name in (("session", meta.session), ("provider", meta.provider)):
        if not is_valid_name(name):
            yield f"no {label} can be called {printable(repr(name), 60)}: line 1 {_EDITED}"
    if is_valid_name(meta.session) and location.session not in {None, meta.session}:
        yield (
            f"session {meta.session} lies in the folder of session {location.session}: "
            f"move it below {_session_folder(meta.session)}"
        )


def _recomputed_key(cassette: Cassette) -> str | None:
    """The key of the stored request, by the rules of line 1; None where these are not ours."""
    meta = cassette.meta
    if meta.key_rules != KEY_RULES:
        return None
    try:
        rules = parse_rules(meta.rules)
    except UsageError:  # of another version of this tool
        return None
    return matching.request_key(meta.provider, cassette.request, rules)


def has_other_key(stored_request: StoredRequest) -> bool:
    """Whether the key is that of another request than the stored one: with its secrets in it."""
    headers = (value for _, value in stored_request.headers)
    texts = (stored_request.path, stored_request.query, *headers)
    return any(
        mark.encode() in stored_request.body or any(mark in text for text in texts)
        for mark in redaction.AFTER_KEY
    )


def _session_folder(session: str) -> str:
    return "the library's own folder" if session == DEFAULT_SESSION else f"@{session}/"
