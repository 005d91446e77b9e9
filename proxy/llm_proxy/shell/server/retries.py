"""Recognises which request an SDK retries.

The SDKs of OpenAI and Anthropic send the number of previous attempts, but not which request they
retry.  That is inferred from the outcome of the identical requests: one that failed, else one that
is still running, whose client timed out.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final, Literal

from llm_proxy.routing import RoutedRequest
from llm_proxy.take_numbers import LogicalRequest

_MAX_OPEN_REQUESTS: Final = 10_000
"""Maximum number of open requests that are remembered, the latest."""

AttemptState = Literal["running", "failed"]


@dataclass(slots=True)
class _OpenRequest:
    """A request that may be retried: it is still running, or has failed."""

    logical_request: LogicalRequest
    fingerprint: bytes
    state: AttemptState = "running"


class RetryTracker:
    """Assigns the attempts of a client to logical requests."""

    def __init__(self) -> None:
        self._request_numbers = itertools.count(1)
        self._open_by_number: OrderedDict[int, _OpenRequest] = OrderedDict()
        self._open_by_fingerprint: dict[bytes, list[_OpenRequest]] = {}

    def assign_logical_request(self, routed: RoutedRequest) -> RoutedRequest:
        """The routed request with its logical request: a new one, or the one that it retries."""
        fingerprint = _request_fingerprint(routed)
        retry_count = routed.sdk_retry_count or 0
        preceding = self._preceding_attempt(fingerprint, retry_count)
        if preceding is None:
            logical_request = LogicalRequest(next(self._request_numbers), retry_count)
        else:
            self._forget_open(preceding)
            logical_request = replace(
                preceding.logical_request, attempt_index=preceding.logical_request.attempt_index + 1
            )
        self._remember_open(_OpenRequest(logical_request, fingerprint))
        return replace(routed, logical_request=logical_request)

    def end_attempt(self, routed: RoutedRequest, *, succeeded: bool) -> None:
        """End an attempt; a request that succeeded is no longer open."""
        open_request = (
            self._open_by_number.get(routed.logical_request.number)
            if routed.logical_request is not None
            else None
        )
        if (
            open_request is None or open_request.logical_request != routed.logical_request
        ):  # a later attempt took its place
            return
        if succeeded:
            self._forget_open(open_request)
        else:
            open_request.state = "failed"

    def _preceding_attempt(self, fingerprint: bytes, retry_count: int) -> _OpenRequest | None:
        """The attempt before this one, which has `retry_count` attempts before it."""
        if not retry_count:
            return None
        candidates = [
            open_request
            for open_request in self._open_by_fingerprint.get(fingerprint, ())
            if open_request.logical_request.attempt_index == retry_count - 1
        ]
        failed = [open_request for open_request in candidates if open_request.state == "failed"]
        return next(iter([*failed, *candidates]), None)

    def _remember_open(self, open_request: _OpenRequest) -> None:
        self._open_by_number[open_request.logical_request.number] = open_request
        self._open_by_fingerprint.setdefault(open_request.fingerprint, []).append(open_request)
        if len(self._open_by_number) > _MAX_OPEN_REQUESTS:
            self._forget_open(next(iter(self._open_by_number.values())))

    def _forget_open(self, open_request: _OpenRequest) -> None:
        del self._open_by_number[open_request.logical_request.number]
        open_requests = self._open_by_fingerprint[open_request.fingerprint]
        open_requests.remove(open_request)
        if not open_requests:
            del self._open_by_fingerprint[open_request.fingerprint]


def _request_fingerprint(routed: RoutedRequest) -> bytes:
    request = routed.decompressed_request
    digest = hashlib.sha256(request.body)
    for part in (routed.session, routed.provider, request.method, request.path, request.query):
        digest.update(b"\n" + part.encode("utf-8", "surrogateescape"))
    return digest.digest()
