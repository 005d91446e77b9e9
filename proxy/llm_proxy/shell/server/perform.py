"""Performs actions on the client's socket, each at its due time."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from llm_proxy.actions import Abort, Action, Begin, Burst, Send, SendRaw, Source, Wait
from llm_proxy.routing import RoutedRequest
from llm_proxy.shell.server.response_writer import ResponseWriter

_ENOUGH: Final = 256
"""Pieces that are collected before they are framed, where nothing says wait."""
_TURN: Final = 4096
"""Actions after which everybody else has a turn."""
_LARGE: Final = 256 * 1024
"""Bytes that are collected before they are handed over, where nothing says wait."""


@dataclass(slots=True)
class WriteLateness:
    """How far writes were behind their due times, in ms."""

    waits: int = 0
    total: float = 0.0
    worst: float = 0.0

    def add(self, late: float) -> None:
        """One write was `late` ms behind."""
        self.waits += 1
        self.total += late
        self.worst = max(self.worst, late)

    @property
    def mean(self) -> float:
        """The mean over all writes that had a due time."""
        return self.total / self.waits if self.waits else 0.0


async def perform(
    source: Source, routed: RoutedRequest, wire: ResponseWriter, lateness: WriteLateness
) -> None:
    """Perform all of `source` on `wire`.

    Due times are absolute: what is overdue goes at once, and makes nothing after it late.
    Raises `ConnectionError` when the client has gone, and whatever the source raises.
    """
    if isinstance(source, tuple):
        await _perform_burst(source, routed, wire, lateness)
    else:
        async with aclosing(source) as bursts:
            async for burst in bursts:
                await _perform_burst(burst, routed, wire, lateness)
                if wire.was_aborted:
                    return
                await wire.flush()
    if not wire.was_aborted:
        await wire.send_end()


async def _perform_burst(
    burst: Burst, routed: RoutedRequest, wire: ResponseWriter, lateness: WriteLateness
) -> None:
    """Perform what is known together: pieces that nothing keeps apart are written as one."""
    pieces: list[bytes] = []
    for number, action in enumerate(burst, 1):
        if number % _TURN == 0:
            await asyncio.sleep(0)
        if isinstance(action, Send) and len(pieces) < _ENOUGH:
            pieces.append(action.data)  # hundreds make a replay: as little as can be for each
            continue
        if pieces:
            wire.send(pieces)
            pieces = []
            await wire.flush_if_larger(_LARGE)
        await _perform_action(action, routed, wire, lateness)
    wire.send(pieces)


async def _perform_action(
    action: Action, routed: RoutedRequest, wire: ResponseWriter, lateness: WriteLateness
) -> None:
    match action:
        case Wait(due):
            await _wait_until_due(due, routed, wire, lateness)
        case Begin(head):
            wire.send_head(head)
        case Send(data):
            wire.send([data])
        case SendRaw(data):
            wire.send_raw(data)
        case Abort(how):
            await wire.abort(how)


async def _wait_until_due(
    due: float, routed: RoutedRequest, wire: ResponseWriter, lateness: WriteLateness
) -> None:
    early = due - routed.elapsed_ms()
    if early > 0:
        await wire.flush()
        # As long as the recording says: the wait ends with the client, or with the server.
        await asyncio.sleep((due - routed.elapsed_ms()) / 1000)
    if due > 0:
        lateness.add(routed.elapsed_ms() - due)
