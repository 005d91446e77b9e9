"""No pattern of a document delays a request or the proxy, whatever the text."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from time import process_time, thread_time
from typing import Any, Final

import orjson
import pytest

from case_tables import each_row
from llm_proxy.cassette import StoredRequest
from llm_proxy.errors import PatternsTooSlow, printable_excerpt
from llm_proxy.matching import key_document, normalisers
from llm_proxy.matching.option_grammar import parse_rule
from llm_proxy.scenario import choosing
from llm_proxy.scenario.choosing import ScenarioSet, choose_scenario
from llm_proxy.scenario.documents.loading import parse_scenario_file
from llm_proxy.turns import Json
from scenario_server import (
    locate_scenario,
    make_match_context,
    mismatch_message,
    report_fields,
    scenario_document,
    serve_scenarios,
    text_turn,
)
from thoroughness import quick_or_thorough

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
MAX_CPU_S: Final = 5.0
"""CPU seconds for one choice: far above the limit, for busy machines, and far below the hours that
it takes without a limit."""
MATCH_FIELDS: Final[dict[str, Any]] = {
    "user": lambda pattern: {"user": pattern},
    "system": lambda pattern: {"system": pattern},
    "json": lambda pattern: {"json": {"$.text": {"matches": pattern}}},
}


@each_row("field", MATCH_FIELDS)
@each_row(("pattern", "repeated"), PATTERNS.values(), ids=PATTERNS)
@each_row("size", SIZES)
def test_a_pattern_ends_in_time_or_is_named(
    field: str, pattern: str, repeated: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "_CPU_LIMIT_S", quick_or_thorough(0.004, 0.05))
    text = repeated * (size // len(repeated)) + "!"
    document = locate_scenario(scenario_document(text_turn(), match=MATCH_FIELDS[field](pattern)))
    context = replace(make_match_context(text, system=text), body={"text": text})
    started_at_s = process_time()

    error = ""
    try:
        choose_scenario(ScenarioSet((document,)), context, thread_time)
    except PatternsTooSlow as slow:
        error = str(slow)

    assert process_time() - started_at_s < MAX_CPU_S
    if error:
        assert error.startswith("Scenario refund (")
        assert f"match.{field}" in error
        assert printable_excerpt(pattern, 80) in error


def test_many_patterns_share_one_limit() -> None:
    slow = locate_scenario(scenario_document(text_turn(), match={"user": r"^(a+)+$"}))
    clock_ticks = iter(range(100))
    with pytest.raises(PatternsTooSlow, match="took more than 50 ms"):
        choose_scenario(
            ScenarioSet((slow, slow)), make_match_context("b"), lambda: float(next(clock_ticks))
        )


@each_row(
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
        str(row_number): [
            {str(column_number): [[column_number]] for column_number in range(30)}
            for _ in range(10)
        ]
        for row_number in range(10)
    }
    document = locate_scenario(
        scenario_document(text_turn(), match={"json": {path: {"exists": True}}})
    )
    started_at_s = process_time()

    with pytest.raises(
        PatternsTooSlow, match="exceeds the limit of 20,000 visited values per request"
    ):
        choose_scenario(
            ScenarioSet((document,)),
            replace(make_match_context("x"), body=body),
            thread_time,
        )

    assert process_time() - started_at_s < MAX_CPU_S


@each_row("filters", ["search(@.a, '(a|aa)+$')", "match(@.a, $.b)", "@.a =~ /(a|aa)+$/"])
def test_a_regular_expression_in_a_filter_is_refused_with_its_position(filters: str) -> None:
    path = f"$.messages[?{filters}]"
    match = json.dumps({"json": {path: {"exists": True}}})
    turns = "turns: [{turn: 1, response: {kind: text, assistant_text: c}}]"
    text = f"id: a\ndescription: b\n{turns}\nmatch: {match}\n"

    (mistake,) = parse_scenario_file("s.yaml", text.encode()).mistakes

    assert str(mistake).startswith(f"s.yaml:4:{match.index('$') + 7}: $.match.json")
    assert "not a valid JSONPath" in str(mistake)


async def test_a_slow_pattern_is_answered_with_its_name_while_others_are_served(
    tmp_path: Path,
) -> None:
    slow = scenario_document(text_turn(), match={"user": "(a|aa)+$"})
    async with serve_scenarios(tmp_path, slow) as simulator:
        pending_response = asyncio.ensure_future(
            simulator.send(texts=("a" * 60 + "!",), tools=("agent__final_report",))
        )
        health = await simulator.request_proxy_page("health")
        response = await pending_response

    assert health["ok"]
    assert "match.user" in report_fields(response.turn)["report_content"]


async def test_a_template_that_visits_too_much_is_a_mismatch(tmp_path: Path) -> None:
    slow_template = scenario_document(text_turn("{{ $..*..*..*..zzz }}"), templates=True)
    items = [[[[[[number]]]]] for number in range(200)]
    async with serve_scenarios(tmp_path, slow_template) as simulator:
        response = await simulator.send(texts=("refund",), more={"metadata": {"items": items}})

    message = mismatch_message(response)
    assert "the template {{ $..*..*..*..zzz }} exceeds the limit" in message


@each_row("pattern", ["a.*b|a", "(a|aa)+$", "(a?){300}a{300}", r"(\w+\s?){50}z"])
def test_a_rule_with_a_pattern_reads_a_document_for_a_limited_time(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_bytes = quick_or_thorough(20_000_000, normalisers._MAX_READ_BYTES)
    monkeypatch.setattr(normalisers, "_MAX_READ_BYTES", limit_bytes)
    rule = parse_rule(f"regex={pattern}")
    body = orjson.dumps(["a" * 100_000 + "!"] * 10)
    headers = (("content-type", "application/json"),)
    document = key_document("openai", StoredRequest("POST", "/v1/x", "", headers, body))
    started_at_s = process_time()

    rule.normalize_document(document)

    assert process_time() - started_at_s < MAX_CPU_S
