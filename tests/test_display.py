"""Making untrusted text safe to print on a terminal."""

from __future__ import annotations

import json
import re
from pathlib import PurePath

from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy import display

HOSTILE = st.text(
    st.one_of(
        st.characters(categories=["Cc", "Cf", "Zl", "Zp"]),
        st.sampled_from("aé漢😀\n\t\x1b\x9b\u202e"),
    )
)
CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Terminal control characters and bidirectional text controls."""


@each_row(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("Grüße 漢字 😀", "Grüße 漢字 😀"),
        ("a\nb", "a⏎b"),
        ("a\r\nb\tc", "a\\r⏎b\\tc"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("\U000e0041", "\\U000e0041"),
        ("👩\u200d👧", "👩\u200d👧"),
    ],
    ids=["plain", "letters", "lf", "crlf and tab", "title", "c1", "bidi", "tag", "joined emoji"],
)
def test_one_line_shows_every_control_character_as_text(text: str, expected: str) -> None:
    assert display.escape_line(text) == expected


def test_a_block_keeps_its_lines_and_tabs() -> None:
    assert display.escape_block("a\n\tb\r\x1b[2J") == "a\n\tb\\r\\x1b[2J"


@given(HOSTILE)
def test_no_control_character_is_left(text: str) -> None:
    assert CONTROL_CHARACTERS.search(display.escape_line(text)) is None
    assert (
        CONTROL_CHARACTERS.search(display.escape_block(text).replace("\n", "").replace("\t", ""))
        is None
    )


@given(HOSTILE)
def test_json_keeps_its_meaning_and_holds_no_raw_control_character(text: str) -> None:
    document = display.escape_json(json.dumps({"text": text}, ensure_ascii=False))
    assert CONTROL_CHARACTERS.search(document) is None
    assert json.loads(document) == {"text": text}


@each_row(
    ("text", "width", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("漢字", 4, "漢字"),
        ("漢字漢", 4, "漢…"),
        ("e\u0301a", 2, "e\u0301a"),
        ("", 0, ""),
    ],
    ids=["fits", "too long", "wide fits", "wide too long", "combining", "empty"],
)
def test_a_line_is_cut_by_the_columns_it_takes(text: str, width: int, expected: str) -> None:
    assert display.truncate_to_width(text, width) == expected


@given(st.text(), st.integers(1, 40))
def test_a_cut_line_never_takes_more_columns_than_it_may(text: str, width: int) -> None:
    assert display.display_width(display.truncate_to_width(text, width)) <= width


@each_row(("right", "expected"), [(False, "漢  |"), (True, "  漢|")], ids=["left", "right"])
def test_a_cell_is_filled_up_by_columns_and_not_by_characters(right: bool, expected: str) -> None:
    assert display.pad_to_width("漢", 4, align_right=right) + "|" == expected


@each_row(
    ("ms", "expected"),
    [
        (0.0, "0.00 ms"),
        (9.16, "9.16 ms"),
        (176.08, "176 ms"),
        (12_340.0, "12.3 s"),
        (125_400.0, "2 min 5 s"),
        (119_999.0, "2 min 0 s"),
    ],
)
def test_a_duration_is_formatted_in_a_fitting_unit(ms: float, expected: str) -> None:
    assert display.format_duration(ms) == expected


@each_row(("number", "expected"), [(0, "0 reads"), (1, "1 read"), (1449, "1,449 reads")])
def test_a_count_agrees_with_its_noun(number: int, expected: str) -> None:
    assert display.count_with_noun(number, "read") == expected


@each_row(
    ("path", "word"),
    [
        ("a/b-1.jsonl", "a/b-1.jsonl"),
        ("my tapes", "'my tapes'"),
        ("$(rm -r x)", "'$(rm -r x)'"),
        ("it's", "'it'\"'\"'s'"),
        ("a\n;b", "'a⏎;b'"),
        ("caf\udce9", "'caf\ufffd'"),
    ],
    ids=["plain", "space", "substitution", "quote", "line end", "any bytes"],
)
def test_a_path_in_a_command_is_one_word_of_it(path: str, word: str) -> None:
    assert display.shell_quoted_path(path) == word


def test_a_path_of_any_bytes_becomes_text_that_can_be_written() -> None:
    path = PurePath("caf\udce9.jsonl")
    assert display.path_as_unicode_text(path) == "caf\ufffd.jsonl"
    assert display.path_as_unicode_text("plain/ü.jsonl") == "plain/ü.jsonl"


@each_row(
    ("count", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (6140, "6.1 kB"),
        (99_900, "100 kB"),
        (999_999, "1.0 MB"),
        (12_000_000_000, "12 GB"),
    ],
)
def test_a_size_is_formatted_in_a_fitting_unit(count: int, expected: str) -> None:
    assert display.format_size(count) == expected
