"""Truncates a turn with a given finish reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import estimates_and_fakes
from llm_proxy.dialects.decoded_request import DecodedRequest
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
        if position.codec == "whole":
            turns = [
                _with_finish_reason(_with_first_half_of_text(turn), finish, decoded_request)
                for turn in reencoding.decode_whole_response(position)
            ]
            return InjectedActions(
                reencoding.encode_replacement_actions(position, turns),
                ends_response=True,
                has_own_timing=True,
            )
        burst = reencoding.encode_ending_actions(
            position, lambda so_far: _with_finish_reason(so_far, finish, decoded_request)
        )
        return InjectedActions(burst, ends_response=True)

    return OneShot(
        inject, taken_message_count=1, changes_length=True, check_applicable=check_applicable
    )


def _with_finish_reason(turn: Turn, finish: FinishReason, decoded_request: DecodedRequest) -> Turn:
    """The turn with this finish reason, and with its usage estimated up to there."""
    reported_usage = turn.usage or Usage()
    input_tokens = (
        reported_usage.input
        if reported_usage.input is not None
        else _estimate_prompt_tokens(decoded_request)
    )
    output_tokens = estimates_and_fakes.estimated_token_count(
        "".join(map(_countable_text, turn.parts))
    )
    usage = replace(
        reported_usage, input=input_tokens, output=output_tokens, total=None, reasoning=None
    )
    return replace(turn, finish=finish, finish_raw="", usage=usage)


def _estimate_prompt_tokens(decoded_request: DecodedRequest) -> int:
    conversation = decoded_request.dialect.decode_request(decoded_request.request)
    messages = conversation.messages if conversation is not None else ()
    return estimates_and_fakes.estimated_token_count(
        "".join(
            _countable_text(part) for request_message in messages for part in request_message.parts
        )
    )


def _countable_text(part: Part) -> str:
    names = ("text", "name", "arguments", "content")
    return "".join(str(getattr(part, name, "")) for name in names)


def _with_first_half_of_text(turn: Turn) -> Turn:
    """The turn up to the middle of its text; tool calls follow the text, so they are dropped."""
    return replace(turn, parts=tuple(_truncate_parts(turn.parts, len(turn.text) // 2)), metadata=())


def _truncate_parts(parts: tuple[Part, ...], remaining_chars: int) -> Iterator[Part]:
    for part in parts:
        match part:
            case Reasoning():
                yield part
            case Text(text) if remaining_chars > 0:
                yield Text(text[:remaining_chars])
                remaining_chars -= len(text)
            case _:
                return
