"""The due times of the pieces of a response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.pacing import ModelledPace, TokenRatePace, parse_pace
from llm_proxy.pacing.distributions import FixedDistribution, UniformDistribution, draw_ms
from llm_proxy.pacing.pace import PROFILES
from llm_proxy.pacing.timing import (
    IndexedUniformDraw,
    PaceInput,
    ResponseTimes,
    cap_gaps,
    make_seeded_draw,
    response_times,
)

CHANCE: Final = make_seeded_draw(0, "default", "key", 1)


def make_response(
    *chars: int, tokens: int, is_document: bool = False, prompt: int = 100
) -> PaceInput:
    pieces = tuple(b"%d" % number for number in range(len(chars)))
    return PaceInput(pieces, chars, lambda: tokens, lambda: prompt, is_document)


def times_of(text: str, response: PaceInput, chance: IndexedUniformDraw = CHANCE) -> ResponseTimes:
    pace = parse_pace(text)
    assert isinstance(pace, TokenRatePace | ModelledPace)
    return response_times(pace, response, chance)


RESPONSE: Final = make_response(0, 4, 4, 0, 4, 0, 0, tokens=3)
"""Pieces without output before the first text, between two texts, and after the last."""


def test_the_tokens_come_at_their_rate_the_first_with_the_head() -> None:
    assert times_of("50tps", RESPONSE) == ResponseTimes(0, (0, 0, 20, 20, 40, 40, 40), 40)


def test_the_first_token_comes_after_its_own_time() -> None:
    moments = (300, 300, 320, 320, 340, 340, 340)

    assert times_of("50tps,ttft=300ms", RESPONSE) == ResponseTimes(300, moments, 340)


def test_each_token_of_the_request_adds_to_the_time_before_the_first() -> None:
    assert times_of("50tps,ttft=300ms,prefill=0.5ms", RESPONSE).head_ms == 350
    assert times_of("ttft=300ms,prefill=0.5ms", RESPONSE).head_ms == 350
    assert times_of("prefill=2ms", RESPONSE) == ResponseTimes(200, (200,) * 7, 200)


def test_a_piece_is_due_with_the_last_of_its_tokens() -> None:
    assert times_of("10tps", make_response(8, 16, 4, tokens=7)) == ResponseTimes(
        0, (100, 500, 600), 600
    )


def test_tokens_are_shared_out_by_characters() -> None:
    assert times_of("10tps", make_response(10, 30, tokens=4)).piece_times_ms == (0, 300)
    assert times_of("10tps", make_response(30, 10, tokens=8)).piece_times_ms == (500, 700)


def test_a_piece_of_less_than_a_token_is_never_due_before_the_head() -> None:
    assert times_of("10tps", make_response(1, 1, 1, 1, 1, 1, 1, 1, tokens=2)).piece_times_ms == (
        0, 0, 0, 0, 25, 50, 75, 100,
    )  # fmt: skip


def test_gaps_lie_only_between_pieces_with_output() -> None:
    moments = (300, 300, 330, 330, 360, 360, 360)

    assert times_of("ttft=300ms,gap=30ms", RESPONSE) == ResponseTimes(300, moments, 360)


def test_a_document_goes_out_when_its_last_token_would() -> None:
    document = make_response(0, tokens=101, is_document=True)

    assert times_of("50tps,ttft=300ms", document) == ResponseTimes(300, (2300,), 2300)
    assert times_of("ttft=300ms,gap=30ms", document) == ResponseTimes(300, (3300,), 3300)


def test_a_document_of_very_many_tokens_takes_as_long_on_average() -> None:
    document = make_response(0, tokens=10**12 + 1, is_document=True)

    assert times_of("gap=10..30ms", document).end_ms == pytest.approx(20 * 10**12, rel=0.02)


@each_row("tokens", [0, 1])
def test_a_document_of_no_more_than_a_token_goes_out_with_the_head(tokens: int) -> None:
    document = make_response(0, tokens=tokens, is_document=True)

    assert times_of("50tps", document) == ResponseTimes(0, (0,), 0)
    assert times_of("gap=30ms,ttft=1s", document) == ResponseTimes(1000, (1000,), 1000)


def test_a_response_without_output_is_sent_with_the_head() -> None:
    assert times_of("50tps,ttft=1s", make_response(0, 0, tokens=0)) == ResponseTimes(
        1000, (1000, 1000), 1000
    )
    assert times_of("gap=30ms,ttft=1s", make_response(0, 0, tokens=0)) == ResponseTimes(
        1000, (1000, 1000), 1000
    )
    assert times_of("gap=30ms,ttft=1s", make_response(tokens=0)) == ResponseTimes(1000, (), 1000)


def test_every_gap_has_its_own_random_number() -> None:
    gap = UniformDistribution(30.0, 80.0)
    found = times_of("ttft=1..2s,gap=30..80ms", make_response(4, 0, 4, 4, tokens=3))

    head = draw_ms(UniformDistribution(1000.0, 2000.0), CHANCE("ttft", 0))
    second = head + draw_ms(gap, CHANCE("gap", 1))
    third = second + draw_ms(gap, CHANCE("gap", 2))
    assert found.piece_times_ms == pytest.approx((head, head, second, third))


@given(
    st.sampled_from(
        ["gap=30..80ms", "ttft=normal(1s,1s),gap=lognormal(9ms,2)", "50tps,ttft=0..1s"]
    ),
    st.lists(st.integers(0, 9), max_size=9),
)
def test_the_same_seed_gives_the_same_times_and_they_never_decrease(
    text: str, chars: list[int]
) -> None:
    response = make_response(*chars, tokens=sum(chars))
    found = times_of(text, response)

    moments = [found.head_ms, *found.piece_times_ms, found.end_ms]
    assert found == times_of(text, response, make_seeded_draw(0, "default", "key", 1))
    assert moments == sorted(moments)
    assert found.end_ms == (found.piece_times_ms[-1] if chars else found.head_ms)


@each_row("other", [(1, "default", "key", 1), (0, "s", "key", 1),
                                   (0, "default", "k", 1), (0, "default", "key", 2)])  # fmt: skip
def test_another_seed_session_key_or_ordinal_gives_other_times(other: tuple[object, ...]) -> None:
    response = make_response(4, 4, 4, tokens=3)

    assert times_of("gap=30..80ms", response, make_seeded_draw(*other)) != times_of(
        "gap=30..80ms", response
    )


def test_no_gap_exceeds_the_maximum_and_later_times_move_up() -> None:
    times = ResponseTimes(500, (500, 700, 5700, 5750), 9000)

    assert cap_gaps(times, 200) == ResponseTimes(200, (200, 400, 600, 650), 850)
    assert cap_gaps(times, 10_000) == times


@given(st.lists(st.integers(0, 5000), min_size=2, max_size=9).map(sorted), st.integers(1, 5000))
def test_a_cap_keeps_every_shorter_gap(moments: list[int], longest: int) -> None:
    head, *pieces, end = moments
    capped = cap_gaps(ResponseTimes(head, tuple(pieces), end), longest)

    found = [capped.head_ms, *capped.piece_times_ms, capped.end_ms]
    assert gaps_of(found) == [min(gap, longest) for gap in gaps_of(moments)]


def gaps_of(moments: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise([0, *moments])]


def test_explicit_terms_override_those_of_a_profile() -> None:
    pace = ModelledPace(FixedDistribution(2000.0), profile=PROFILES["gpt-4o"])

    assert pace.resolved_latency == replace(PROFILES["gpt-4o"], ttft=FixedDistribution(2000.0))
