"""Recordings with the values of the client that they are played to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Final

from llm_proxy import matching
from llm_proxy.cassette import Cassette
from llm_proxy.matching import Rules
from llm_proxy.ports import Aside
from llm_proxy.renaming import renamed, values_of
from llm_proxy.routing import Call

_MANY: Final = 1000
"""Recordings of which it is kept which names the rules gave."""
_LARGE: Final = 16 * 1024
"""Bytes of a request or an answer that takes a few ms."""


class Renamer:
    """Renames what the operator's rules named, where a client calls it otherwise."""

    def __init__(self, aside: Aside) -> None:
        """`aside` runs a function that may take its time, while others are answered."""
        self._aside = aside
        self._names: OrderedDict[str, tuple[Cassette, Rules, Mapping[str, str]]] = OrderedDict()
        """By file."""

    async def renamed(self, cassette: Cassette, call: Call) -> tuple[Cassette, int]:
        """The recording as this client would have had it, and how many values it took.

        The same one where no rule named anything, or nothing is called otherwise.
        """
        if not call.rules.each or cassette.request.body == call.stored.body:
            return cassette, 0
        asked = call.normalised.names
        if not asked:
            return cassette, 0
        values = values_of(await self._of(cassette, call.rules), asked)
        if not values:
            return cassette, 0
        made = partial(renamed, cassette, values)
        return await self._aside(made) if cassette.end.size > _LARGE else made()

    async def _of(self, cassette: Cassette, rules: Rules) -> Mapping[str, str]:
        """The names that the rules give in the stored request."""
        kept = self._names.pop(cassette.file, None)
        if kept is not None and kept[0] is cassette and kept[1] is rules:
            self._names[cassette.file] = kept
            return kept[2]
        request = cassette.request
        made = partial(matching.normalised, cassette.meta.provider, request, rules)
        names = (await self._aside(made) if len(request.body) > _LARGE else made()).names
        self._names[cassette.file] = cassette, rules, names
        if len(self._names) > _MANY:
            self._names.popitem(last=False)
        return names
