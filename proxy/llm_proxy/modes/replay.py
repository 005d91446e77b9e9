"""`replay`: every call is answered from a cassette, and the network is never touched."""

from __future__ import annotations

from contextlib import suppress

from llm_proxy.errors import NotSimulated
from llm_proxy.modes.base import Answer, Mode, answer_to_probe
from llm_proxy.modes.nearest import nearest
from llm_proxy.modes.take_player import Player
from llm_proxy.ports import Takes
from llm_proxy.routing import Call
from llm_proxy.take_numbers import AfterLast, Ordinals, pick


class Replay:
    """Plays the takes of a key one after another, each session on its own."""

    name = "replay"

    def __init__(
        self, takes: Takes, player: Player, after_last: AfterLast, simulate: Mode | None = None
    ) -> None:
        """`simulate` answers what is not on disk; without it, that is a miss."""
        self._simulate = simulate
        self._takes = takes
        self._player = player
        self._after_last: AfterLast = after_last
        self._ordinals = Ordinals()

    async def answer(self, call: Call) -> Answer:
        """The next take of this call's key."""
        pace = self._player.pace(call)
        ordinal = self._ordinals.next(call.session, call.key, call.wish)
        takes = await self._takes.of(call.session, call.key)
        take = pick(takes, ordinal, self._after_last)
        if take is None:
            near = None
            if not takes:
                near = await nearest(self._takes, self._player, call, ordinal, self._after_last)
            return near or await self._missed(call, ordinal)
        return await self._player.play(take, call, ordinal, pace)

    async def _missed(self, call: Call, ordinal: int) -> Answer:
        if (answer := answer_to_probe(call)) is not None:
            return answer
        if self._simulate is not None:
            with suppress(NotSimulated):
                return await self._simulate.answer(call)
        raise await self._takes.miss(call, ordinal)

    def reset(self, session: str) -> None:
        """Play the session's takes from the first again."""
        self._ordinals.reset(session)
        if self._simulate is not None:
            self._simulate.reset(session)
