"""Every dialect decodes any bytes, and turns as it encodes them; losses follow common rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from case_tables import each_row
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
from llm_proxy.dialects.base import ConvertedResponseTurns, DialectResponse
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import ResponseHead
from llm_proxy.turns import Refusal, Text, ToolCall, Turn
from thoroughness import is_thorough, quick_or_thorough

RESPONSES: Final = [
    (manner, case)
    for manner in MANNERS
    for case in CASES
    if case.status == 200 and (case.name != "long" or is_thorough())
]


@each_row("name", dialects.chat_dialects())
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


@each_row("manner", MANNERS)
def test_a_request_in_every_manner_is_of_the_dialect_of_its_name(manner: Manner) -> None:
    name = manner.name.partition(" ")[0]

    assert manner.dialect is dialects.dialect_named(name)
    assert manner.dialect.name == name


@given(st.lists(st.binary()), st.sampled_from(sorted(framing.CODECS)), st.sampled_from([200, 500]))
def test_any_bytes_can_be_decoded(messages: list[bytes], codec: str, status: int) -> None:
    response = DialectResponse(ResponseHead(status, "", (), "chunked"), codec, messages)

    for dialect in dialects.DIALECTS:
        note(dialect.name)
        assert dialect.completeness(response).reason
        assert all(isinstance(turn, Turn) for turn in dialect.decode_response(response))


@settings(max_examples=quick_or_thorough(25, 200))
@given(
    turns=st.tuples(COMMON_TURNS | ANY_TURNS) | st.lists(COMMON_TURNS, min_size=2, max_size=3),
    successive=st.booleans(),
)
def test_any_turns_decode_as_they_were_converted_or_are_refused(
    turns: Sequence[Turn], successive: bool
) -> None:
    for manner in MANNERS:
        note(manner.name)
        dialect, request = manner.dialect, manner.request
        context = replace(manner.context, choices_are_successive=successive)
        try:
            converted = dialect.representable_turns(request, turns, context).turns
        except NotRepresentable:
            with pytest.raises(NotRepresentable):
                dialect.encode_response(request, turns, context)
            continue

        response = dialect.encode_response(request, turns, context)

        body = b"".join(response.framed_messages)
        assert dialect.decode_response(response) == converted
        if response.codec_name == "whole":
            pieces = [body[:-9], body[-9:]]
            assert dialect.decode_response(replace(response, framed_messages=pieces)) == converted
        assert dialect.completeness(response).is_complete
        assert dialect.codec_name(request, response.head) == response.codec_name
        assert framing.split_messages(response.codec_name, body) == list(response.framed_messages)
        assert response.head.content_length in (None, len(body))
        assert dialect.encode_response(request, turns, context) == response
        if not any(turn.failure for turn in turns):
            prepared = dialect.prepared_turns(request, turns, context)
            assert dialect.encode_response(request, prepared, context) == response
        assert dialect.representable_turns(request, converted, context) == ConvertedResponseTurns(
            converted, ()
        )


def text_and_refusals(turn: Turn) -> str:
    """The text of all text and refusal parts."""
    return "".join(part.text for part in turn.parts if isinstance(part, Text | Refusal))


def named_calls(turn: Turn) -> list[tuple[str, object]]:
    """The name and the parsed arguments of each tool call."""
    tool_calls = [part for part in turn.parts if isinstance(part, ToolCall)]
    return [(call.name, json.loads(call.arguments)) for call in tool_calls]


@each_row(
    ("manner", "case"), RESPONSES, (f"{manner.name}, {case.name}" for manner, case in RESPONSES)
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
