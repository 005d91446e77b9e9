"""Answers that end before all is said, for a reason that the provider names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import fakes
from llm_proxy.dialects.decoded_request import Asked
from llm_proxy.faults import reencoding
from llm_proxy.faults.kind import CannotInject, Moment, Strike, Struck
from llm_proxy.turns import Finish, Part, Reasoning, Text, Turn, Usage

_PLAIN: Final = (Finish.STOP, Finish.STOP_SEQUENCE, Finish.TOOL_CALLS)
"""What an answer that is whole finishes with."""


def ended(finish: Finish) -> Strike:
    """The answer up to here, which finishes so; of a whole body the first half of its text.

    A stream ends when its next message was due.
    """

    def check(moment: Moment) -> None:
        told = reencoding.fitted(moment, Turn((Text("a"),), finish=finish))
        if told.finish in _PLAIN:
            name = moment.met.asked.dialect.name
            raise CannotInject(f"{name} has no word for an answer that ends so")

    def strike(moment: Moment) -> Struck:
        asked = moment.met.asked
        if moment.codec == "whole":
            turns = [_finished(_half(it), finish, asked) for it in reencoding.whole(moment)]
            return Struck(reencoding.anew(moment, turns), over=True, timed=True)
        burst = reencoding.ending(moment, lambda so_far: _finished(so_far, finish, asked))
        return Struck(burst, over=True)

    return Strike(strike, takes=1, resizes=True, check=check)


def _finished(turn: Turn, finish: Finish, asked: Asked) -> Turn:
    """The turn with its end, and what it cost as far as that can be told by then."""
    told = turn.usage or Usage()
    given = told.input if told.input is not None else _asked_for(asked)
    output = fakes.tokens("".join(map(_words, turn.parts)))
    usage = replace(told, input=given, output=output, total=None, reasoning=None)
    return replace(turn, finish=finish, finish_raw="", usage=usage)


def _asked_for(asked: Asked) -> int:
    """About how many tokens were asked."""
    conversation = asked.dialect.conversation(asked.request)
    heard = conversation.messages if conversation is not None else ()
    return fakes.tokens("".join(_words(part) for it in heard for part in it.parts))


def _words(part: Part) -> str:
    """What of a part costs tokens, whatever its kind."""
    names = ("text", "name", "arguments", "content")
    return "".join(str(getattr(part, it, "")) for it in names)


def _half(turn: Turn) -> Turn:
    """The turn up to the middle of its text; calls would have come behind it."""
    return replace(turn, parts=tuple(_cut(turn.parts, len(turn.text) // 2)), metadata=())


def _cut(parts: tuple[Part, ...], left: int) -> Iterator[Part]:
    for part in parts:
        match part:
            case Reasoning():
                yield part
            case Text(text) if left > 0:
                yield Text(text[:left])
                left -= len(text)
            case _:
                return
