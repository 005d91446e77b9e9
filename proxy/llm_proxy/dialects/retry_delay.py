"""How long a refused client is told to wait, to the millisecond."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Final

from llm_proxy.dialects.base import Response

_NAMES: Final = frozenset(("retry-after", "retry-after-ms"))


def told(response: Response, ms: float | None) -> Response:
    """The refusal with the headers that say so; without any where `ms` is None."""
    headers = [it for it in response.head.headers if it[0].lower() not in _NAMES]
    if ms is not None:
        headers += [("retry-after-ms", _plain(ms)), ("retry-after", str(ceil(ms / 1000)))]
    return replace(response, head=replace(response.head, headers=tuple(headers)))


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)
