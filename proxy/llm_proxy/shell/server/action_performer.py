"""Performs actions on the client's socket, each at its due time."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from llm_proxy.actions import Abort, ActionSource, Begin, Burst, Send, SendRaw, Wait
from llm_proxy.routing import RoutedRequest
from llm_proxy.shell.server.response_writer import ResponseWriter

_MAX_COLLECTED_PIECES: Final = 256
"""Maximum number of consecutive pieces that are framed together."""
_ACTIONS_PER_YIELD: Final = 4096
"""Actions after which other tasks get to run."""
_FLUSH_BYTES: Final = 256 * 1024
"""Buffered bytes that are flushed although no wait follows."""


@dataclass(slots=True)
class WriteLateness:
    """How late writes were against their due times, in ms."""

    write_count: int = 0
    total_ms: float = 0.0
    worst_ms: float = 0.0

    def add_lateness(self, late_ms: float) -> None:
        """Add one write that was `late_ms` late."""
        self.write_count += 1
        self.total_ms += late_ms
        self.worst_ms = max(self.worst_ms, late_ms)

    @property
    def mean_ms(self) -> float:
        """The mean lateness of all writes that had a due time."""
        return self.total_ms / self.write_count if self.write_count else 0.0


async def perform_actions(
    source: ActionSource, routed: RoutedRequest, writer: ResponseWriter, lateness: WriteLateness
) -> None:
    """Perform all actions of `source` on `writer`.

    Due times are absolute: an overdue write is made at once, and delays nothing after it.
    Raises `ConnectionError` if the client has gone, and whatever the source raises.
    """
    if isinstance(source, tuple):
        await _perform_burst(source, routed, writer, lateness)
    else:
        async with aclosing(source) as bursts:
            async for burst in bursts:
                await _perform_burst(burst, routed, writer, lateness)
                if writer.was_aborted:
                    return
                await writer.flush()
    if not writer.was_aborted:
        await writer.send_end()


async def _perform_burst(
    burst: Burst, routed: RoutedRequest, writer: ResponseWriter, lateness: WriteLateness
) -> None:
    """Perform a burst; consecutive pieces of the body are written together."""
    pieces: list[bytes] = []
    for number, action in enumerate(burst, 1):
        if number % _ACTIONS_PER_YIELD == 0:
            await asyncio.sleep(0)
        if isinstance(action, Send) and len(pieces) < _MAX_COLLECTED_PIECES:
            pieces.append(action.data)  # a replay has hundreds: as little work as possible
            continue
        if pieces:
            writer.buffer_body(pieces)
            pieces = []
            await writer.flush_if_larger(_FLUSH_BYTES)
        match action:
            case Wait(due_ms):
                if due_ms > routed.elapsed_ms():
                    await writer.flush()
                    # May be long: the task is cancelled when the client leaves or the server stops.
                    await asyncio.sleep((due_ms - routed.elapsed_ms()) / 1000)
                if due_ms > 0:
                    lateness.add_lateness(routed.elapsed_ms() - due_ms)
            case Begin(head):
                writer.buffer_head(head)
            case Send(data):
                writer.buffer_body([data])
            case SendRaw(data):
                writer.buffer_raw(data)
            case Abort(how):
                await writer.abort(how)
    writer.buffer_body(pieces)
