"""Headers that tell a refused client how long to wait, in ms."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Final

from llm_proxy.dialects.base import DialectResponse

_NAMES: Final = frozenset(("retry-after", "retry-after-ms"))


def with_retry_headers(response: DialectResponse, ms: float | None) -> DialectResponse:
    """The refusal with the headers that say so; without any where `ms` is None."""
    headers = [header for header in response.head.headers if header[0].lower() not in _NAMES]
    if ms is not None:
        headers += [("retry-after-ms", _format_number(ms)), ("retry-after", str(ceil(ms / 1000)))]
    return replace(response, head=replace(response.head, headers=tuple(headers)))


def _format_number(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)
