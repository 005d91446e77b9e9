"""When each piece of an answer is due, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_proxy.pacing import ModelledPace, TokenRatePace, parse_pace
from llm_proxy.pacing.distributions import FixedSpan, UniformSpan, draw_ms
from llm_proxy.pacing.profiles import PROFILES
from llm_proxy.pacing.timing import (
    Chance,
    PacedResponse,
    ResponseTimes,
    cap_gaps,
    response_times,
    seeded_chance,
)

CHANCE: Final = seeded_chance(0, "default", "key", 1)


def told(*says: int, tokens: int, is_document: bool = False, prompt: int = 100) -> PacedResponse:
    pieces = tuple(b"%d" % number for number in range(len(says)))
    return PacedResponse(pieces, says, lambda: tokens, lambda: prompt, is_document)


def paced(text: str, answer: PacedResponse, rolls: Chance = CHANCE) -> ResponseTimes:
    pace = parse_pace(text)
    assert isinstance(pace, TokenRatePace | ModelledPace)
    return response_times(pace, answer, rolls)


OPENED: Final = told(0, 4, 4, 0, 4, 0, 0, tokens=3)
"""Something before the first words, between two of them, and after the last."""


def test_the_tokens_come_at_their_rate_the_first_with_the_head() -> None:
    assert paced("50tps", OPENED) == ResponseTimes(0, (0, 0, 20, 20, 40, 40, 40), 40)


def test_the_first_token_comes_after_its_own_time() -> None:
    moments = (300, 300, 320, 320, 340, 340, 340)

    assert paced("50tps,ttft=300ms", OPENED) == ResponseTimes(300, moments, 340)


def test_each_token_of_the_request_adds_to_the_time_before_the_first() -> None:
    assert paced("50tps,ttft=300ms,prefill=0.5ms", OPENED).head == 350
    assert paced("ttft=300ms,prefill=0.5ms", OPENED).head == 350
    assert paced("prefill=2ms", OPENED) == ResponseTimes(200, (200,) * 7, 200)


def test_a_piece_is_due_with_the_last_of_its_tokens() -> None:
    assert paced("10tps", told(8, 16, 4, tokens=7)) == ResponseTimes(0, (100, 500, 600), 600)


def test_tokens_are_shared_out_by_characters() -> None:
    assert paced("10tps", told(10, 30, tokens=4)).pieces == (0, 300)
    assert paced("10tps", told(30, 10, tokens=8)).pieces == (500, 700)


def test_a_piece_of_less_than_a_token_is_never_due_before_the_head() -> None:
    assert paced("10tps", told(1, 1, 1, 1, 1, 1, 1, 1, tokens=2)).pieces == (
        0, 0, 0, 0, 25, 50, 75, 100,
    )  # fmt: skip


def test_gaps_lie_between_what_is_said_and_nowhere_else() -> None:
    moments = (300, 300, 330, 330, 360, 360, 360)

    assert paced("ttft=300ms,gap=30ms", OPENED) == ResponseTimes(300, moments, 360)


def test_a_document_goes_out_when_its_last_token_would() -> None:
    document = told(0, tokens=101, is_document=True)

    assert paced("50tps,ttft=300ms", document) == ResponseTimes(300, (2300,), 2300)
    assert paced("ttft=300ms,gap=30ms", document) == ResponseTimes(300, (3300,), 3300)


def test_a_document_of_very_many_tokens_takes_as_long_on_average() -> None:
    document = told(0, tokens=10**12 + 1, is_document=True)

    assert paced("gap=10..30ms", document).end == pytest.approx(20 * 10**12, rel=0.02)


@pytest.mark.parametrize("tokens", [0, 1])
def test_a_document_of_no_more_than_a_token_goes_out_with_the_head(tokens: int) -> None:
    document = told(0, tokens=tokens, is_document=True)

    assert paced("50tps", document) == ResponseTimes(0, (0,), 0)
    assert paced("gap=30ms,ttft=1s", document) == ResponseTimes(1000, (1000,), 1000)


def test_an_answer_that_says_nothing_goes_out_with_the_head() -> None:
    assert paced("50tps,ttft=1s", told(0, 0, tokens=0)) == ResponseTimes(1000, (1000, 1000), 1000)
    assert paced("gap=30ms,ttft=1s", told(0, 0, tokens=0)) == ResponseTimes(
        1000, (1000, 1000), 1000
    )
    assert paced("gap=30ms,ttft=1s", told(tokens=0)) == ResponseTimes(1000, (), 1000)


def test_every_gap_has_a_roll_of_its_own() -> None:
    gap = UniformSpan(30.0, 80.0)
    found = paced("ttft=1..2s,gap=30..80ms", told(4, 0, 4, 4, tokens=3))

    head = draw_ms(UniformSpan(1000.0, 2000.0), CHANCE("ttft", 0))
    second = head + draw_ms(gap, CHANCE("gap", 1))
    third = second + draw_ms(gap, CHANCE("gap", 2))
    assert found.pieces == pytest.approx((head, head, second, third))


@given(
    st.sampled_from(
        ["gap=30..80ms", "ttft=normal(1s,1s),gap=lognormal(9ms,2)", "50tps,ttft=0..1s"]
    ),
    st.lists(st.integers(0, 9), max_size=9),
)
def test_the_same_chance_gives_the_same_times_and_they_only_go_on(
    text: str, says: list[int]
) -> None:
    answer = told(*says, tokens=sum(says))
    found = paced(text, answer)

    moments = [found.head, *found.pieces, found.end]
    assert found == paced(text, answer, seeded_chance(0, "default", "key", 1))
    assert moments == sorted(moments)
    assert found.end == (found.pieces[-1] if says else found.head)


@pytest.mark.parametrize("other", [(1, "default", "key", 1), (0, "s", "key", 1),
                                   (0, "default", "k", 1), (0, "default", "key", 2)])  # fmt: skip
def test_another_seed_session_key_or_ordinal_gives_other_times(other: tuple[object, ...]) -> None:
    answer = told(4, 4, 4, tokens=3)

    assert paced("gap=30..80ms", answer, seeded_chance(*other)) != paced("gap=30..80ms", answer)


def test_no_silence_is_longer_than_the_longest_and_what_comes_later_moves_up() -> None:
    it = ResponseTimes(500, (500, 700, 5700, 5750), 9000)

    assert cap_gaps(it, 200) == ResponseTimes(200, (200, 400, 600, 650), 850)
    assert cap_gaps(it, 10_000) == it


@given(st.lists(st.integers(0, 5000), min_size=2, max_size=9).map(sorted), st.integers(1, 5000))
def test_a_cap_leaves_every_shorter_silence_as_it_is(moments: list[int], longest: int) -> None:
    head, *pieces, end = moments
    it = cap_gaps(ResponseTimes(head, tuple(pieces), end), longest)

    found = [it.head, *it.pieces, it.end]
    assert silences(found) == [min(gap, longest) for gap in silences(moments)]


def silences(moments: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise([0, *moments])]


def test_what_a_profile_does_not_say_is_said_beside_it() -> None:
    it = ModelledPace(FixedSpan(2000.0), profile=PROFILES["gpt-4o"])

    assert it.resolved_latency == replace(PROFILES["gpt-4o"].latency, ttft=FixedSpan(2000.0))
