"""A miss names the rules by which it would be none, and none where recording is right."""

from __future__ import annotations

import shlex
from typing import Any

import orjson
import pytest

from cassette_builders import META
from llm_proxy import misses
from llm_proxy.exchange import Request
from llm_proxy.matching import EXACT, PLAIN, RuleSet
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.miss_report import MissReport
from llm_proxy.misses import CassetteCandidate
from llm_proxy.routing import RoutedRequest, RoutingSettings, route

UUIDS = ("b8a1f8f4-6f3c-4a11-9f0e-0123456789ab", "11111111-2222-3333-4444-555555555555")


def call(rules: RuleSet = PLAIN, /, **body: Any) -> RoutedRequest:
    content = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **body})
    request = Request("POST", "/v1/chat/completions", "", (), content)
    return route(request, 0.0, lambda: 0.0, settings=RoutingSettings(rules=rules))


def missed(asked: RoutedRequest, stored: RoutedRequest) -> MissReport:
    found = misses.find_nearest(asked, [CassetteCandidate("a.jsonl", META, stored.stored_request)])
    return misses.miss_without_cassette(asked, found, "cassettes").missed


def remedies(asked: dict[str, Any], stored: dict[str, Any]) -> list[tuple[str, str, bool]]:
    it = missed(call(**asked), call(**stored))
    assert it.nearest is not None
    return [(one.path, one.rule, bool(one.caution)) for one in it.nearest.differences]


@pytest.mark.parametrize(
    ("asked", "stored", "path", "rule", "cautious"),
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
    asked: dict[str, Any], stored: dict[str, Any], path: str, rule: str, cautious: bool
) -> None:
    assert remedies(asked, stored) == [(path, rule, cautious)]


def test_all_rules_together_make_the_cassette_answer() -> None:
    asked = {"user": UUIDS[0], "temperature": 1, "metadata": {"a b": 1}}
    stored = {"user": UUIDS[1], "temperature": 0, "metadata": {"a b": 2}}
    rules = missed(call(**asked), call(**stored)).rules
    assert rules == ("uuids", "ignore=$.temperature", 'ignore=$.metadata["a b"]')
    loosened = parse_rules(rules)
    assert call(loosened, **asked).key == call(loosened, **stored).key


def test_the_rules_of_the_run_come_first_and_each_difference_names_its_own() -> None:
    held = parse_rules(["ignore=$.user", "whitespace"])
    asked, stored = {"user": "a", "seed": 1}, {"user": "b", "seed": 2}
    it = missed(call(held, **asked), call(held, **stored))
    assert it.rules == ("ignore=$.user", "whitespace", "ignore=$.seed")
    assert it.nearest is not None
    assert [one.rule for one in it.nearest.differences] == ["ignore=$.seed"]
    assert it.text.splitlines()[-1] == (
        "it answers with: --normalise 'ignore=$.user' --normalise whitespace "
        "--normalise 'ignore=$.seed'"
    )
    loosened = parse_rules(it.rules)
    assert call(loosened, **asked).key == call(loosened, **stored).key


def test_where_no_rule_would_count_none_is_offered() -> None:
    it = missed(call(EXACT, seed=1), call(EXACT, seed=2))
    assert it.rules == ()
    assert "--normalise" not in it.text
    assert it.text.endswith("record it with llm-proxy record")


@pytest.mark.parametrize(
    ("asked", "stored"),
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
    asked: dict[str, Any], stored: dict[str, Any]
) -> None:
    it = missed(call(PLAIN, **asked), call(PLAIN, **stored))
    assert it.rules == ()
    assert it.text.endswith("record it with llm-proxy record")


def test_ids_that_are_used_otherwise_are_no_matter_of_uuids() -> None:
    one, other = UUIDS
    asked = {"metadata": {"a": one, "b": one}}
    stored = {"metadata": {"a": one, "b": other}}
    assert remedies(asked, stored) == [("$.metadata.b", "ignore=$.metadata.b", False)]


def test_the_rules_can_be_pasted_into_a_shell() -> None:
    it = missed(call(metadata={"a b": 1}), call(metadata={"a b": 2}))
    line = it.text.splitlines()[-1].removeprefix("it answers with: ")
    assert shlex.split(line) == ["--normalise", 'ignore=$.metadata["a b"]']


def test_long_texts_are_told_by_the_words_that_differ() -> None:
    words = "You are a helpful assistant who answers in one short sentence about the {} car today."
    it = missed(call(system=words.format("green")), call(system=words.format("red")))
    assert it.nearest is not None
    assert "the [-red-] {+green+} car" in it.nearest.differences[0].diff
    assert "the [-red-] {+green+} car" in it.text
