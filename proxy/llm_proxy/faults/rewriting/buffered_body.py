"""A body on its way: what of it is held, what has gone out, and where its messages end."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

from llm_proxy import framing
from llm_proxy.actions import Action, Send, Wait


class Body:
    """The actions of a body that are held back, until somebody lets them go.

    Positions are bytes from the beginning of the body.
    """

    def __init__(self, codec: str) -> None:
        self._codec = framing.codec(codec)
        self._held: deque[Action] = deque()
        self._open = bytearray()
        """The bytes behind the messages that have come whole."""
        self.fed = 0
        """Bytes that have come."""
        self.released = 0
        """Bytes that have gone out, or were taken out."""
        self.messages: list[bytes] = []
        """Those that have come whole."""
        self.ends: list[int] = []
        """Where each of them ends."""

    def feed(self, action: Action) -> None:
        """Hold an action."""
        self._held.append(action)
        if isinstance(action, Send):
            self.fed += len(action.data)
            self._open += action.data
            self._know(self._codec.feed(action.data))

    def close(self) -> None:
        """Nothing more comes."""
        self._know(self._codec.close())

    def release(self, end: int) -> list[Action]:
        """Let everything go out up to that byte; what belongs to the next byte stays."""
        gone: list[Action] = []
        waits: list[Action] = []
        while self._held and self.released < end:
            action = self._held.popleft()
            if not isinstance(action, Send):
                waits.append(action)
                continue
            room = end - self.released
            data, rest = action.data[:room], action.data[room:]
            gone += [*waits, Send(data)]
            waits = []
            self.released += len(data)
            if rest:
                self._held.appendleft(Send(rest))
        self._held.extendleft(reversed(waits))
        return gone

    def everything(self) -> list[Action]:
        """Let go of all that is held."""
        gone = list(self._held)
        self._held.clear()
        self.released = self.fed
        return gone

    def whole(self) -> int:
        """How many messages have gone out whole."""
        return bisect_right(self.ends, self.released)

    def begun(self) -> bytes:
        """What has gone out of the message that is under way."""
        whole = self.whole()
        gone = self.released - (self.ends[whole - 1] if whole else 0)
        return bytes((self.messages[whole] if whole < len(self.ends) else self._open)[:gone])

    def _know(self, messages: list[bytes]) -> None:
        at = self.ends[-1] if self.ends else 0
        for message in messages:
            at += len(message)
            self.messages.append(message)
            self.ends.append(at)
            del self._open[: len(message)]


def dues_of(actions: Sequence[Action], ends: Sequence[int], begin: float) -> tuple[float, ...]:
    """When each of these bytes was due, in ms, where the actions begin at that moment.

    The bytes are counted from the first that the actions send, and ascend.
    """
    dues: list[float] = []
    due, sent = begin, 0
    for action in actions:
        match action:
            case Wait():
                due = action.due
            case Send():
                sent += len(action.data)
                while len(dues) < len(ends) and ends[len(dues)] <= sent:
                    dues.append(due)
            case _:
                pass
    return tuple(dues)
