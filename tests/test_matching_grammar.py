"""The grammar of matching rules: their meaning, their order, and their form in cassettes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from case_tables import each_row
from linear_time import assert_linear
from llm_proxy.cassette import StoredRequest
from llm_proxy.errors import UsageError
from llm_proxy.matching import RuleSet, normalized_document, request_key
from llm_proxy.matching.normalisers import NORMALISERS
from llm_proxy.matching.option_grammar import (
    MatchSettings,
    parse_match_settings,
    parse_rule,
    parse_rules,
)


def stored_request(**body: Any) -> StoredRequest:
    return StoredRequest("POST", "/v1/x", "", (), json.dumps(body).encode())


@each_row(
    ("text", "spelled", "setting"),
    [
        ("uuids", "uuids@1", "uuids"),
        (" uuids ", "uuids@1", "uuids"),
        ("uuids@1", "uuids@1", "uuids"),
        ("ignore=$.a", "ignore@1=$.a", "ignore=$.a"),
        ("ignore@1 = $.a ", "ignore@1=$.a", "ignore=$.a"),
        ("ignore=$['a=b']", "ignore@1=$['a=b']", "ignore=$['a=b']"),
        ("regex=a=b@2|c", "regex@1=a=b@2|c", "regex=a=b@2|c"),
    ],
)
def test_a_rule_is_a_name_and_perhaps_an_argument(text: str, spelled: str, setting: str) -> None:
    rule = parse_rule(text)

    assert (str(rule), rule.option_text) == (spelled, setting)
    assert str(parse_rule(spelled)) == spelled


@each_row(
    ("text", "why"),
    [
        ("", "'' is not a valid rule: use NAME or NAME=ARGUMENT, such as uuids or ignore=$.meta"),
        ("UUIDs", "'UUIDs' is not a valid rule: use NAME or NAME=ARGUMENT"),
        ("uuid", "unknown rule 'uuid'; did you mean 'uuids'?"),
        ("nothing-like-it", f"unknown rule 'nothing-like-it'; known: {', '.join(NORMALISERS)}"),
        ("uuids=x", "uuids takes no argument; remove =x"),
        ("uuids@2", "rule uuids has version 1, not 2; remove @2"),
        ("ignore", "ignore needs a JSONPath, such as ignore=$.metadata.trace"),
        ("regex= ", "regex needs a pattern, such as regex=build-[0-9]+"),
        ("regex=(a", "regex=(a is not a valid RE2 pattern: missing ): (a"),
        ("regex=(?=a)", "regex=(?=a) is not a valid RE2 pattern: invalid perl operator: (?="),
        (r"regex=(a)\1", r"regex=(a)\1 is not a valid RE2 pattern: invalid escape sequence: \1"),
        (r"regex=\C", r"regex=\C contains \C, which can match part of a multi-byte character; u"),
        ("regex=(a?){500}a{500}", "is too large; reduce the repetition counts in {…}"),
        ("regex=" + "a" * 5000, "is too long; the maximum is 900 characters"),
        ("regex=a\tb", "is not a valid rule: use at most 1000 characters, and no line"),
        ("ignore=$['" + "a" * 1000 + "']", "use at most 1000 characters"),
    ],
)  # fmt: skip
def test_an_invalid_rule_is_refused_with_a_correction(text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_rule(text)
    assert why in str(refused.value)


@each_row("pattern", ["a*", "x|", r"\b", "^", "$", "(?m)^", "[0-9]*b?"])
def test_a_pattern_that_finds_the_empty_text_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="matches the empty string"):
        parse_rule(f"regex={pattern}")


def normalized_body(rules: list[str], **body: Any) -> Any:
    """The body after these rules are applied."""
    return normalized_document("x", stored_request(**body), parse_rules(rules)).document.body


def test_rules_are_applied_in_their_order() -> None:
    first, second = "ignore=$.a", "regex=[0-9]+"
    body = {"a": 1, "b": "build 2026-11-22"}
    assert parse_rules([first, second]).rule_texts == ("ignore@1=$.a", "regex@1=[0-9]+")

    dates_first = normalized_body(["timestamps", second], **body)
    digits_first = normalized_body([second, "timestamps"], **body)
    assert dates_first == {"a": 1, "b": "build <time>"}
    assert digits_first["b"].count("<regex-") == 3


def test_rules_that_change_nothing_of_a_request_leave_it_its_key() -> None:
    request = stored_request(a="text", model="2026-11-22")
    rules = parse_rules(["whitespace", "timestamps", "uuids", "regex=[0-9]+", "ignore=$.b"])

    assert request_key("x", request, rules) == request_key("x", request, RuleSet())


def test_a_pattern_finds_whole_characters() -> None:
    text = normalized_body(["regex=(?i)[äö]+|😀"], a="naïve 😀 ÄÖ")["a"]
    mark = text.split(" ")[1]

    assert text == f"naïve {mark} {mark}"


@each_row(
    ("pattern", "text"),
    [
        ("(a|aa)+$", "a" * 100_000 + "b"),
        ("(x+x+)+y", "x" * 100_000),
        ("a.*z|a", "a" * 100_000),
        ("[0-9]+", "1 " * 50_000),
    ],
)
def test_no_pattern_and_text_hold_up_the_proxy(pattern: str, text: str) -> None:
    def normalize(size: int) -> Any:
        return normalized_body([f"regex={pattern}"], a=text[-size:])["a"]

    assert_linear(normalize, len(text))
    assert normalize(len(text)).endswith(text[-1])


@each_row(
    ("text", "settings"),
    [
        ("exact", MatchSettings(is_exact=True)),
        (" normalised ", MatchSettings()),
        ("nearest:0.9", MatchSettings(minimum_similarity=0.9)),
        ("nearest:.5", MatchSettings(minimum_similarity=0.5)),
        ("nearest:1", MatchSettings(minimum_similarity=1.0)),
    ],
)
def test_how_alike_a_cassette_must_be(text: str, settings: MatchSettings) -> None:
    assert parse_match_settings(text) == settings


@each_row(
    "text", ["", "exactly", "exact:1", "nearest", "nearest:", "nearest:0.4", "nearest:2", "near:1"]
)
def test_an_unknown_way_to_match_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="use exact, normalised, or nearest:"):
        parse_match_settings(text)


def test_more_rules_than_a_cassette_can_name_are_refused() -> None:
    with pytest.raises(UsageError, match="too many rules: 101; the maximum is 100"):
        parse_rules(["uuids"] * 101)
