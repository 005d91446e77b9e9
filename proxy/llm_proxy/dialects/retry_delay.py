"""Retry headers: how long a rejected client must wait."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Final

from llm_proxy.dialects.base import DialectResponse

_RETRY_HEADERS: Final = frozenset(("retry-after", "retry-after-ms"))


def with_retry_headers(response: DialectResponse, delay_ms: float | None) -> DialectResponse:
    """The response with its retry headers replaced by this delay; without any if it is None."""
    headers = [
        header for header in response.head.headers if header[0].lower() not in _RETRY_HEADERS
    ]
    if delay_ms is not None:
        headers += [
            ("retry-after-ms", _format_number(delay_ms)),
            ("retry-after", str(ceil(delay_ms / 1000))),
        ]
    return replace(response, head=replace(response.head, headers=tuple(headers)))


def _format_number(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)
