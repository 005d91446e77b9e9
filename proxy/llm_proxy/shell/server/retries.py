"""Recognises which request an SDK retries.

The SDKs of OpenAI and Anthropic send `x-stainless-retry-count`: how often they have asked before.
They do not say which request they repeat, so it is told by what became of those that were the
same: one that failed, else one that is not over yet, whose client lost its patience.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final, Literal

from llm_proxy.exchange import header_value
from llm_proxy.routing import RoutedRequest
from llm_proxy.take_numbers import LogicalRequest

COUNT: Final = "x-stainless-retry-count"
_COUNT: Final = re.compile("[0-9]{1,4}")
_KEPT: Final = 10_000
"""Requests that are remembered at a time, the latest."""

State = Literal["running", "failed"]


def sdk_retry_count(routed: RoutedRequest) -> int | None:
    """How often its client's SDK says that it has asked before; None where it says nothing."""
    count = header_value(routed.decompressed.headers, COUNT) or ""
    return int(count) if _COUNT.fullmatch(count) else None


@dataclass(slots=True)
class _OpenRequest:
    """A request that may be repeated: one that is well over is none."""

    logical_request: LogicalRequest
    fingerprint: bytes
    state: State = "running"


class RetryTracker:
    """Finds out which requests belong together."""

    def __init__(self, *, collapses: bool = False) -> None:
        """Unless it `collapses` them, each request stands for itself."""
        self._is_enabled = collapses
        self._request_numbers = itertools.count(1)
        self._open_by_number: OrderedDict[int, _OpenRequest] = OrderedDict()
        self._request_fingerprint: dict[bytes, list[_OpenRequest]] = {}

    def join(self, routed: RoutedRequest) -> RoutedRequest:
        """The call with the wish that it is an attempt of: a new one, or that which it repeats."""
        if not self._is_enabled:
            return routed
        alike = _request_fingerprint(routed)
        before = self._preceding_attempt(alike, sdk_retry_count(routed) or 0)
        if before is None:
            wish = LogicalRequest(next(self._request_numbers), sdk_retry_count(routed) or 0)
        else:
            self._forget_open(before)
            wish = replace(before.logical_request, attempt=before.logical_request.attempt + 1)
        self._remember_open(_OpenRequest(wish, alike))
        return replace(routed, logical_request=wish)

    def finish(self, routed: RoutedRequest, *, succeeded: bool) -> None:
        """An attempt is over."""
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

    def _preceding_attempt(self, alike: bytes, count: int) -> _OpenRequest | None:
        """The attempt that this one follows, `count` of which came before it."""
        if not count:
            return None
        fitting = [
            open_request
            for open_request in self._request_fingerprint.get(alike, ())
            if open_request.logical_request.attempt == count - 1
        ]
        failed = [open_request for open_request in fitting if open_request.state == "failed"]
        return next(iter([*failed, *fitting]), None)

    def _remember_open(self, open_request: _OpenRequest) -> None:
        self._open_by_number[open_request.logical_request.number] = open_request
        self._request_fingerprint.setdefault(open_request.fingerprint, []).append(open_request)
        if len(self._open_by_number) > _KEPT:
            self._forget_open(next(iter(self._open_by_number.values())))

    def _forget_open(self, open_request: _OpenRequest) -> None:
        del self._open_by_number[open_request.logical_request.number]
        same = self._request_fingerprint[open_request.fingerprint]
        same.remove(open_request)
        if not same:
            del self._request_fingerprint[open_request.fingerprint]


def _request_fingerprint(routed: RoutedRequest) -> bytes:
    request = routed.decompressed
    digest = hashlib.sha256(request.body)
    for part in (routed.session, routed.provider, request.method, request.path, request.query):
        digest.update(b"\n" + part.encode("utf-8", "surrogateescape"))
    return digest.digest()
