"""A regular expression that can take exponential time is found, where it is plain to see."""

from __future__ import annotations

import re
import warnings
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_proxy.scenario.documents.sense.repeats import repeated_twice


@pytest.mark.parametrize(
    ("pattern", "twice"),
    [
        ("^(a+)+$", "(a+)+"),
        ("x(a*)*", "(a*)*"),
        ("(.*)*", "(.*)*"),
        ("((a+))+", "((a+))+"),
        ("((a+)?)*", "((a+)?)*"),
        ("(b|a+)+", "(b|a+)+"),
        (r"(\w+\s?)*", r"(\w+\s?)*"),
        ("(a+b?)+", "(a+b?)+"),
        ("(?:a+){2,}", "(?:a+){2,}"),
        ("(?P<n>a{1,})*?", "(?P<n>a{1,})*?"),
        ("([^]+]+)*", "([^]+]+)*"),
        ("(?i:(x+x*)+)", "(x+x*)+"),
        ("(?=(a+)+)", "(a+)+"),
    ],
)
def test_a_group_that_may_be_one_repetition_is_not_repeated(pattern: str, twice: str) -> None:
    re.compile(pattern)

    assert repeated_twice(pattern) == twice


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a+b+",
        "(a+b)+",
        "(a?)+",
        "(a{2})*",
        "(a+)?",
        "(a+){1,3}",
        "(a|b)*",
        r"(?:\w+,)*\w+",
        r"(\w+\s+)*",
        r"(\d+\.)+\d+",
        r"\(a+\)+",
        "[(a+)+]",
        "(a++)+",
        "(a+)++",
        "(?>a+)+",
        "((?=a+)b)+",
        "(?i)a+",
        "(?#(a+)b+",
        "a{}+",
        "(?x) (a+ # )+\n )",
        "(a)(?(1)b+|c)",
    ],
)
def test_what_is_kept_apart_or_bounded_may_be_repeated(pattern: str) -> None:
    re.compile(pattern)

    assert repeated_twice(pattern) == ""


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    shapes = ("({})*", "(?:{})+?", "(?={})", "(?P<n>{}){{2,}}", "({}|)", "(?i:{})?", "(?>{})++")
    around = st.tuples(st.sampled_from(shapes), inner).map(lambda it: it[0].format(it[1]))
    return around | st.lists(inner, max_size=3).map("".join) | st.lists(inner).map("|".join)


ATOMS: Final = ("a", "b+", ".*", r"\(", r"[](+]", "^", "(?#(+*)", "{}", "a{1,2}", r"\w*?", "")


@settings(max_examples=200)
@given(st.recursive(st.sampled_from(ATOMS), _larger, max_leaves=8))
def test_any_expression_can_be_looked_at(pattern: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(pattern)
        except re.error:  # a name that comes twice
            return

    assert repeated_twice(pattern) in pattern
