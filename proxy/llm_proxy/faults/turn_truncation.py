"""Truncates a turn with a given finish reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import fakes
from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.faults import reencoding
from llm_proxy.faults.kind import FaultNotApplicable, InjectedActions, OneShot, StreamPosition
from llm_proxy.turns import Finish, Part, Reasoning, Text, Turn, Usage

_PLAIN: Final = (Finish.STOP, Finish.STOP_SEQUENCE, Finish.TOOL_CALLS)
"""What an answer that is whole finishes with."""


def truncate_turns(finish: Finish) -> OneShot:
    """The answer up to here, which finishes so; of a whole body the first half of its text.

    A stream ends when its next message was due.
    """

    def check(position: StreamPosition) -> None:
        turn = reencoding.convert_for_response(position, Turn((Text("a"),), finish=finish))
        if turn.finish in _PLAIN:
            name = position.context.request.dialect.name
            raise FaultNotApplicable(f"{name} has no word for an answer that ends so")

    def strike(position: StreamPosition) -> InjectedActions:
        decoded_request = position.context.request
        if position.codec == "whole":
            turns = [
                _finish_turn(_first_half(turn), finish, decoded_request)
                for turn in reencoding.decode_whole(position)
            ]
            return InjectedActions(
                reencoding.encode_replacement(position, turns), ends_response=True, is_timed=True
            )
        burst = reencoding.encode_ending(
            position, lambda so_far: _finish_turn(so_far, finish, decoded_request)
        )
        return InjectedActions(burst, ends_response=True)

    return OneShot(strike, taken_count=1, changes_length=True, check=check)


def _finish_turn(turn: Turn, finish: Finish, decoded_request: DecodedRequest) -> Turn:
    """The turn with its end, and what it cost as far as that can be told by then."""
    told = turn.usage or Usage()
    number = told.input if told.input is not None else _estimate_prompt_tokens(decoded_request)
    output = fakes.estimated_tokens("".join(map(_countable_text, turn.parts)))
    usage = replace(told, input=number, output=output, total=None, reasoning=None)
    return replace(turn, finish=finish, finish_raw="", usage=usage)


def _estimate_prompt_tokens(decoded_request: DecodedRequest) -> int:
    conversation = decoded_request.dialect.decode_request(decoded_request.request)
    values = conversation.messages if conversation is not None else ()
    return fakes.estimated_tokens(
        "".join(
            _countable_text(part) for request_message in values for part in request_message.parts
        )
    )


def _countable_text(part: Part) -> str:
    names = ("text", "name", "arguments", "content")
    return "".join(str(getattr(part, name, "")) for name in names)


def _first_half(turn: Turn) -> Turn:
    """The turn up to the middle of its text; calls would have come behind it."""
    return replace(turn, parts=tuple(_truncate_parts(turn.parts, len(turn.text) // 2)), metadata=())


def _truncate_parts(parts: tuple[Part, ...], left: int) -> Iterator[Part]:
    for part in parts:
        match part:
            case Reasoning():
                yield part
            case Text(text) if left > 0:
                yield Text(text[:left])
                left -= len(text)
            case _:
                return
