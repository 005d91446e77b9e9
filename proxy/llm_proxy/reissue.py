"""Rebuilds a stored request so that it can be sent to its provider again."""

from __future__ import annotations

from typing import Final

from llm_proxy import providers, redaction
from llm_proxy.cassette import Meta, StoredRequest
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Request
from llm_proxy.secret_names import is_secret_parameter

_LINE: Final = 2
"""Of a cassette, where its request stands."""


def reissued_request(file: str, meta: Meta, stored: StoredRequest, key: str) -> Request:
    """The request as its provider is asked again, with this key; an empty one is not sent.

    A parameter that held a key is left out where one is sent.  Raises `CassetteError` for a
    request of which something else was replaced: it would ask something else.
    """
    query, dropped = query_without_placeholders(stored.query) if key else (stored.query, 0)
    if stored.redacted > dropped or redaction.OF_OPERATOR.encode() in stored.body:
        what = (
            "a key in its query"
            if not key and query_without_placeholders(stored.query)[1]
            else "a secret"
        )
        raise CassetteError(
            file,
            _LINE,
            f"{what} was replaced by {redaction.PLACEHOLDER} when it was recorded, so it cannot be "
            "asked again: record it anew with llm-proxy record",
        )
    headers = stored.headers
    if key:
        headers = (*headers, providers.credential_header(meta.provider, key))
    return Request(stored.method, stored.path, query, headers, stored.body)


def query_without_placeholders(query: str) -> tuple[str, int]:
    """A query without the parameters whose secret was replaced, and how many there were."""
    pairs = [pair for pair in query.split("&") if pair]
    kept = [pair for pair in pairs if not _is_redacted_parameter(pair)]
    return "&".join(kept), len(pairs) - len(kept)


def _is_redacted_parameter(pair: str) -> bool:
    name, _, value = pair.partition("=")
    return value == redaction.PLACEHOLDER and is_secret_parameter(name)
