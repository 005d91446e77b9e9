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
    """The actions that send these pieces at these times, by the chunks and gap limit of `pace`."""
    timed_pieces = rechunk(zip(times.piece_times_ms, pieces, strict=True), pace.chunks)
    if pace.max_gap is not None:  # the limit holds for the pieces that are sent, after rechunking
        timed_pieces = tuple(timed_pieces)
        times = cap_gaps(
            ResponseTimes(times.head_ms, tuple(due_ms for due_ms, _ in timed_pieces), times.end_ms),
            pace.max_gap,
        )
        timed_pieces = zip(times.piece_times_ms, (piece for _, piece in timed_pieces), strict=True)
    last_due_ms = max(times.head_ms, 0.0)
    actions: list[Action] = [Wait(last_due_ms)] if last_due_ms else []
    actions.append(Begin(head))
    for due_ms, piece in timed_pieces:
        if due_ms > last_due_ms:
            actions.append(Wait(due_ms))
            last_due_ms = due_ms
        actions.append(Send(piece))
    if times.end_ms > last_due_ms:
        actions.append(Wait(times.end_ms))
    return tuple(actions)
