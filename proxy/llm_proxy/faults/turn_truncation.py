"""Truncates a turn with a given finish reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import estimates_and_fakes
from llm_proxy.dialects.base import DecodedRequest
from llm_proxy.faults import reencoding
from llm_proxy.faults.kind import FaultNotApplicable, InjectedActions, OneShot, StreamPosition
from llm_proxy.turns import FinishReason, Part, Reasoning, Text, Turn, Usage

_NORMAL_FINISHES: Final = (FinishReason.STOP, FinishReason.STOP_SEQUENCE, FinishReason.TOOL_CALLS)
"""The finish reasons of complete responses."""


def truncation_mechanism(finish: FinishReason) -> OneShot:
    """The mechanism that ends a response at its location with this finish reason.

    A whole body keeps the first half of its text.  A stream ends when its next message was due.
    """

    def check_applicable(position: StreamPosition) -> None:
        turn = reencoding.to_representable_turn(position, Turn((Text("a"),), finish=finish))
        if turn.finish in _NORMAL_FINISHES:
            name = position.context.decoded_request.dialect.name
            raise FaultNotApplicable(f"{name} has no word for an answer that ends so")

    def inject(position: StreamPosition) -> InjectedActions:
        decoded_request = position.context.decoded_request
        if position.codec != "whole":
            return reencoding.inject_ending(
                position, lambda turn: _with_finish(turn, finish, decoded_request)
            )
        turns = [
            _with_finish(_with_first_half_of_text(turn), finish, decoded_request)
            for turn in reencoding.decode_whole_response(position)
        ]
        return reencoding.inject_replacement(position, turns)

    return OneShot(
        inject, taken_message_count=1, changes_length=True, check_applicable=check_applicable
    )


def _with_finish(turn: Turn, finish: FinishReason, decoded_request: DecodedRequest) -> Turn:
    """The turn with this finish reason, and with its usage estimated up to there."""
    usage = turn.usage or Usage()
    input_tokens = usage.input
    if input_tokens is None:
        conversation = decoded_request.dialect.decode_request(decoded_request.request)
        messages = conversation.messages if conversation is not None else ()
        input_tokens = _estimate_tokens(part for message in messages for part in message.parts)
    usage = replace(
        usage, input=input_tokens, output=_estimate_tokens(turn.parts), total=None, reasoning=None
    )
    return replace(turn, finish=finish, finish_raw="", usage=usage)


def _estimate_tokens(parts: Iterable[Part]) -> int:
    names = ("text", "name", "arguments", "content")
    texts = (str(getattr(part, name, "")) for part in parts for name in names)
    return estimates_and_fakes.estimated_token_count("".join(texts))


def _with_first_half_of_text(turn: Turn) -> Turn:
    """The turn up to the middle of its text; tool calls follow the text, so they are dropped."""
    parts: list[Part] = []
    remaining_chars = len(turn.text) // 2
    for part in turn.parts:
        match part:
            case Reasoning():
                parts.append(part)
            case Text(text) if remaining_chars > 0:
                parts.append(Text(text[:remaining_chars]))
                remaining_chars -= len(text)
            case _:
                break
    return replace(turn, parts=tuple(parts), metadata=())
