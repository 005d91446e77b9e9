"""The official clients read the whole corpus as we do, and few events are left out."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

import corpus
import corpus_comparison
import corpus_ignored_events
import corpus_tables
import judge_runner
from case_tables import each_row
from corpus_comparison import Comparison, compare
from judge_runner import JudgeResponse
from llm_proxy.turns import Text, ToolCall, Turn, Usage
from thoroughness import quick_or_thorough

ROW_COUNTS: Final = {
    ("openai", "openai-chat"): 450,
    ("openai", "openai-completions"): 47,
    ("openai", "openai-responses"): 224,
    ("anthropic", "anthropic"): 198,
    ("ollama", "ollama"): 10,
    ("ollama", "ollama-generate"): 6,
    ("google-genai", "gemini"): 190,
    ("google-genai", "gemini-interactions"): 8,
    ("cohere", "cohere"): 68,
    ("cohere", "cohere-v1"): 17,
    ("boto3", "bedrock"): 66,
    ("boto3", "bedrock-invoke"): 39,
    ("mistralai", "openai-chat"): 28,
    ("groq", "openai-chat"): 29,
}
"""How many rows each client reads."""

STREAM_COUNT: Final = 663
"""The number of streams in the corpus."""

INCOMPLETE_STREAMS: Final = {
    "29cf02695c801610": "candidate 0 unfinished",  # a mock written by hand
    "cfa932f776026cc0": "no [DONE], no choice",  # Writer's: values, and no end marker of any kind
}
"""Streams that are incomplete in any framing."""

MAX_LOST_SHARE: Final = 0.01
"""The maximum share of events with content that may be left out."""


@pytest.mark.long
@pytest.mark.corpus
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "judge",
    [pytest.param(name, marks=judge_runner.marks(name)) for name in corpus_comparison.JUDGES],
)
async def test_an_official_client_reads_every_row_as_we_do_but_for_those_listed(judge: str) -> None:
    if reason := judge_runner.missing_reason(judge):
        pytest.skip(reason)
    expected_differences = json.loads(corpus_comparison.DIFFERENCES.read_bytes()).get(judge, {})

    for reading, comparisons in await compare(judge):
        row_count = ROW_COUNTS[judge, reading.dialect]
        assert len(comparisons) == quick_or_thorough(min(100, row_count), row_count)
        compared = {comparison.row.id for comparison in comparisons}
        assert corpus_comparison.differing_rows(reading, comparisons) == {
            (wire, row): reason
            for wire, rows in expected_differences.items()
            if wire in reading.wires
            for row, reason in rows.items()
            if row in compared
        }


@pytest.mark.long
@pytest.mark.corpus
@pytest.mark.timeout(300)
def test_every_event_that_is_left_out_is_listed_and_few_of_them_had_content() -> None:
    seen, left_out = corpus_ignored_events.count_events()
    empty, lost = corpus_ignored_events.reasons("empty"), corpus_ignored_events.reasons("lost")

    assert left_out.keys() == empty.keys() | lost.keys()
    assert not empty.keys() & lost.keys()
    assert seen.total() > 29_000
    assert sum(left_out[kind] for kind in lost) <= MAX_LOST_SHARE * seen.total()


@pytest.mark.corpus
def test_every_real_stream_is_complete_as_it_was_sent_but_for_two() -> None:
    outcomes = corpus_tables.stream_outcomes()

    assert len(outcomes) == STREAM_COUNT
    assert {
        outcome.row.id: outcome.reframed.reason
        for outcome in outcomes
        if not outcome.reframed.is_complete
    } == INCOMPLETE_STREAMS
    expected_partial = json.loads(
        (corpus_comparison.DIFFERENCES.with_name("corpus_partial.json")).read_bytes()
    )
    assert {outcome.row.id for outcome in outcomes if not outcome.recorded.is_complete} <= {
        row for rows in expected_partial.values() for row in rows
    }


EXPECTED_TURN: Final = Turn(
    (Text("It rains."), ToolCall("call_1", "get_weather", '{"city":"Rome"}')),
    finish_raw="stop",
    usage=Usage(9, 2),
)
CLIENT_ANSWER: Final[dict[str, Any]] = {
    "id": "1",
    "text": "It rains.",
    "reasoning": "",
    "refusal": None,
    "calls": [{"id": "call_1", "name": "get_weather", "arguments": {"city": "Rome"}}],
    "finish": "stop",
    "usage": {"input": 9, "output": 2},
    "error": None,
}
FIELDS: Final = ("text", "reasoning", "calls", "finish", "usage", "error")


@pytest.mark.corpus
@each_row(
    ("field", "changed_value"),
    [
        ("text", "It rains"),
        ("reasoning", "Hm."),
        ("calls", []),
        ("calls", [{"id": "call_1", "name": "get_weather", "arguments": '{"city":'}]),
        ("calls", [{"id": "call_2", "name": "get_weather", "arguments": {"city": "Rome"}}]),
        ("finish", None),
        ("usage", {"input": 9, "output": 3}),
        ("usage", None),
        ("error", {"type": "APIError", "status": None, "message": "no"}),
    ],
)
def test_a_changed_field_is_a_difference(field: str, changed_value: object) -> None:
    row = corpus.rows()[0]
    same = Comparison(row, JudgeResponse(**CLIENT_ANSWER), EXPECTED_TURN, FIELDS)
    different = Comparison(
        row, JudgeResponse(**{**CLIENT_ANSWER, field: changed_value}), EXPECTED_TURN, FIELDS
    )

    assert same.differences() == []
    assert different.differences() == [field]


def test_every_judge_in_python_lists_the_fields_that_it_reports() -> None:
    fields = {
        dataclass_field
        for dataclass_field in JudgeResponse.__dataclass_fields__
        if dataclass_field != "id"
    }
    for name in {reading.judge for reading in corpus_comparison.READINGS}:
        assert name in judge_runner.judge_names()
        for ability in judge_runner.load_abilities(name).values():
            assert ability.keys() == {"stream", "whole"}
            assert set(ability["stream"]) | set(ability["whole"]) <= fields


def test_a_judge_that_is_not_installed_says_how_to_install_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_runner, "FOLDER", tmp_path)
    folder = tmp_path / "somebody"
    (folder / ".venv").mkdir(parents=True)
    (folder / "judge.py").touch()
    (folder / "requirements.txt").write_text("somebody==1\n")
    (folder / ".venv" / judge_runner.STAMP).write_text("another lock")

    assert judge_runner.missing_reason.__wrapped__("somebody") == (
        "judge somebody is not installed: scripts/judges somebody"
    )
    assert judge_runner.judge_names() == ("somebody",)
