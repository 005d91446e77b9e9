"""No pattern of a document holds up a request or the proxy, whatever the text is."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from time import process_time, thread_time
from typing import Any, Final

import orjson
import pytest

from llm_proxy.cassette import StoredRequest
from llm_proxy.errors import PatternsTooSlow, printable
from llm_proxy.matching import key_document
from llm_proxy.matching.grammar import parse_rule
from llm_proxy.scenario.documents.loading import load_file
from llm_proxy.scenario.engine.choosing import choose_scenario
from llm_proxy.scenario.engine.scenario_set import ScenarioSet
from llm_proxy.turns import Json
from scenario_server import cue, playing, reported, says, script, scripted

PATTERNS: Final = {
    "alternatives that overlap": (r"(a|aa)+$", "a"),
    "a repeated repetition": (r"^(a+)+$", "a"),
    "words in words": (r"^(\w+\s?)*$", "a"),
    "three repetitions": (r"a+?a+?a+?b", "a"),
    "nested counts": (r"((a{1,40}){1,40}){1,40}b", "a"),
    "a reference back": (r"^(a+)\1+?b|(.+)\2\2$", "a"),
    "a look ahead": (r"(?=(a|aa)+$)a", "a"),
    "a look back": (r"(?<=^(a|aa)+)!!", "a"),
    "recursion": (r"(a(?1)?b)+c", "a"),
    "errors allowed": (r"(?b)(?:abcdefghijklmnop){e<=8}", "qz"),
    "blanks at the end": (r"\s+$", " "),
}
SIZES: Final = (60, 3_000, 1_000_000)
MOST: Final = 5.0
"""CPU time of a choice in s: far more than the limit, for busy machines, and far less than without
a limit, where it is hours."""
PLACES: Final[dict[str, Any]] = {
    "user": lambda pattern: {"user": pattern},
    "system": lambda pattern: {"system": pattern},
    "json": lambda pattern: {"json": {"$.text": {"matches": pattern}}},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("pattern", "repeated"), PATTERNS.values(), ids=PATTERNS)
@pytest.mark.parametrize("size", SIZES)
def test_a_pattern_ends_in_time_or_is_named(
    place: str, pattern: str, repeated: str, size: int
) -> None:
    text = repeated * (size // len(repeated)) + "!"
    document = scripted(script(says(), match=PLACES[place](pattern)))
    asked = replace(cue(text, system=text), body={"text": text})
    before = process_time()

    why = ""
    try:
        choose_scenario(ScenarioSet((document,)), asked, thread_time)
    except PatternsTooSlow as slow:
        why = str(slow)

    assert process_time() - before < MOST
    if why:
        assert why.startswith("Scenario refund (")
        assert f"match.{place}" in why
        assert printable(pattern, 80) in why


def test_many_patterns_share_one_limit() -> None:
    slow = scripted(script(says(), match={"user": r"^(a+)+$"}))
    now = iter(range(100))
    with pytest.raises(PatternsTooSlow, match="took more than 50 ms"):
        choose_scenario(ScenarioSet((slow, slow)), cue("b"), lambda: float(next(now)))


@pytest.mark.parametrize(
    "path",
    [
        "$..*..*..*..zzz",
        "$..[?$..[?$..zzz]]",
        "$[*,*][*,*][*,*][*,*][*,*][*,*]",
        "$..[?@..[?@..zzz]]",
    ],
)
def test_a_path_that_visits_too_much_is_named(path: str) -> None:
    body: Json = {
        str(i): [{str(j): [[j]] for j in range(30)} for _ in range(10)] for i in range(10)
    }
    document = scripted(script(says(), match={"json": {path: {"exists": True}}}))
    before = process_time()

    with pytest.raises(PatternsTooSlow, match="visit more than 20,000 values of the request"):
        choose_scenario(ScenarioSet((document,)), replace(cue("x"), body=body), thread_time)

    assert process_time() - before < MOST


@pytest.mark.parametrize(
    "filters", ["search(@.a, '(a|aa)+$')", "match(@.a, $.b)", "@.a =~ /(a|aa)+$/"]
)
def test_a_regular_expression_in_a_filter_is_refused_with_its_position(filters: str) -> None:
    path = f"$.messages[?{filters}]"
    match = json.dumps({"json": {path: {"exists": True}}})
    turns = "turns: [{turn: 1, response: {kind: text, assistant_text: c}}]"
    text = f"id: a\ndescription: b\n{turns}\nmatch: {match}\n"

    (mistake,) = load_file("s.yaml", text.encode()).mistakes

    assert str(mistake).startswith(f"s.yaml:4:{match.index('$') + 7}: $.match.json")
    assert "no JSONPath" in str(mistake)


async def test_a_slow_pattern_is_answered_with_its_name_while_others_are_served(
    tmp_path: Path,
) -> None:
    slow = script(says(), match={"user": "(a|aa)+$"})
    async with playing(tmp_path, slow) as stage:
        asking = asyncio.ensure_future(
            stage.ask(said=("a" * 60 + "!",), tools=("agent__final_report",))
        )
        health = await stage.page("health")
        heard = await asking

    assert health["ok"]
    assert "match.user" in reported(heard.turn)["report_content"]


async def test_a_template_that_visits_too_much_is_an_error_turn(tmp_path: Path) -> None:
    answer = script(says("{{ $..*..*..*..zzz }}"), templates=True)
    items = [[[[[[number]]]]] for number in range(200)]
    async with playing(tmp_path, answer) as stage:
        heard = await stage.ask(said=("refund",), more={"metadata": {"items": items}})

    report = reported(heard.turn)["report_content"]
    assert "the template {{ $..*..*..*..zzz }} is the last of several" in report


@pytest.mark.parametrize("pattern", ["a.*b|a", "(a|aa)+$", "(a?){300}a{300}", r"(\w+\s?){50}z"])
def test_a_rule_with_a_pattern_reads_a_document_for_a_limited_time(pattern: str) -> None:
    rule = parse_rule(f"regex={pattern}")
    body = orjson.dumps(["a" * 100_000 + "!"] * 10)
    headers = (("content-type", "application/json"),)
    document = key_document("openai", StoredRequest("POST", "/v1/x", "", headers, body))
    before = process_time()

    rule.apply(document)

    assert process_time() - before < MOST
