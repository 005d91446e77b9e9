"""`auto`: what is on disk is played, what is not goes live and is taken down.

The nth request of a key in a session plays take n if it was on disk when the run started, and
becomes take n otherwise.
"""

from __future__ import annotations

from contextlib import suppress

from llm_proxy.errors import NotSimulated
from llm_proxy.modes.base import LIVE, UNRECORDED, Answer, Mode, answer_to_probe
from llm_proxy.modes.nearest import nearest
from llm_proxy.modes.take_player import Player
from llm_proxy.ports import Recorder, Takes, Upstream
from llm_proxy.routing import Call
from llm_proxy.take_numbers import OnMiss, Ordinals


class Auto:
    """Plays and records, whichever is called for."""

    name = "auto"

    def __init__(
        self,
        takes: Takes,
        upstream: Upstream,
        recorder: Recorder,
        player: Player,
        on_miss: OnMiss | Mode,
    ) -> None:
        """A mode in the place of `on_miss` answers what is not on disk."""
        self._takes = takes
        self._upstream = upstream
        self._recorder = recorder
        self._player = player
        self._on_miss: OnMiss | Mode = on_miss
        self._ordinals = Ordinals()

    async def answer(self, call: Call) -> Answer:
        """Take n, or the provider's answer, which comes as it comes."""
        pace = self._player.pace(call)
        ordinal = self._ordinals.next(call.session, call.key, call.wish)
        takes = await self._takes.of(call.session, call.key)
        if ordinal <= len(takes):
            return await self._player.play(takes[ordinal - 1], call, ordinal, pace)
        match self._on_miss:
            case "record":
                source = self._upstream.stream(call, lambda: self._recorder.start(call, ordinal))
                return Answer(source, LIVE)
            case "passthrough":
                return Answer(self._upstream.stream(call, None), UNRECORDED)
            case "fail":
                near = None if takes else await self._nearest(call, ordinal)
                answer = near or answer_to_probe(call)
                if answer is None:
                    raise await self._takes.miss(call, ordinal)
                return answer
            case other:
                if not takes and (near := await self._nearest(call, ordinal)) is not None:
                    return near
                with suppress(NotSimulated):
                    return await other.answer(call)
                raise await self._takes.miss(call, ordinal)

    async def _nearest(self, call: Call, ordinal: int) -> Answer | None:
        """What is only alike answers where nothing goes live."""
        return await nearest(self._takes, self._player, call, ordinal, "repeat")

    def reset(self, session: str) -> None:
        """Begin with the session's first takes again."""
        self._ordinals.reset(session)
        if not isinstance(self._on_miss, str):
            self._on_miss.reset(session)
