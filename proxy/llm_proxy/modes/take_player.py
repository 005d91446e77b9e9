"""Plays takes: what `replay` and `auto` have in common."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Final

from llm_proxy.actions import Burst
from llm_proxy.cassette import Cassette
from llm_proxy.modes.base import Answer
from llm_proxy.modes.renaming import Renamer
from llm_proxy.pacing import Modelled, Pace, Rate
from llm_proxy.pacing.cassette_player import is_slow, play
from llm_proxy.pacing.paced_response import told
from llm_proxy.pacing.requested_pace import asked_pace
from llm_proxy.pacing.timing import Chance, Told, chance
from llm_proxy.ports import Aside, Paces, Take
from llm_proxy.routing import Call

_KEPT: Final = 64 * 1024 * 1024
"""Bytes of all recordings, requests too, of which it is kept what was read to pace them."""


class Player:
    """Plays takes, each at the pace that holds for its request."""

    def __init__(self, paces: Paces, aside: Aside, nearest: float | None = None) -> None:
        """`aside` runs a function that may take its time, while others are answered.

        `nearest` is how alike, from 0 to 1, a cassette must be that answers where none is the same;
        None where none may.
        """
        self.nearest = nearest
        self._paces = paces
        self._aside = aside
        self._renamer = Renamer(aside)
        self._kept: OrderedDict[tuple[str, bool], tuple[Cassette, Told]] = OrderedDict()
        """By file, and whether it is played in the pieces in which it was recorded."""
        self._size = 0
        """Bytes of the recordings that are kept."""

    def pace(self, call: Call) -> Pace:
        """The request's own pace, else its session's.  Raises `RequestRefused`."""
        return asked_pace(call) or self._paces.of(call.session)

    async def play(self, take: Take, call: Call, ordinal: int, pace: Pace) -> Answer:
        """The answer that plays a take; `ordinal` is the request's, of its session and key.

        Raises `CassetteError` when the take cannot be trusted.
        """
        recorded = await take.cassette()
        cassette, renamed = await self._renamer.renamed(recorded, call)
        rolls = chance(self._paces.seed, call.session, call.key, ordinal)
        read = self._read(cassette, pace)
        made = partial(_played, cassette, pace, rolls, read)
        burst, read = await self._aside(made) if is_slow(cassette, pace, read) else made()
        if cassette is recorded:  # another client has another one
            self._keep(cassette, pace, read)
        at = cassette.meta.recorded
        return Answer(burst, take.file, recorded=at, renamed=renamed, pace=str(pace))

    def _read(self, cassette: Cassette, pace: Pace) -> Told | None:
        """What was read of a recording, if it is known."""
        of, read = self._kept.get(_key(cassette, pace), (None, None))
        return read if of is cassette else None

    def _keep(self, cassette: Cassette, pace: Pace, read: Told | None) -> None:
        """Keep what was read, for the next request that is answered so."""
        if read is None:
            return
        key = _key(cassette, pace)
        before, _ = self._kept.pop(key, (None, None))
        self._size += _size(cassette) - (_size(before) if before is not None else 0)
        self._kept[key] = cassette, read
        while self._size > _KEPT:
            _, (oldest, _) = self._kept.popitem(last=False)
            self._size -= _size(oldest)


def _size(cassette: Cassette) -> int:
    """Bytes of its request and its answer."""
    return cassette.end.size + len(cassette.request.body)


def _key(cassette: Cassette, pace: Pace) -> tuple[str, bool]:
    return cassette.file, pace.chunks == "recorded"


def _played(
    cassette: Cassette, pace: Pace, rolls: Chance, read: Told | None
) -> tuple[Burst, Told | None]:
    """The actions, and what was read to make them; None where nothing had to be."""
    if isinstance(pace, Rate | Modelled):
        read = read or told(cassette, pace.chunks)
        return play(cassette, pace, rolls, read), read
    return play(cassette, pace, rolls), None
