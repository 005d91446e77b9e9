"""`auto`: replays what is on disk, records what is not.

The nth request of a key in a session replays take n if it was on disk when the run started, and
becomes take n otherwise.
"""

from __future__ import annotations

from functools import partial

from llm_proxy.modes.base import LIVE, UNRECORDED, Mode, ModeResponse
from llm_proxy.modes.replay import ReplayMode, TakePlayer
from llm_proxy.ports import Recorder, TakeSource, Upstream
from llm_proxy.routing import RoutedRequest
from llm_proxy.take_numbers import OnMiss


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
    ) -> None:
        """A mode as `on_miss` responds to requests without a take.

        Similar cassettes are replayed only where no request goes to the provider.
        """
        fallback = None if isinstance(on_miss, str) else on_miss
        super().__init__(takes, player, "fail", fallback, after_last_nearest="repeat")
        self._upstream = upstream
        self._recorder = recorder
        self._on_miss: OnMiss | Mode = on_miss

    async def _respond_without_take(
        self, routed: RoutedRequest, request_ordinal: int, *, is_known: bool
    ) -> ModeResponse:
        """Streams the provider's response as it arrives, where `on_miss` allows that."""
        match self._on_miss:
            case "record":
                source = self._upstream.stream(
                    routed, partial(self._recorder.start_recording, routed, take=request_ordinal)
                )
                return ModeResponse(source, LIVE)
            case "passthrough":
                return ModeResponse(self._upstream.stream(routed, None), UNRECORDED)
            case _:
                return await super()._respond_without_take(
                    routed, request_ordinal, is_known=is_known
                )
