from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from linear_time import assert_linear
from llm_proxy.diff.documents import DEFAULT_MAX_CHARS, Segment, format_word_diff, word_changes

PROSE = "You are a helpful assistant. Answer in one sentence, and say so where you do not know.\n"


def both_texts(changes: tuple[Segment, ...]) -> tuple[str, str]:
    """Return the old and the new text of a diff."""
    return (
        "".join(before for before, _ in changes),
        "".join(after for _, after in changes),
    )


@each_row(
    ("old", "new", "expected"),
    [
        ("the red car", "the green car", "the [-red-] {+green+} car"),
        ("the red big car", "the green small car", "the [-red big-] {+green small+} car"),
        ("the car", "the red car", "the {+red +}car"),
        ("a b", "a  b", "a[- -] {+  +}b"),
        ("one\ntwo", "one\nthree", "one⏎[-two-] {+three+}"),
        ("", "all of it", "{+all of it+}"),
        ("all of it", "", "[-all of it-]"),
        ("", "x" * 121, f"{{+{'x' * 120}…+}}"),
        ("x" * 121, "", f"[-{'x' * 120}…-]"),
        ("天气很好", "天气不好", "天气[-很-] {+不+}好"),
        ("\x1b[31m", "\x1b[32m", "\\x1b[[-31m-] {+32m+}"),
        ("the same", "the same", ""),
    ],
)
def test_only_the_words_that_differ_are_marked(old: str, new: str, expected: str) -> None:
    assert format_word_diff(old, new) == expected


def test_text_far_from_a_change_is_elided() -> None:
    old = (
        PROSE * 3
        + "Today is Monday. The folder is asked where it can. Now /home/a is yours.\n"
        + PROSE * 3
    )

    assert format_word_diff(old, old.replace("Monday", "Friday").replace("/a", "/b")) == (
        "… know.⏎Today is [-Monday-] {+Friday+}. The folder is … can. Now /home/"
        "[-a-] {+b+} is yours.⏎You …"
    )


def test_long_words_are_cut_to_where_they_differ() -> None:
    assert format_word_diff("A" * 5000 + "b" * 2, "A" * 5000 + "c") == (
        f"[-…{'A' * 20}bb-] {{+…{'A' * 20}c+}}"
    )


def test_changes_beyond_the_limit_are_counted() -> None:
    old = [
        f"Item {n} costs {n} euros and is sold in the shop around the corner.\n" for n in range(9)
    ]
    new = [line.replace("euros", "dollars") for line in old]

    diff = format_word_diff("".join(old), "".join(new), max_chars=150)

    assert diff.count("[-euros-] {+dollars+}") == 3
    assert diff.endswith("(and 6 more)")


@given(st.text("ab. \n天é", max_size=60), st.text("ab. \n天é", max_size=60))
def test_a_diff_holds_both_texts_whole(old: str, new: str) -> None:
    changes = word_changes(old, new)

    assert both_texts(changes) == (old, new)
    assert all(before or after for before, after in changes)
    assert (old == new) is all(before == after for before, after in changes)


@each_row(
    ("alphabet", "separators", "length"),
    [("ab", " ", 400), ("ab", ".\n", 990), ("abcdef", ". ", 50_000), ("ab", " ,", 100_000)],
)
def test_pathological_texts_are_compared_in_linear_time(
    alphabet: str, separators: str, length: int
) -> None:
    rng = random.Random(1)
    old, new = (
        "".join(rng.choice(alphabet) + rng.choice(separators) for _ in range(length))
        for _ in range(2)
    )

    assert_linear(lambda size: format_word_diff(old[:size], new[:size]), len(old))
    assert both_texts(word_changes(old, new)) == (old, new)
    assert len(format_word_diff(old, new)) < 2 * DEFAULT_MAX_CHARS


def test_a_word_of_megabytes_is_compared_in_linear_time() -> None:
    """For example the base64 of an image whose last characters differ."""

    def texts(size: int) -> tuple[str, str]:
        return (f"see {'a' * size}b", f"see {'a' * size}c")

    assert_linear(lambda size: format_word_diff(*texts(size)), 1_000_000)
    old, new = texts(1_000_000)
    assert format_word_diff(old, new) == f"see [-…{'a' * 20}b-] {{+…{'a' * 20}c+}}"
    assert both_texts(word_changes(old, new)) == (old, new)
