"""Text splitting and gaps between pieces, as a scenario scripts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.chance import seeded_uniform
from llm_proxy.dialects.encoding import one_piece
from llm_proxy.scenario.documents.document import ChunkSpec
from llm_proxy.scenario.scripted_response import (
    draw_ms,
    gap_ms_drawer,
    text_splitter,
)

TEXT = "Refunds take  3 business days.\n"

_CHUNKS = st.builds(
    ChunkSpec,
    by=st.sampled_from(["whole", "tokens", "words", "characters"]),
    size=st.integers(1, 7) | st.just(10**12),
)
_TEXTS = st.text(st.characters(exclude_categories=()), max_size=60) | st.sampled_from(
    ["", " ", "\n\n", " \u2028 \x85", "Grüße 🌊👩‍👩‍👧", "  a\n", "\ud800 half"]
)


@given(chunks=st.none() | _CHUNKS, text=_TEXTS)
def test_the_pieces_are_the_text_and_none_is_empty(chunks: ChunkSpec | None, text: str) -> None:
    pieces = list(text_splitter(chunks)(text))

    assert "".join(pieces) == text
    assert all(pieces)


@each_row(
    ("chunks", "pieces"),
    [
        (None, (TEXT,)),
        (ChunkSpec(by="whole", size=3), (TEXT,)),
        (ChunkSpec(), ("Refunds", " take", "  3", " business", " days.", "\n")),
        (ChunkSpec(size=4), ("Refunds take  3 business", " days.\n")),
        (ChunkSpec(by="words"), ("Refunds", " take", "  3", " business", " days.\n")),
        (ChunkSpec(by="words", size=2), ("Refunds take", "  3 business", " days.\n")),
        (ChunkSpec(by="words", size=5), (TEXT,)),
        (ChunkSpec(by="characters", size=11), ("Refunds tak", "e  3 busine", "ss days.\n")),
    ],
)
def test_a_text_is_cut_as_its_scenario_says(
    chunks: ChunkSpec | None, pieces: tuple[str, ...]
) -> None:
    assert tuple(text_splitter(chunks)(TEXT)) == pieces


@pytest.mark.shows("000-92")
def test_without_a_chunk_spec_a_text_stays_whole() -> None:
    assert text_splitter(None) is one_piece
    assert list(text_splitter(None)("")) == []


def test_a_long_run_of_white_space_is_cut_at_once() -> None:
    blank = " " * 200_000
    assert list(text_splitter(ChunkSpec(by="words", size=2))(f"a{blank}b{blank}")) == [
        f"a{blank}b{blank}"
    ]


_SEED_PARTS = st.tuples(st.integers(), st.text(st.characters(exclude_categories=()), max_size=5))


@given(what=_SEED_PARTS)
def test_a_seeded_number_lies_from_0_up_to_1_and_is_reproducible(what: tuple[int, str]) -> None:
    assert 0 <= seeded_uniform(*what) < 1
    assert seeded_uniform(*what) == seeded_uniform(*what)


def test_seeded_numbers_are_the_same_on_every_machine() -> None:
    assert seeded_uniform("seed", 1) == 0.5681740836766597
    assert seeded_uniform("seed", 1) != seeded_uniform("seed", "1") != seeded_uniform("see", "d1")


@given(bounds=st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)).map(sorted), what=_SEED_PARTS)
def test_a_span_is_drawn_between_its_least_and_most(
    bounds: list[float], what: tuple[int, str]
) -> None:
    least, most = bounds
    assert least <= draw_ms((least, most), *what) <= most
    assert draw_ms(most, *what) == most


@pytest.mark.shows("004-11", "004-13")
def test_a_span_is_drawn_evenly() -> None:
    draws = [draw_ms((100, 200), "seed", ordinal) for ordinal in range(2000)]
    tenths = [sum(draw // 10 == 10 + tenth for draw in draws) for tenth in range(10)]

    assert all(150 < tenth < 250 for tenth in tenths)


@pytest.mark.shows("004-13")
def test_each_gap_is_drawn_anew_and_again_the_same() -> None:
    first, again, other = (gap_ms_drawer((30, 80), "seed", "", "key", item) for item in (1, 1, 2))
    assert first is not None
    assert again is not None
    assert other is not None

    drawn_first = [first(k) for k in range(1, 50)]
    assert len(set(drawn_first)) == 49
    assert [again(k) for k in range(1, 50)] == drawn_first
    assert not {other(k) for k in range(1, 50)} & set(drawn_first)


def test_a_fixed_gap_is_always_that_long_and_none_is_none() -> None:
    fixed = gap_ms_drawer(30, "seed")
    assert fixed is not None
    assert {fixed(k) for k in range(1, 9)} == {30.0}
    assert gap_ms_drawer(0, "seed") is gap_ms_drawer((0, 0), "seed") is None
