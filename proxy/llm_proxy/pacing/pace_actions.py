"""Turns pieces and due times into actions."""

from __future__ import annotations

from collections.abc import Sequence

from llm_proxy.actions import Action, Begin, Burst, Send, Wait
from llm_proxy.exchange import ResponseHead
from llm_proxy.pacing.pace import Pace
from llm_proxy.pacing.rechunking import rechunk
from llm_proxy.pacing.timing import ResponseTimes, cap_gaps


def pace_actions(
    head: ResponseHead, pieces: Sequence[bytes], times: ResponseTimes, pace: Pace
) -> Burst:
    """The actions that send these pieces at these times, as far as `pace` leaves them so."""
    placed = rechunk(zip(times.pieces, pieces, strict=True), pace.chunks)
    if pace.max_gap is not None:  # of the pieces as they go out: a longer one comes later
        placed = tuple(placed)
        times = cap_gaps(
            ResponseTimes(times.head, tuple(at for at, _ in placed), times.end), pace.max_gap
        )
        placed = zip(times.pieces, (data for _, data in placed), strict=True)
    waited = max(times.head, 0.0)
    actions: list[Action] = [Wait(waited)] if waited else []
    actions.append(Begin(head))
    for at, data in placed:
        if at > waited:
            actions.append(Wait(at))
            waited = at
        actions.append(Send(data))
    if times.end > waited:
        actions.append(Wait(times.end))
    return tuple(actions)
