"""The whole corpus, judged: the official clients read what we read, and little is left out."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

import corpus_comparison
import corpus_ignored_events
import corpus_tables
import judge_runner
from corpus_comparison import Compared, Reading, compare
from judge_runner import Answer
from llm_proxy.turns import Text, ToolCall, Turn, Usage

ROWS: Final = {
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

STREAMS: Final = 663
"""Streams of the corpus."""

UNFINISHED: Final = {
    "29cf02695c801610": "candidate 0 unfinished",  # a mock made by hand
    "cfa932f776026cc0": "no [DONE], no choice",  # Writer's: values, and no end of any kind
}
"""Streams that are not complete, however they are framed."""

MOST_LOST: Final = 0.01
"""Of all events: as many may be left out that say something."""


@pytest.mark.long
@pytest.mark.corpus
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "reading", corpus_comparison.READINGS, ids=lambda it: f"{it.judge} {it.dialect}"
)
async def test_an_official_client_reads_every_row_as_we_do_but_for_those_listed(
    reading: Reading,
) -> None:
    if why := judge_runner.missing(reading.judge):
        pytest.skip(why)
    listed = json.loads(corpus_comparison.DIFFERENCES.read_bytes()).get(reading.judge, {})
    compared = await compare(reading)

    assert len(compared) == ROWS[reading.judge, reading.dialect]
    assert corpus_comparison.apart(reading, compared) == {
        (wire, row): why
        for wire, rows in listed.items()
        if wire in reading.wires
        for row, why in rows.items()
    }


@pytest.mark.long
@pytest.mark.corpus
@pytest.mark.timeout(300)
def test_every_event_that_is_left_out_is_listed_and_few_of_them_said_anything() -> None:
    seen, left_out = corpus_ignored_events.count()
    empty, lost = corpus_ignored_events.reasons("empty"), corpus_ignored_events.reasons("lost")

    assert left_out.keys() == empty.keys() | lost.keys()
    assert not empty.keys() & lost.keys()
    assert seen.total() > 29_000
    assert sum(left_out[item] for item in lost) <= MOST_LOST * seen.total()


@pytest.mark.corpus
def test_every_real_stream_is_complete_as_it_was_sent_but_for_two() -> None:
    verdicts = corpus_tables.verdicts()

    assert len(verdicts) == STREAMS
    assert {
        verdict.row.id: verdict.sent.reason for verdict in verdicts if not verdict.sent.is_complete
    } == UNFINISHED
    kept = json.loads((corpus_comparison.DIFFERENCES.with_name("corpus_partial.json")).read_bytes())
    assert {verdict.row.id for verdict in verdicts if not verdict.kept.is_complete} <= {
        row for rows in kept.values() for row in rows
    }


SAID: Final = Turn(
    (Text("It rains."), ToolCall("call_1", "get_weather", '{"city":"Rome"}')),
    finish_raw="stop",
    usage=Usage(9, 2),
)
HEARD: Final[dict[str, Any]] = {
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
@pytest.mark.parametrize(
    ("field", "otherwise"),
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
def test_what_is_heard_otherwise_is_a_difference(field: str, otherwise: object) -> None:
    row = corpus_comparison.READINGS[0].rows()[0]
    alike = Compared(row, Answer(**HEARD), SAID, FIELDS)
    unlike = Compared(row, Answer(**{**HEARD, field: otherwise}), SAID, FIELDS)

    assert alike.differences() == []
    assert unlike.differences() == [field]


def test_every_judge_in_python_says_what_it_can_tell() -> None:
    fields = {
        dataclass_field
        for dataclass_field in Answer.__dataclass_fields__
        if dataclass_field != "id"
    }
    for name in {reading.judge for reading in corpus_comparison.READINGS}:
        assert name in judge_runner.judges()
        for told in judge_runner.abilities(name).values():
            assert told.keys() == {"stream", "whole"}
            assert set(told["stream"]) | set(told["whole"]) <= fields


def test_a_judge_that_is_not_installed_says_how_to_install_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_runner, "FOLDER", tmp_path)
    folder = tmp_path / "somebody"
    (folder / ".venv").mkdir(parents=True)
    (folder / "judge.py").touch()
    (folder / "requirements.txt").write_text("somebody==1\n")
    (folder / ".venv" / judge_runner.STAMP).write_text("another lock")

    assert judge_runner.missing.__wrapped__("somebody") == (
        "judge somebody is not installed: scripts/judges somebody"
    )
    assert judge_runner.judges() == ("somebody",)
