"""Pieces and their times become actions."""

from __future__ import annotations

from collections.abc import Sequence

from llm_proxy.actions import Action, Begin, Burst, Send, Wait
from llm_proxy.exchange import Head
from llm_proxy.pacing.pace import Pace
from llm_proxy.pacing.rechunking import Piece, rechunked
from llm_proxy.pacing.timing import Times, capped


def arranged(head: Head, pieces: Sequence[bytes], times: Times, pace: Pace) -> Burst:
    """The actions that send these pieces at these times, as far as `pace` leaves them so."""
    if pace.max_gap is not None:
        times = capped(times, pace.max_gap)
    timed = tuple(map(Piece, times.pieces, pieces))
    steps: list[tuple[float, Action]] = [(times.head, Begin(head))]
    steps += [(it.at, Send(it.data)) for it in rechunked(timed, pace.chunks)]
    actions: list[Action] = []
    waited = 0.0
    for at, step in steps:
        if at > waited:
            actions.append(Wait(at))
            waited = at
        actions.append(step)
    return (*actions, Wait(times.end)) if times.end > waited else tuple(actions)
