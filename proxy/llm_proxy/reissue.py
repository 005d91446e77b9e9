"""Rebuilds a stored request so that it can be sent to its provider again."""

from __future__ import annotations

from typing import Final

from llm_proxy import providers, redaction
from llm_proxy.cassette import CassetteMeta, StoredRequest
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Request

_REQUEST_LINE_NUMBER: Final = 2
"""The line of a cassette that holds the request."""


def reissued_request(file: str, meta: CassetteMeta, stored: StoredRequest, api_key: str) -> Request:
    """A stored request to send again, with this API key; an empty key is not sent.

    With a key, the parameters that held a redacted key are dropped.  Raises `CassetteError` if
    anything else in the request was redacted: it would be a different request.
    """
    check_redaction(file, stored, has_api_key=bool(api_key))
    query = drop_redacted_parameters(stored.query)[0] if api_key else stored.query
    headers = stored.headers
    if api_key:
        headers = (*headers, providers.credential_header(meta.provider, api_key))
    return Request(stored.method, stored.path, query, headers, stored.body)


def check_redaction(file: str, stored: StoredRequest, *, has_api_key: bool) -> None:
    """Raise `CassetteError` if anything in the request was redacted.

    With an API key, the parameters that held a redacted key do not count.
    """
    dropped_count = drop_redacted_parameters(stored.query)[1] if has_api_key else 0
    if (
        stored.redacted_count > dropped_count
        or redaction.OPERATOR_PLACEHOLDER.encode() in stored.body
    ):
        redacted_text = (
            "an API key in the query"
            if not has_api_key and drop_redacted_parameters(stored.query)[1]
            else "a secret"
        )
        raise CassetteError(
            file,
            _REQUEST_LINE_NUMBER,
            f"the recorded request contains {redaction.PLACEHOLDER} in place of {redacted_text} "
            "and cannot be sent again; record the request with llm-proxy record",
        )


def drop_redacted_parameters(query: str) -> tuple[str, int]:
    """A query without the parameters whose value was redacted, and their number."""
    pairs = [pair for pair in query.split("&") if pair]
    kept: list[str] = []
    for pair in pairs:
        name, _, value = pair.partition("=")
        if value != redaction.PLACEHOLDER or not redaction.is_secret_parameter(name):
            kept.append(pair)
    return "&".join(kept), len(pairs) - len(kept)
