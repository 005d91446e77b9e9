"""`auto`: replays what is on disk, records what is not.

The nth request of a key in a session replays take n if it was on disk when the run started, and
becomes take n otherwise.  With `--again replay`, a request beyond the takes on disk replays what
this run has recorded for its key and session, if there is anything.
"""

from __future__ import annotations

from functools import partial

from llm_proxy.modes.base import LIVE, UNRECORDED, Mode, ModeResponse
from llm_proxy.modes.replay import ReplayMode, TakePlayer
from llm_proxy.ports import Recorder, TakeSource, Upstream
from llm_proxy.routing import RoutedRequest
from llm_proxy.take_numbers import Again, OnMiss, pick_take


class AutoMode(ReplayMode):
    """Replays requests that have a take; records the others, or handles them by `on_miss`."""

    name = "auto"

    def __init__(
        self,
        takes: TakeSource,
        upstream: Upstream,
        recorder: Recorder,
        player: TakePlayer,
        on_miss: OnMiss | Mode,
        again: Again = "record",
    ) -> None:
        """A mode as `on_miss` responds to requests without a take.

        Similar cassettes are replayed only where no request goes to the provider.  `again` applies
        to requests that this run has recorded.
        """
        fallback = None if isinstance(on_miss, str) else on_miss
        super().__init__(takes, player, "fail", fallback, after_last_nearest="repeat")
        self._upstream = upstream
        self._recorder = recorder
        self._on_miss: OnMiss | Mode = on_miss
        self._again: Again = again

    async def _respond_without_take(
        self, routed: RoutedRequest, request_ordinal: int, take_count: int
    ) -> ModeResponse:
        """Streams the provider's response as it arrives, where `on_miss` allows that."""
        match self._on_miss:
            case "record":
                if self._again == "replay":
                    takes_of_run = await self._recorder.takes_of_run(routed.session, routed.key)
                    take = pick_take(takes_of_run, request_ordinal - take_count, "repeat")
                    if take is not None:
                        pace = self._player.pace_of(routed)
                        return await self._player.replay_take(take, routed, request_ordinal, pace)
                source = self._upstream.stream(
                    routed, partial(self._recorder.start_recording, routed, take=request_ordinal)
                )
                return ModeResponse(source, LIVE)
            case "passthrough":
                return ModeResponse(self._upstream.stream(routed, None), UNRECORDED)
            case _:
                return await super()._respond_without_take(routed, request_ordinal, take_count)
