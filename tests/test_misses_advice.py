"""A miss suggests the rules that would avoid it, or none where recording is the right remedy."""

from __future__ import annotations

import shlex
from typing import Any

import orjson

from case_tables import each_row
from cassette_builders import META
from llm_proxy import misses
from llm_proxy.exchange import Request
from llm_proxy.matching import NO_RULES, RuleSet
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.miss_report import MissReport
from llm_proxy.misses import CassetteCandidate
from llm_proxy.routing import RoutedRequest, RoutingSettings, route_request

UUIDS = ("b8a1f8f4-6f3c-4a11-9f0e-0123456789ab", "11111111-2222-3333-4444-555555555555")


def call(rules: RuleSet = NO_RULES, /, **body: Any) -> RoutedRequest:
    content = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **body})
    request = Request("POST", "/v1/chat/completions", "", (), content)
    return route_request(request, 0.0, lambda: 0.0, settings=RoutingSettings(match_rules=rules))


def report_of_miss(requested: RoutedRequest, stored: RoutedRequest) -> MissReport:
    [found] = misses.rank_candidates(
        requested, [CassetteCandidate("a.jsonl", META, stored.stored_request)]
    )
    return misses.no_cassette_miss(requested, found, 1, "cassettes").report


def suggested_rules(
    requested: dict[str, Any], stored: dict[str, Any]
) -> list[tuple[str, str, bool]]:
    report = report_of_miss(call(**requested), call(**stored))
    assert report.nearest is not None
    return [
        (difference.path, difference.rule, bool(difference.caution))
        for difference in report.nearest.differences
    ]


@each_row(
    ("requested", "stored", "path", "rule", "cautious"),
    [
        ({"temperature": 1}, {"temperature": 0}, "$.temperature", "ignore=$.temperature", False),
        ({"metadata": {"trace": "a"}}, {"metadata": {"trace": "b"}}, "$.metadata.trace",
         "ignore=$.metadata.trace", False),
        ({"user": UUIDS[0]}, {"user": UUIDS[1]}, "$.user", "uuids", False),
        ({"stream": True}, {"stream": False}, "$.stream", "ignore=$.stream", True),
        ({"model": "n"}, {}, "$.model", "ignore=$.model", True),
        ({"messages": []}, {}, "$.messages[0]", "ignore=$.messages[0]", True),
        ({"system": "a"}, {"system": "b"}, "$.system", "ignore=$.system", True),
        ({"a b": 1}, {"a b": 2}, "$['a b']", 'ignore=$["a b"]', False),
        ({"it's": 1}, {"it's": 2}, '$["it\'s"]', "", False),
        ({"tools": [{"name": "a"}]}, {"tools": [{"name": "b"}]}, "$.tools[0].name",
         "ignore=$.tools[0].name", False),
    ],
    ids=[
        *("a setting", "within metadata", "a uuid", "stream", "model", "a message", "system"),
        *("a name with a space", "a name with a quote", "a tool"),
    ],
)  # fmt: skip
def test_each_difference_has_its_rule(
    requested: dict[str, Any], stored: dict[str, Any], path: str, rule: str, cautious: bool
) -> None:
    assert suggested_rules(requested, stored) == [(path, rule, cautious)]


def test_all_rules_together_make_the_cassette_answer() -> None:
    requested = {"user": UUIDS[0], "temperature": 1, "metadata": {"a b": 1}}
    stored = {"user": UUIDS[1], "temperature": 0, "metadata": {"a b": 2}}
    rules = report_of_miss(call(**requested), call(**stored)).rules
    assert rules == ("uuids", "ignore=$.temperature", 'ignore=$.metadata["a b"]')
    loosened = parse_rules(rules)
    assert call(loosened, **requested).key == call(loosened, **stored).key


def test_the_rules_of_the_run_come_first_and_each_difference_names_its_own_rule() -> None:
    run_rules = parse_rules(["ignore=$.user", "whitespace"])
    requested, stored = {"user": "a", "seed": 1}, {"user": "b", "seed": 2}
    report = report_of_miss(call(run_rules, **requested), call(run_rules, **stored))
    assert report.rules == ("ignore=$.user", "whitespace", "ignore=$.seed")
    assert report.nearest is not None
    assert [difference.rule for difference in report.nearest.differences] == ["ignore=$.seed"]
    assert report.text.splitlines()[-1] == (
        "to match the nearest cassette, use: --normalise 'ignore=$.user' --normalise whitespace "
        "--normalise 'ignore=$.seed'"
    )
    loosened = parse_rules(report.rules)
    assert call(loosened, **requested).key == call(loosened, **stored).key


def test_no_rule_is_suggested_where_rules_do_not_apply() -> None:
    report = report_of_miss(call(NO_RULES.as_exact(), seed=1), call(NO_RULES.as_exact(), seed=2))
    assert report.rules == ()
    assert "--normalise" not in report.text
    assert report.text.endswith("record the request with llm-proxy record")


@each_row(
    ("requested", "stored"),
    [
        ({"model": "n", "seed": 1}, {"seed": 2}),
        ({"stream": True}, {}),
        ({"messages": [{"role": "user", "content": "bye"}], "seed": 1}, {"seed": 2}),
        ({f"field{n}": n for n in range(30)}, {}),
        ({"it's": 1}, {"it's": 2}),
    ],
    ids=["another model", "a stream", "another question", "too much", "no rule can say it"],
)
def test_where_recording_is_right_no_rules_are_offered(
    requested: dict[str, Any], stored: dict[str, Any]
) -> None:
    report = report_of_miss(call(NO_RULES, **requested), call(NO_RULES, **stored))
    assert report.rules == ()
    assert report.text.endswith("record the request with llm-proxy record")


def test_uuids_that_are_used_differently_are_not_left_to_the_uuids_rule() -> None:
    one, other = UUIDS
    requested = {"metadata": {"a": one, "b": one}}
    stored = {"metadata": {"a": one, "b": other}}
    assert suggested_rules(requested, stored) == [("$.metadata.b", "ignore=$.metadata.b", False)]


def test_the_rules_can_be_pasted_into_a_shell() -> None:
    report = report_of_miss(call(metadata={"a b": 1}), call(metadata={"a b": 2}))
    line = report.text.splitlines()[-1].removeprefix("to match the nearest cassette, use: ")
    assert shlex.split(line) == ["--normalise", 'ignore=$.metadata["a b"]']


def test_long_texts_are_shown_by_the_words_that_differ() -> None:
    words = "You are a helpful assistant who answers in one short sentence about the {} car today."
    report = report_of_miss(call(system=words.format("green")), call(system=words.format("red")))
    assert report.nearest is not None
    assert "the [-red-] {+green+} car" in report.nearest.differences[0].diff
    assert "the [-red-] {+green+} car" in report.text
