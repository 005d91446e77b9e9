"""Recordings with the values of the client that they are played to."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Final

from llm_proxy import matching
from llm_proxy.cassette import Cassette
from llm_proxy.matching import Normalised, Rules
from llm_proxy.ports import Aside
from llm_proxy.renaming import renamed, values_of
from llm_proxy.routing import Call

_KEPT: Final = 32 * 1024 * 1024
"""Bytes of all recordings, requests too, of which it is kept which names the rules gave."""
_LARGE: Final = 16 * 1024
"""Bytes of a request or an answer that takes a few ms."""
_MANY: Final = 50
"""Values that take a few ms."""


class Renamer:
    """Renames what the operator's rules named, where a client calls it otherwise."""

    def __init__(self, aside: Aside) -> None:
        """`aside` runs a function that may take its time, while others are answered."""
        self._aside = aside
        self._known: OrderedDict[str, tuple[Cassette, Rules, Normalised]] = OrderedDict()
        """By file."""
        self._size = 0
        """Bytes of the recordings that are kept."""

    async def renamed(self, cassette: Cassette, call: Call) -> tuple[Cassette, int]:
        """The recording as this client would have had it, and how many values it took.

        The same one where no rule named anything, or nothing is called otherwise; and where the
        requests differ by more than names, for then a name may stand for one thing in the one and
        for another thing in the other.
        """
        if not call.rules.each or cassette.request.body == call.stored.body:
            return cassette, 0
        asked = call.normalised.names
        if not asked:
            return cassette, 0
        stored = await self._of(cassette, call.rules)
        is_large = max(cassette.end.size, len(cassette.request.body)) > _LARGE
        made = partial(_renamed, cassette, stored, call)
        return await self._aside(made) if is_large or len(asked) > _MANY else made()

    async def _of(self, cassette: Cassette, rules: Rules) -> Normalised:
        """What the rules make of the stored request."""
        kept = self._known.get(cassette.file)
        if kept is not None and kept[0] is cassette and kept[1] is rules:
            self._known.move_to_end(cassette.file)
            return kept[2]
        request = cassette.request
        made = partial(matching.normalised, cassette.meta.provider, request, rules)
        done = await self._aside(made) if len(request.body) > _LARGE else made()
        self._keep(cassette, rules, done)
        return done

    def _keep(self, cassette: Cassette, rules: Rules, done: Normalised) -> None:
        before = self._known.pop(cassette.file, None)
        self._size += _size(cassette) - (_size(before[0]) if before is not None else 0)
        self._known[cassette.file] = cassette, rules, done
        while self._size > _KEPT:
            _, (oldest, *_) = self._known.popitem(last=False)
            self._size -= _size(oldest)


def _renamed(cassette: Cassette, stored: Normalised, call: Call) -> tuple[Cassette, int]:
    asked = call.normalised
    if stored.document != asked.document:
        return cassette, 0
    values = values_of(stored.names, asked.names)
    return renamed(cassette, values) if values else (cassette, 0)


def _size(cassette: Cassette) -> int:
    """Bytes of its answer and its request, which is kept a second time."""
    return cassette.end.size + 2 * len(cassette.request.body)
