"""Every dialect: encoded turns decode to themselves; losses and refusals follow common rules."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from conformance_cases import CASES, Case
from dialect_manners import (
    ANY_TURNS,
    COMMON_TURNS,
    DIALECT_RECORDS,
    MANNERS,
    Manner,
    dialect_record,
)
from llm_proxy import dialects, framing
from llm_proxy.dialects.base import ConvertedResponseTurns
from llm_proxy.errors import NotRepresentable
from llm_proxy.turns import Refusal, Text, ToolCall, Turn
from thoroughness import quick_or_thorough

each_manner = pytest.mark.parametrize(
    "manner", MANNERS, ids=lambda manner: manner.name.replace(" ", "-")
)


@pytest.mark.parametrize("name", dialects.chat_dialects())
def test_every_dialect_with_turns_has_its_record_and_its_manners(name: str) -> None:
    assert dialect_record(name).refusal_finish
    streams = {
        manner.dialect.streams(manner.request) for manner in MANNERS if manner.dialect.name == name
    }
    assert streams == {True, False}, (
        f"add the forms of {name}'s responses to MANNERS in tests/dialect_manners.py"
    )


def test_every_record_is_that_of_a_dialect() -> None:
    assert set(DIALECT_RECORDS) == set(dialects.chat_dialects())


def convert_or_skip(manner: Manner, *turns: Turn) -> ConvertedResponseTurns:
    """The turns as the dialect can represent them; rejects the example if it cannot."""
    try:
        return manner.dialect.representable_turns(manner.request, turns, manner.context)
    except NotRepresentable:
        assume(False)  # noqa: FBT003 # Hypothesis's own way to pass over an example
        raise


@each_manner
@settings(max_examples=quick_or_thorough(4, 40))
@given(turn=COMMON_TURNS | ANY_TURNS)
def test_an_encoded_turn_decodes_to_itself_and_is_complete_and_framed_by_its_codec(
    manner: Manner, turn: Turn
) -> None:
    converted = convert_or_skip(manner, turn)
    dialect, request = manner.dialect, manner.request

    response = dialect.encode_response(request, (turn,), manner.context)

    body = b"".join(response.framed_messages)
    assert dialect.decode_response(response) == converted.turns
    assert dialect.completeness(response).is_complete
    assert dialect.codec_name(request, response.head) == response.codec_name
    assert framing.split_messages(response.codec_name, body) == list(response.framed_messages)
    assert response.head.content_length in (None, len(body))


@each_manner
@settings(max_examples=quick_or_thorough(3, 20))
@given(turn=COMMON_TURNS | ANY_TURNS)
def test_a_converted_turn_converts_to_itself_without_losses(manner: Manner, turn: Turn) -> None:
    converted = convert_or_skip(manner, turn)

    assert convert_or_skip(manner, *converted.turns) == ConvertedResponseTurns(converted.turns, ())


@each_manner
@settings(max_examples=quick_or_thorough(3, 20))
@given(turn=COMMON_TURNS)
def test_prepared_turns_are_encoded_as_the_given_ones(manner: Manner, turn: Turn) -> None:
    dialect, request, context = manner.dialect, manner.request, manner.context
    converted = convert_or_skip(manner, turn)
    assume(converted.turns[0].failure is None)

    prepared = dialect.prepared_turns(request, (turn,), context)

    assert dialect.encode_response(request, prepared, context) == dialect.encode_response(
        request, (turn,), context
    )


@each_manner
@settings(max_examples=quick_or_thorough(2, 16))
@given(turns=st.lists(COMMON_TURNS, min_size=2, max_size=3), successive=st.booleans())
def test_several_turns_are_encoded_in_one_response_or_refused(
    manner: Manner, turns: list[Turn], successive: bool
) -> None:
    context = replace(manner.context, choices_are_successive=successive)
    try:
        converted = manner.dialect.representable_turns(manner.request, turns, context)
    except NotRepresentable:
        with pytest.raises(NotRepresentable):
            manner.dialect.encode_response(manner.request, turns, context)
        return

    response = manner.dialect.encode_response(manner.request, turns, context)

    assert manner.dialect.decode_response(response) == converted.turns
    assert manner.dialect.representable_turns(
        manner.request, converted.turns, context
    ) == ConvertedResponseTurns(converted.turns, ())


@each_manner
@settings(max_examples=quick_or_thorough(2, 16))
@given(turn=COMMON_TURNS)
def test_the_same_encode_context_gives_the_same_bytes(manner: Manner, turn: Turn) -> None:
    convert_or_skip(manner, turn)

    first, second = (
        manner.dialect.encode_response(manner.request, (turn,), manner.context) for _ in range(2)
    )

    assert first == second


def text_and_refusals(turn: Turn) -> str:
    """The text of all text and refusal parts."""
    return "".join(part.text for part in turn.parts if isinstance(part, Text | Refusal))


def named_calls(turn: Turn) -> list[tuple[str, object]]:
    """The name and the parsed arguments of each tool call."""
    tool_calls = [part for part in turn.parts if isinstance(part, ToolCall)]
    return [(call.name, json.loads(call.arguments)) for call in tool_calls]


@each_manner
@pytest.mark.parametrize(
    "case", [case_ for case_ in CASES if case_.status == 200], ids=lambda case: case.name
)
def test_nothing_of_what_an_application_acts_on_is_lost(manner: Manner, case: Case) -> None:
    try:
        response = manner.dialect.encode_response(manner.request, [case.turn], manner.context)
    except NotRepresentable:
        assert case.calls_tools
        return
    [decoded] = manner.dialect.decode_response(response)

    if case.turn.failure and response.head.status >= 400:
        assert (text_and_refusals(decoded), decoded.failure and decoded.failure.message) == (
            "", case.turn.failure.message,
        )  # fmt: skip
        return
    assert text_and_refusals(decoded) == text_and_refusals(case.turn)
    assert named_calls(decoded) == named_calls(case.turn)
    if decoded.usage and case.turn.usage and not decoded.failure:
        usage = case.turn.usage
        assert (decoded.usage.input, decoded.usage.output) == (usage.input, usage.output)
