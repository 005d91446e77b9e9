"""Fake embeddings: equal for equal texts, similar for similar ones."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from case_tables import each_row
from linear_time import assert_linear
from llm_proxy.dialects import estimates_and_fakes

SIZES = (1, 8, 256)


def cosine_similarity(first: str, second: str, dimensions: int = 1536) -> float:
    """The cosine of the angle between the embeddings of two texts."""
    pairs = zip(
        estimates_and_fakes.fake_embedding(first, dimensions),
        estimates_and_fakes.fake_embedding(second, dimensions),
        strict=True,
    )
    return sum(a * b for a, b in pairs)


@example("", 1)
@example("a", 1)
@example("...", 1536)
@example("\udc80 \x00", 8)
@example("ß" * 300, 4096)
@given(st.text(), st.sampled_from(SIZES))
def test_a_vector_has_length_1_and_is_the_same_each_time(text: str, dimensions: int) -> None:
    vector = estimates_and_fakes.fake_embedding(text, dimensions)

    assert len(vector) == dimensions
    assert sqrt(sum(value * value for value in vector)) == pytest.approx(1)
    assert estimates_and_fakes.fake_embedding(text, dimensions) == vector


def test_dimensions_are_clamped() -> None:
    assert [len(estimates_and_fakes.fake_embedding("x", size)) for size in (-5, 0, 99_999)] == [
        1,
        1,
        4096,
    ]


@each_row("dimensions", [256, 1536])
@each_row(
    ("text", "like", "unlike"),
    [
        (
            "How do I reset my password?",
            "I forgot my password, how can I reset it?",
            "The weather in Bonn is nice today.",
        ),
        (
            "Wie setze ich mein Passwort zurück?",
            "Ich möchte mein PASSWORT zurücksetzen.",
            "Das Wetter in Bonn ist heute schön.",
        ),
        (
            "パスワードをリセットする方法",
            "パスワードのリセット方法を教えて",
            "今日のボンの天気はとても良い",
        ),
        ("我怎么重置密码", "请告诉我重置密码的方法", "今天波恩的天气很好"),
    ],
    ids=["English", "German", "Japanese", "Chinese"],
)
def test_texts_that_share_words_are_more_similar(
    text: str, like: str, unlike: str, dimensions: int
) -> None:
    assert (
        cosine_similarity(text, like, dimensions)
        > cosine_similarity(text, unlike, dimensions) + 0.1
    )


def test_a_text_is_most_similar_to_itself_and_word_order_counts() -> None:
    same = cosine_similarity("dog bites man", "dog bites man")
    case = cosine_similarity("dog bites man", "Dog bites man!")
    reordered = cosine_similarity("dog bites man", "man bites dog")

    assert same == pytest.approx(1)
    assert same > case > reordered > 0.5


@each_row("second", ["Red car", "red  car", "red car.", "", "?", "\udc80"])
def test_another_text_has_another_vector(second: str) -> None:
    assert estimates_and_fakes.fake_embedding(
        "red car", 1536
    ) != estimates_and_fakes.fake_embedding(second, 1536)


@each_row(
    "text",
    ["x" * 100_000, "".join(map(chr, range(0x4E00, 0x9F00))) * 5, "lorem ipsum dolor " * 5555],
    ids=["one letter", "Chinese", "words"],
)
def test_a_long_text_takes_little_time(text: str) -> None:
    assert_linear(lambda size: estimates_and_fakes.fake_embedding(text[:size], 16), len(text))
