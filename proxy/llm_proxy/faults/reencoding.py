"""What an answer says instead, told by its own dialect.

told anew  the whole answer is another one; it takes its time as the real one did
ending     what was said so far stays, and the answer ends in another way

    told so far   event 1  event 2  event 3  event 4  [DONE]
    an ending                       finish   [DONE]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.actions import Action, Burst, Send, Wait
from llm_proxy.dialects import json_api, response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.errors import CannotSay
from llm_proxy.faults import message_contents
from llm_proxy.faults.kind import CannotInject, Moment
from llm_proxy.framing import sse
from llm_proxy.turns import Turn

_NUMBER: Final = "sequence_number"
"""What a stream that counts its messages calls the number of one."""
_CREATED: Final = re.compile(rb'"created(?:_at)?"\s*:\s*([0-9]{9,11})\b')
"""The time that an answer names, in s since 1970."""
_FIRST: Final = 3
"""Messages that are searched for it: the first of them name it where any does."""
_INDEX: Final = "index"
"""How the names of fields end that number the parts of an answer."""


def fitted(moment: Moment, turn: Turn) -> Turn:
    """The turn as this answer's dialect can tell it.

    Raises `CannotInject` for an answer that is an error, and for words that the dialect lacks.
    """
    asked = moment.met.asked
    if not json_api.succeeded(moment.begun_head()):
        raise CannotInject("the answer is an error already")
    try:
        return asked.dialect.fit(asked.request, (turn,), asked.delivery).turns[0]
    except CannotSay as why:
        raise CannotInject(str(why)) from None


def said(moment: Moment, messages: Sequence[bytes]) -> tuple[Turn, ...]:
    """What these messages of the answer say."""
    assert moment.head is not None  # noqa: S101 # it is checked before
    return moment.met.asked.dialect.turns(Response(moment.head, moment.codec, messages))


def whole(moment: Moment) -> tuple[Turn, ...]:
    """What the answer says that was taken whole.  Raises `CannotInject` where it says nothing."""
    turns = said(moment, (*moment.before, *moment.taken))
    if not turns:
        raise CannotInject("the answer says nothing that can be read")
    if any(it.failure for it in turns):
        raise CannotInject("the answer has failed already")
    return turns


def anew(moment: Moment, turns: Sequence[Turn]) -> Burst:
    """The answer that says this in place of what was taken.

    Message k goes out when the k-th that was taken was due, and what remains with the last.
    """
    actions: list[Action] = []
    due = -1.0
    for number, message in enumerate(_spoken(moment, turns).messages):
        at = moment.dues[min(number, len(moment.dues) - 1)] if moment.dues else due
        if at > due:
            actions.append(Wait(at))
            due = at
        actions.append(Send(message))
    return tuple(actions)


def ending(moment: Moment, ends: Callable[[Turn], Turn]) -> Burst:
    """What remains to be told of a stream that ends in another way.

    `ends` gives each turn, as it was told so far, its end.  Raises `CannotInject` where the
    answer has told why it ends, or its dialect has no words for that end.
    """
    if moment.begun:
        raise CannotInject("a message was under way")
    so_far = said(moment, moment.before) or _nothing(moment)
    if any(it.finish or it.failure for it in so_far):
        raise CannotInject("the answer had told why it ends")
    turns = tuple(map(ends, _named(moment, so_far)))
    spoken = _spoken(moment, turns)
    if not moment.before:
        return tuple(map(Send, spoken.messages))
    tail = _tail(moment, spoken)
    if tail is None:  # the last words and the end are one message
        tail = _tail(moment, _spoken(moment, [replace(it, parts=()) for it in turns]))
    return tuple(map(Send, _continued(moment, tail or ())))


def _named(moment: Moment, so_far: Sequence[Turn]) -> list[Turn]:
    """The turns with the id and the model that the next messages tell, if those before don't."""
    later = next(iter(said(moment, moment.taken)), Turn(()))
    return [replace(it, id=it.id or later.id, model=it.model or later.model) for it in so_far]


def _nothing(moment: Moment) -> tuple[Turn, ...]:
    """What a stream says that has said nothing by now."""
    asked = moment.met.asked
    if asked.dialect.conversation(asked.request) is None:
        raise CannotInject("the answer says nothing that can be read")
    return (Turn(()),)


def _delivery(moment: Moment) -> Delivery:
    """How the rest is told: with the time that the answer has named by now."""
    delivery = moment.met.asked.delivery
    for message in (*moment.before[:_FIRST], *moment.taken[:_FIRST]):
        if (found := _CREATED.search(message)) is not None:
            return replace(delivery, created=int(found[1]))
    return delivery


def _spoken(moment: Moment, turns: Sequence[Turn]) -> Response:
    asked = moment.met.asked
    try:
        response = asked.dialect.speak(asked.request, turns, _delivery(moment))
    except CannotSay as why:
        raise CannotInject(str(why)) from None
    if response.codec != moment.codec:
        raise CannotInject("the answer does not come in the form that was asked for")
    return response


def _tail(moment: Moment, spoken: Response) -> list[bytes] | None:
    """The end of a telling: what comes behind its last words; an error alone, where it fails.

    What closes a part that is closed already is left out.  None where nothing tells the end.
    """
    dialect, codec, messages = moment.met.asked.dialect, moment.codec, spoken.messages
    silent = [at for at, it in enumerate(messages) if not dialect.says(codec, it)]
    alone = {at: dialect.turns(Response(spoken.head, codec, (messages[at],))) for at in silent}
    end = next((at for at in silent if any(map(_is_end, alone[at]))), None)
    if end is None:
        return None
    begin = end
    says = set(range(len(messages))) - set(silent)
    if says and not any(turn.failure for turn in alone[end]):
        begin = min(end, max(says) + 1)
    closes = {at: _closes(codec, messages[at]) for at in silent if at >= begin}
    before = moment.before if any(closes.values()) else ()
    told = {_closes(codec, it) for it in before if not dialect.says(codec, it)}
    return [messages[at] for at, it in closes.items() if not it or it not in told]


def _is_end(turn: Turn) -> bool:
    return turn.finish is not None or turn.failure is not None


def _closes(codec: str, message: bytes) -> tuple[object, ...]:
    """What a message says of which part of the answer; nothing where it is of none."""
    fields = message_contents.document(codec, message).items()
    parts = [(name, value) for name, value in fields if name.lower().endswith(_INDEX)]
    return (message_contents.names(codec, message), *map(str, sorted(parts))) if parts else ()


def _continued(moment: Moment, messages: Sequence[bytes]) -> list[bytes]:
    """The messages as they stand behind those that have gone out: numbered on, in one array."""
    if moment.codec == "json-array":
        return [b"," + it.lstrip(b"[, \r\n") if n == 0 else it for n, it in enumerate(messages)]
    if moment.codec != "sse":
        return list(messages)
    numbers = (message_contents.document("sse", it).get(_NUMBER) for it in reversed(moment.before))
    last = next((it for it in numbers if isinstance(it, int)), None)
    if last is None:
        return list(messages)
    return [_numbered(it, number) for number, it in enumerate(messages, last + 1)]


def _numbered(event: bytes, number: int) -> bytes:
    said = dict(message_contents.document("sse", event))
    if _NUMBER not in said:
        return event
    return sse.event(
        response_encoding.written({**said, _NUMBER: number}), sse.read_event(event).event
    )
