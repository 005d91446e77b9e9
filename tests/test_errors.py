from __future__ import annotations

import inspect
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy import errors
from llm_proxy.errors import (
    CassetteError,
    CassetteTooNew,
    Miss,
    RequestRefused,
    UpstreamFailed,
    printable_excerpt,
)


def test_the_documented_tree_is_the_tree_of_the_classes() -> None:
    documented: list[tuple[str, str]] = []
    ancestors: list[tuple[int, str]] = [(-1, "Exception")]
    for indent, name in re.findall(
        r"^    ([│├└─ ]*)([A-Z]\w+)", errors.__doc__ or "", re.MULTILINE
    ):
        while ancestors[-1][0] >= len(indent):
            ancestors.pop()
        documented.append((name, ancestors[-1][1]))
        ancestors.append((len(indent), name))
    classes = [
        (name, error_class.__base__.__name__ if error_class.__base__ else "")
        for name, error_class in inspect.getmembers(errors, inspect.isclass)
        if error_class.__module__ == errors.__name__
    ]
    assert sorted(documented) == sorted(classes)


@each_row(
    ("error", "message"),
    [
        (CassetteError("a.jsonl", 3, "no"), "a.jsonl:3: no"),
        (CassetteError("a.jsonl", None, "no"), "a.jsonl: no"),
        (CassetteTooNew("a.jsonl", 1, "format 2"), "a.jsonl:1: format 2"),
        (CassetteError("\x1b[2J.jsonl", 1, "\x9b2J\n"), r"\x1b[2J.jsonl:1: \x9b2J\n"),
    ],
    ids=["line", "no line", "too new", "control characters"],
)
def test_a_cassette_is_refused_by_file_and_line(error: CassetteError, message: str) -> None:
    assert str(error) == message


@each_row(
    ("text", "shown"),
    [
        ("häßlich 😀", "häßlich 😀"),
        ("a\nb\tc\x00", r"a\nb\tc\x00"),
        ("\u202eevil\u2028", r"\u202eevil\u2028"),
        ("\udc80", r"\udc80"),
        ("12345678901234567890", "12345678901234567890"),
        ("123456789012345678901", "1234567890123456789…"),
        ("\x00" * 20, r"\x00\x00\x00\x00\x0" + "…"),
    ],
    ids=["as it is", "controls", "direction", "half a pair", "fits", "too long", "escapes count"],
)
def test_untrusted_text_is_escaped_in_one_line(text: str, shown: str) -> None:
    assert printable_excerpt(text, 20) == shown


@given(st.text(st.characters()), st.integers(1, 30))
def test_any_text_becomes_one_line_of_printable_characters(text: str, limit: int) -> None:
    shown = printable_excerpt(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit


@pytest.mark.parametrize("error_type", [RequestRefused, UpstreamFailed])
def test_an_error_that_is_answered_over_http_carries_its_status(
    error_type: type[RequestRefused | UpstreamFailed],
) -> None:
    error = error_type(504, "no answer")
    assert (error.status, str(error)) == (504, "no answer")


def test_a_miss_has_a_short_message_and_a_detail() -> None:
    miss = Miss("short", "long")
    assert (str(miss), miss.detail) == ("short", "long")
