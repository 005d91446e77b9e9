"""Buffers a body on its way: what is held, what is released, and where messages end."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

from llm_proxy import framing
from llm_proxy.actions import Action, Send, Wait


class BufferedBody:
    """The actions of a body that are held back, until somebody lets them go.

    Positions are bytes from the beginning of the body.
    """

    def __init__(self, codec: str) -> None:
        self._codec = framing.new_codec(codec)
        self._held_actions: deque[Action] = deque()
        self._open_message = bytearray()
        """The bytes behind the messages that have come whole."""
        self.fed_size = 0
        """Bytes that have come."""
        self.released_size = 0
        """Bytes that have gone out, or were taken out."""
        self.messages: list[bytes] = []
        """Those that have come whole."""
        self.message_ends: list[int] = []
        """Where each of them ends."""

    def feed(self, action: Action) -> None:
        """Hold an action."""
        self._held_actions.append(action)
        if isinstance(action, Send):
            self.fed_size += len(action.data)
            self._open_message += action.data
            self._record_messages(self._codec.feed(action.data))

    def close(self) -> None:
        """Nothing more comes."""
        self._record_messages(self._codec.close())

    def release_until(self, end: int) -> list[Action]:
        """Let everything go out up to that byte; what belongs to the next byte stays."""
        gone: list[Action] = []
        waits: list[Action] = []
        while self._held_actions and self.released_size < end:
            action = self._held_actions.popleft()
            if not isinstance(action, Send):
                waits.append(action)
                continue
            room = end - self.released_size
            data, rest = action.data[:room], action.data[room:]
            gone += [*waits, Send(data)]
            waits = []
            self.released_size += len(data)
            if rest:
                self._held_actions.appendleft(Send(rest))
        self._held_actions.extendleft(reversed(waits))
        return gone

    def release_all(self) -> list[Action]:
        """Let go of all that is held."""
        gone = list(self._held_actions)
        self._held_actions.clear()
        self.released_size = self.fed_size
        return gone

    def complete_message_count(self) -> int:
        """How many messages have gone out whole."""
        return bisect_right(self.message_ends, self.released_size)

    def partial_message_sent(self) -> bytes:
        """What has gone out of the message that is under way."""
        whole = self.complete_message_count()
        gone = self.released_size - (self.message_ends[whole - 1] if whole else 0)
        return bytes(
            (self.messages[whole] if whole < len(self.message_ends) else self._open_message)[:gone]
        )

    def _record_messages(self, messages: list[bytes]) -> None:
        at = self.message_ends[-1] if self.message_ends else 0
        for message in messages:
            at += len(message)
            self.messages.append(message)
            self.message_ends.append(at)
            del self._open_message[: len(message)]


def due_times_of(actions: Sequence[Action], ends: Sequence[int], begin: float) -> tuple[float, ...]:
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
