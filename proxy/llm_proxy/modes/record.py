"""`record`: sends every request to the live provider and records the response."""

from __future__ import annotations

from functools import partial

from llm_proxy.modes.base import LIVE, ModeResponse
from llm_proxy.ports import Recorder, Upstream
from llm_proxy.routing import RoutedRequest


class RecordMode:
    """Forwards requests to the provider and records the exchanges."""

    name = "record"

    def __init__(self, upstream: Upstream, recorder: Recorder) -> None:
        self._upstream = upstream
        self._recorder = recorder

    async def respond(self, routed: RoutedRequest) -> ModeResponse:
        """Streams the provider's response as it arrives."""
        return ModeResponse(
            self._upstream.stream(routed, partial(self._recorder.start_recording, routed)), LIVE
        )

    def reset_session(self, session: str) -> None:
        """Numbers the session's takes from 1 again."""
        self._recorder.reset_session(session)
