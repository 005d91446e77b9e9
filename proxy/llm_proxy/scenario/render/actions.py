"""Directions become actions: what goes out, and when.

At its own pace an answer that is streamed goes out in slots.  Each piece of what is said has one,
and what the wire tells beside it (an opening, the end of a part) goes with the piece before it.
The last piece has a whole slot too before the stream is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from llm_proxy.actions import Begin, Burst, Send
from llm_proxy.dialects import fakes
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.decoded_request import Asked
from llm_proxy.dialects.encode_context import Delivery, pieces
from llm_proxy.errors import ScriptExhausted
from llm_proxy.pacing import Instant, Modelled, Pace, Rate, Recorded, timing, tokens
from llm_proxy.pacing.pace_actions import arranged
from llm_proxy.pacing.timing import Times, Told
from llm_proxy.scenario.render import failures
from llm_proxy.scenario.render.failures import Limits
from llm_proxy.scenario.scripted_response import Exhausted, Fail, Say

Says = Callable[[str, bytes], int]
"""How many characters a message of this codec adds to what was said."""


def actions(
    what: Say | Fail | Exhausted, asked: Asked, says: Says, pace: Pace, limits: Limits
) -> Burst:
    """The actions that answer a request so.

    Raises `CannotSay` for what the dialect has no words for, and `ScriptExhausted`.
    """
    match what:
        case Say():
            if pace.chunks == "token":
                what = replace(what, cut=pieces)
            response = _told(what, asked)
            times = _times(what, response, asked, says, pace)
            return arranged(response.head, tuple(response.messages), times, pace)
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


def _times(say: Say, response: Response, asked: Asked, says: Says, pace: Pace) -> Times:
    """When everything is due: at the answer's own times, as far as this pace leaves them."""
    is_document = response.codec == "whole"
    messages = tuple(response.messages)
    match pace:
        case Rate() | Modelled():
            counted = tuple(says(response.codec, it) for it in messages)
            said = tokens.characters(say.turns) if is_document else sum(counted)
            count, prompt = partial(fakes.tokens_of, said), partial(_prompt, asked)
            told = Told(messages, counted, count, prompt, is_document)
            return timing.times(pace, told, timing.chance(asked.delivery.seed))
        case Instant():
            return Times(0.0, (0.0,) * len(messages), 0.0)
        case Recorded(speed):
            slots = (0.0,) * (len(messages) + 1)
            if say.timing.gap is not None and not is_document:
                slots = _slots([says(response.codec, it) for it in messages], say.timing.gap)
            before = say.timing.thinking
            *moments, end = ((before + it) / speed for it in slots)
            return Times(before / speed, tuple(moments), end)


def _prompt(asked: Asked) -> int:
    """The tokens of the request."""
    return tokens.asked((), asked.dialect.conversation(asked.request))


def _slots(says: Sequence[int], gap: Callable[[int], float]) -> tuple[float, ...]:
    """When the slot of each message begins, and that of the body's end, in ms after the head."""
    count = sum(map(bool, says))
    slots: list[float] = []
    at, told, over = 0.0, 0, False
    for said in (*says, 0):
        closes = told == count and not over
        if told and (said or closes):
            at += gap(told)
        slots.append(at)
        told += bool(said)
        over = over or closes
    return tuple(slots)
