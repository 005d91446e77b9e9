"""Buffers a body while it arrives: what is held, what is released, and where messages end."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

from llm_proxy import framing
from llm_proxy.actions import Action, Send, Wait


class BufferedBody:
    """Holds the actions of a body until they are released.

    Offsets are in bytes from the beginning of the body.
    """

    def __init__(self, codec: str) -> None:
        self._codec = framing.new_codec(codec)
        self._held_actions: deque[Action] = deque()
        self._open_message = bytearray()
        """The bytes after the last complete message."""
        self.fed_bytes = 0
        """Bytes that were fed."""
        self.released_bytes = 0
        """Bytes that were released, to be sent or to be replaced."""
        self.messages: list[bytes] = []
        """The complete messages, released or not."""
        self.message_ends: list[int] = []
        """The offset at which each of `messages` ends."""

    def feed(self, action: Action) -> None:
        """Adds an action after those that are held."""
        self._held_actions.append(action)
        if isinstance(action, Send):
            self.fed_bytes += len(action.data)
            self._open_message += action.data
            self._record_messages(self._codec.feed(action.data))

    def close(self) -> None:
        """Ends the body: the bytes that are left become its last message."""
        self._record_messages(self._codec.close())

    def release_until(self, end: int) -> list[Action]:
        """Releases the actions up to that offset; a `Wait` before the next byte stays held."""
        released: list[Action] = []
        pending_waits: list[Action] = []
        while self._held_actions and self.released_bytes < end:
            action = self._held_actions.popleft()
            if not isinstance(action, Send):
                pending_waits.append(action)
                continue
            remaining_bytes = end - self.released_bytes
            released_data, held_data = action.data[:remaining_bytes], action.data[remaining_bytes:]
            released += [*pending_waits, Send(released_data)]
            pending_waits = []
            self.released_bytes += len(released_data)
            if held_data:
                self._held_actions.appendleft(Send(held_data))
        self._held_actions.extendleft(reversed(pending_waits))
        return released

    def release_all(self) -> list[Action]:
        """Releases all actions that are held."""
        released = list(self._held_actions)
        self._held_actions.clear()
        self.released_bytes = self.fed_bytes
        return released

    def released_message_count(self) -> int:
        """How many messages were released completely."""
        return bisect_right(self.message_ends, self.released_bytes)

    def released_message_prefix(self) -> bytes:
        """The released part of the message that is not released completely."""
        released_count = self.released_message_count()
        partial_bytes = self.released_bytes - (
            self.message_ends[released_count - 1] if released_count else 0
        )
        return bytes(
            (
                self.messages[released_count]
                if released_count < len(self.message_ends)
                else self._open_message
            )[:partial_bytes]
        )

    def _record_messages(self, messages: list[bytes]) -> None:
        end = self.message_ends[-1] if self.message_ends else 0
        for message in messages:
            end += len(message)
            self.messages.append(message)
            self.message_ends.append(end)
            del self._open_message[: len(message)]


def offset_due_times_ms(
    actions: Sequence[Action], end_offsets: Sequence[int], begin_ms: float
) -> tuple[float, ...]:
    """When the bytes before each of these offsets are due in full, for actions from `begin_ms` on.

    Offsets count from the first byte that the actions send, in ascending order.
    """
    due_times: list[float] = []
    due_ms, sent_bytes = begin_ms, 0
    for action in actions:
        match action:
            case Wait():
                due_ms = action.due
            case Send():
                sent_bytes += len(action.data)
                while (
                    len(due_times) < len(end_offsets) and end_offsets[len(due_times)] <= sent_bytes
                ):
                    due_times.append(due_ms)
            case _:
                pass
    return tuple(due_times)
