"""`record`: every call goes to the live provider, and is taken down."""

from __future__ import annotations

from llm_proxy.modes.base import LIVE, Answer
from llm_proxy.ports import Recorder, Upstream
from llm_proxy.routing import Call


class Record:
    """Passes calls on and keeps what comes back."""

    name = "record"

    def __init__(self, upstream: Upstream, recorder: Recorder) -> None:
        self._upstream = upstream
        self._recorder = recorder

    async def answer(self, call: Call) -> Answer:
        """The provider's answer."""
        return Answer(self._upstream.stream(call, lambda: self._recorder.start(call)), LIVE)

    def reset(self, session: str) -> None:
        """Number the session's takes from 1 again."""
        self._recorder.reset(session)
