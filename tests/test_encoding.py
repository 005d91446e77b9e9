"""What a dialect tells, it reads as it was told; what it cannot tell follows one set of rules."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from conformance_cases import CASES, Case
from dialect_manners import ANY_TURNS, MANNERS, TALKS, Manner
from llm_proxy import framing
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.errors import NotRepresentable
from llm_proxy.turns import Refusal, Text, ToolCall, Turn
from thoroughness import enough

each_manner = pytest.mark.parametrize("manner", MANNERS, ids=lambda it: it.name.replace(" ", "-"))


def fitted(manner: Manner, *turns: Turn) -> ConvertedTurns:
    """The turns as they fit; others are left to other tests."""
    try:
        return manner.dialect.convert(manner.request, turns, manner.delivery)
    except NotRepresentable:
        assume(False)  # noqa: FBT003 # Hypothesis's own way to pass over an example
        raise


@each_manner
@settings(max_examples=enough(4, 40))
@given(turn=TALKS | ANY_TURNS)
def test_what_is_told_is_read_as_it_was_told_and_is_whole_and_cut_as_its_codec_cuts(
    manner: Manner, turn: Turn
) -> None:
    fits = fitted(manner, turn)
    dialect, request = manner.dialect, manner.request

    response = dialect.encode(request, (turn,), manner.delivery)

    body = b"".join(response.messages)
    assert dialect.decode(response) == fits.turns
    assert dialect.completeness(response).is_complete
    assert dialect.codec(request, response.head) == response.codec
    assert framing.split_messages(response.codec, body) == list(response.messages)
    assert response.head.length in (None, len(body))


@each_manner
@settings(max_examples=enough(3, 20))
@given(turn=TALKS | ANY_TURNS)
def test_what_fits_fits_as_it_is_and_loses_nothing(manner: Manner, turn: Turn) -> None:
    fits = fitted(manner, turn)

    assert fitted(manner, *fits.turns) == ConvertedTurns(fits.turns, ())


@each_manner
@settings(max_examples=enough(2, 16))
@given(turns=st.lists(TALKS, min_size=2, max_size=3), successive=st.booleans())
def test_several_choices_are_told_as_one_answer_or_refused(
    manner: Manner, turns: list[Turn], successive: bool
) -> None:
    delivery = replace(manner.delivery, turns_are_successive=successive)
    try:
        fits = manner.dialect.convert(manner.request, turns, delivery)
    except NotRepresentable:
        with pytest.raises(NotRepresentable):
            manner.dialect.encode(manner.request, turns, delivery)
        return

    response = manner.dialect.encode(manner.request, turns, delivery)

    assert manner.dialect.decode(response) == fits.turns
    assert manner.dialect.convert(manner.request, fits.turns, delivery) == ConvertedTurns(
        fits.turns, ()
    )


@each_manner
@settings(max_examples=enough(2, 16))
@given(turn=TALKS)
def test_the_same_delivery_gives_the_same_bytes(manner: Manner, turn: Turn) -> None:
    fitted(manner, turn)

    first, again = (
        manner.dialect.encode(manner.request, (turn,), manner.delivery) for _ in range(2)
    )

    assert first == again


def words(turn: Turn) -> str:
    """All that is said, as text or as a refusal."""
    return "".join(part.text for part in turn.parts if isinstance(part, Text | Refusal))


def calls(turn: Turn) -> list[tuple[str, object]]:
    """The calls, each with its name and its arguments."""
    made = [part for part in turn.parts if isinstance(part, ToolCall)]
    return [(item.name, json.loads(item.arguments)) for item in made]


@each_manner
@pytest.mark.parametrize(
    "case", [case_ for case_ in CASES if case_.status == 200], ids=lambda it: it.name
)
def test_nothing_of_what_an_application_acts_on_is_lost(manner: Manner, case: Case) -> None:
    try:
        response = manner.dialect.encode(manner.request, [case.turn], manner.delivery)
    except NotRepresentable:
        assert case.calls_tools
        return
    [told] = manner.dialect.decode(response)

    if case.turn.failure and response.head.status >= 400:
        assert (words(told), told.failure and told.failure.message) == (
            "", case.turn.failure.message,
        )  # fmt: skip
        return
    assert words(told) == words(case.turn)
    assert calls(told) == calls(case.turn)
    if told.usage and case.turn.usage and not told.failure:
        counted = case.turn.usage
        assert (told.usage.input, told.usage.output) == (counted.input, counted.output)
