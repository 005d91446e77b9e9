"""Which request an SDK repeats when it says that it does.

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

from llm_proxy.exchange import header
from llm_proxy.routing import Call
from llm_proxy.take_numbers import Wish

COUNT: Final = "x-stainless-retry-count"
_COUNT: Final = re.compile("[0-9]{1,4}")
_KEPT: Final = 10_000
"""Requests that are remembered at a time, the latest."""

State = Literal["running", "failed"]


def retry_count(call: Call) -> int | None:
    """How often its client's SDK says that it has asked before; None where it says nothing."""
    count = header(call.plain.headers, COUNT) or ""
    return int(count) if _COUNT.fullmatch(count) else None


@dataclass(slots=True)
class _Open:
    """A request that may be repeated: one that is well over is none."""

    wish: Wish
    alike: bytes
    state: State = "running"


class Retries:
    """Finds out which requests belong together."""

    def __init__(self, *, collapses: bool = False) -> None:
        """Unless it `collapses` them, each request stands for itself."""
        self._collapses = collapses
        self._numbers = itertools.count(1)
        self._open: OrderedDict[int, _Open] = OrderedDict()
        self._alike: dict[bytes, list[_Open]] = {}

    def joined(self, call: Call) -> Call:
        """The call with the wish that it is an attempt of: a new one, or that which it repeats."""
        if not self._collapses:
            return call
        alike = _alike(call)
        before = self._before(alike, retry_count(call) or 0)
        if before is None:
            wish = Wish(next(self._numbers), retry_count(call) or 0)
        else:
            self._forget(before)
            wish = replace(before.wish, attempt=before.wish.attempt + 1)
        self._remember(_Open(wish, alike))
        return replace(call, wish=wish)

    def ended(self, call: Call, *, well: bool) -> None:
        """An attempt is over."""
        it = self._open.get(call.wish.number) if call.wish is not None else None
        if it is None or it.wish != call.wish:  # a later attempt took its place
            return
        if well:
            self._forget(it)
        else:
            it.state = "failed"

    def _before(self, alike: bytes, count: int) -> _Open | None:
        """The attempt that this one follows, `count` of which came before it."""
        if not count:
            return None
        fitting = [it for it in self._alike.get(alike, ()) if it.wish.attempt == count - 1]
        failed = [it for it in fitting if it.state == "failed"]
        return next(iter([*failed, *fitting]), None)

    def _remember(self, it: _Open) -> None:
        self._open[it.wish.number] = it
        self._alike.setdefault(it.alike, []).append(it)
        if len(self._open) > _KEPT:
            self._forget(next(iter(self._open.values())))

    def _forget(self, it: _Open) -> None:
        del self._open[it.wish.number]
        same = self._alike[it.alike]
        same.remove(it)
        if not same:
            del self._alike[it.alike]


def _alike(call: Call) -> bytes:
    """A hash of what an SDK repeats as it was."""
    asked = call.plain
    digest = hashlib.sha256(asked.body)
    for part in (call.session, call.provider, asked.method, asked.path, asked.query):
        digest.update(b"\n" + part.encode("utf-8", "surrogateescape"))
    return digest.digest()
