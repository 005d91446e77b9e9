"""Recognises which request an SDK retries.

The SDKs of OpenAI and Anthropic send the number of previous attempts, but not which request they
retry.  That is inferred from the outcome of the identical requests: one that failed, else one that
is still running, whose client timed out.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.routing import RoutedRequest
from llm_proxy.take_numbers import LogicalRequest

_MAX_OPEN_REQUESTS: Final = 10_000
"""Maximum number of open requests that are remembered, the latest."""


@dataclass(slots=True)
class _OpenRequest:
    """A request that may be retried: it is still running, or has failed."""

    logical_request: LogicalRequest
    fingerprint: bytes
    has_failed: bool = False


class RetryTracker:
    """Assigns the attempts of a client to logical requests."""

    def __init__(self) -> None:
        self._request_numbers = itertools.count(1)
        self._open_requests: dict[int, _OpenRequest] = {}
        """By the number of the logical request, in the order of their latest attempts."""

    def assign_logical_request(self, routed: RoutedRequest) -> RoutedRequest:
        """The routed request with its logical request: a new one, or the one that it retries."""
        fingerprint = _request_fingerprint(routed)
        retry_count = routed.sdk_retry_count or 0
        preceding_attempts = [
            open_request
            for open_request in (self._open_requests.values() if retry_count else ())
            if open_request.fingerprint == fingerprint
            and open_request.logical_request.attempt_index == retry_count - 1
        ]
        if preceding_attempts:
            preceding = max(preceding_attempts, key=lambda attempt: attempt.has_failed)
            logical_request = replace(preceding.logical_request, attempt_index=retry_count)
            del self._open_requests[logical_request.number]
        else:
            logical_request = LogicalRequest(next(self._request_numbers), retry_count)
        self._open_requests[logical_request.number] = _OpenRequest(logical_request, fingerprint)
        if len(self._open_requests) > _MAX_OPEN_REQUESTS:
            del self._open_requests[next(iter(self._open_requests))]
        return replace(routed, logical_request=logical_request)

    def end_attempt(self, routed: RoutedRequest, *, succeeded: bool) -> None:
        """End an attempt; a request that succeeded is no longer open."""
        logical_request = routed.logical_request
        open_request = self._open_requests.get(logical_request.number) if logical_request else None
        if open_request is None or open_request.logical_request != logical_request:
            return  # a later attempt took its place
        if succeeded:
            del self._open_requests[open_request.logical_request.number]
        else:
            open_request.has_failed = True


def _request_fingerprint(routed: RoutedRequest) -> bytes:
    request = routed.decompressed_request
    digest = hashlib.sha256(request.body)
    for part in (routed.session, routed.provider, request.method, request.path, request.query):
        digest.update(b"\n" + part.encode("utf-8", "surrogateescape"))
    return digest.digest()
