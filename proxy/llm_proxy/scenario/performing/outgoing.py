"""Directions become actions: what goes out, and when.

An answer that is streamed goes out in slots.  Each piece of what is said has one, and what the
wire tells beside it (an opening, the end of a part) goes with the piece before it.  The last piece
has a whole slot too before the stream is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from llm_proxy.actions import Action, Begin, Burst, Send, Wait
from llm_proxy.dialects.asked import Asked
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.delivery import Delivery
from llm_proxy.errors import ScriptExhausted
from llm_proxy.pacing import Instant, Pace, due
from llm_proxy.scenario.directions import Exhausted, Fail, Say, Timing
from llm_proxy.scenario.performing import failures
from llm_proxy.scenario.performing.failures import Limits

Adds = Callable[[str, bytes], bool]
"""Whether a message of this codec adds to what was said."""


def actions(
    what: Say | Fail | Exhausted, asked: Asked, adds: Adds, pace: Pace, limits: Limits
) -> Burst:
    """The actions that answer a request so.

    Raises `CannotSay` for what the dialect has no words for, and `ScriptExhausted`.
    """
    match what:
        case Say():
            return _timed(_told(what, asked), what.timing, adds, pace)
        case Fail():
            return failures.failed(what, asked, limits)
        case Exhausted(message):
            raise ScriptExhausted(message)


def at_once(response: Response) -> Burst:
    """The actions of a response that nothing holds back."""
    return (Begin(response.head), *map(Send, response.messages))


def delivered(say: Say, delivery: Delivery) -> Delivery:
    """How this is told."""
    return replace(delivery, cut=say.cut, successive=say.successive, seals=say.seals)


def _told(say: Say, asked: Asked) -> Response:
    return asked.dialect.speak(asked.request, say.turns, delivered(say, asked.delivery))


def _timed(response: Response, timing: Timing, adds: Adds, pace: Pace) -> Burst:
    """The response at its own times, as this pace has them; a whole one waits but once."""
    is_at_once = response.codec == "whole" or isinstance(pace, Instant)
    gap = None if is_at_once else timing.gap
    slots = (0.0,) * (len(response.messages) + 1)
    if gap is not None:
        slots = _slots([adds(response.codec, it) for it in response.messages], gap)
    steps: list[Burst] = [(Begin(response.head),), *((Send(it),) for it in response.messages), ()]
    burst: list[Action] = []
    waited = 0.0
    for step, at in zip(steps, (0.0, *slots), strict=True):
        moment = due(pace, timing.thinking + at)
        if moment > waited:
            burst.append(Wait(moment))
            waited = moment
        burst += step
    return tuple(burst)


def _slots(adding: Sequence[bool], gap: Callable[[int], float]) -> tuple[float, ...]:
    """When the slot of each message begins, and that of the body's end, in ms after the head."""
    pieces = sum(adding)
    slots: list[float] = []
    at, told, over = 0.0, 0, False
    for adds in (*adding, False):
        closes = told == pieces and not over
        if told and (adds or closes):
            at += gap(told)
        slots.append(at)
        told += adds
        over = over or closes
    return tuple(slots)
