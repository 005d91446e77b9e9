"""Timing of a mock: thinking time before the answer, and gaps between the pieces of a stream."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from case_tables import each_row
from cli_process import run_command
from llm_proxy.errors import UsageError
from llm_proxy.pacing import InstantPace, RecordedPace
from llm_proxy.scenario import scripting
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import MockSpec
from llm_proxy.scenario.scripted_response import SendTurns
from scenario_server import DecodedResponse, in_every_form, make_match_context, serve_scenarios


def read(options: dict[str, Any]) -> MockSpec:
    return loading.parse_struct(MockSpec, "--mock", json.dumps(options))


async def ask_mock(folder: Path, options: dict[str, Any], **question: Any) -> DecodedResponse:
    """Return the response of a server with this mock."""
    async with serve_scenarios(folder, mock=json.dumps(options)) as server:
        return await server.send(**question)


def timing(**options: Any) -> tuple[float, list[float]]:
    """Return the milliseconds before an answer, and between its first pieces."""
    action = scripting.mock_response(
        read({"reply": "x"} | options), 1, make_match_context("Hi")
    ).scripted_action
    assert isinstance(action, SendTurns)
    assert action.gap_ms is not None
    return action.thinking_ms, [action.gap_ms(item) for item in (1, 2, 3)]


@pytest.mark.shows("004-11", "004-12", "004-13")
def test_times_have_defaults_an_old_name_and_the_new_one_wins() -> None:
    assert timing() == (0, [30, 30, 30])
    assert timing(thinkingMs=7, chunkDelayMs=5) == (7, [5, 5, 5])
    assert timing(delayMs=7)[0] == 7
    assert timing(delayMs=7, thinkingMs=3)[0] == 3
    assert timing(delayMs=7, thinkingMs=0)[0] == 0


@pytest.mark.shows("004-11", "004-13")
def test_a_range_is_drawn_from_anew_for_each_gap_and_again_the_same() -> None:
    thinking, gaps = timing(thinkingMs=[100, 200], chunkDelayMs=[30, 80])

    assert (thinking, gaps) == timing(thinkingMs=[100, 200], chunkDelayMs=[30, 80])
    assert 100 <= thinking <= 200
    assert all(30 <= gap <= 80 for gap in gaps)
    assert len(set(gaps)) == 3
    other = scripting.mock_response(
        read({"thinkingMs": [100, 200]}),
        1,
        replace(make_match_context("Hi"), seed="other"),
    ).scripted_action
    assert isinstance(other, SendTurns)
    assert other.thinking_ms != thinking


@pytest.mark.shows("004-12")
async def test_lint_warns_of_both_names(tmp_path: Path) -> None:
    (tmp_path / "mock.yaml").write_text("mock: {delay_ms: 1, thinking_ms: 2}\n")

    linted = await run_command("scenario", "lint", "mock.yaml", folder=tmp_path)

    assert linted.exit_code == 0
    assert "delay_ms" in linted.stdout
    assert "(warning)" in linted.stdout


@pytest.mark.shows("004-13")
@each_row("name", ["thinkingMs", "delayMs", "chunkDelayMs"])
@each_row("span", [[80, 30], -1, [-1, 5], [1, 2, 3]])
def test_a_range_that_is_none_is_a_mistake(name: str, span: Any) -> None:
    with pytest.raises(UsageError, match=name):
        read({name: span})


@pytest.mark.shows("004-11", "004-14")
@in_every_form
async def test_thinking_comes_before_the_status_line_in_either_form(
    tmp_path: Path, stream: bool
) -> None:
    options = {"reply": "Hi there.", "thinkingMs": 60, "chunkDelayMs": 0}
    response = await ask_mock(tmp_path, options, stream=stream)

    assert response.raw_response.head_ms >= 59


@pytest.mark.shows("004-13", "004-14")
async def test_gaps_lie_between_pieces_of_a_stream_alone(tmp_path: Path) -> None:
    options = {"reply": "One two three.", "chunkDelayMs": 40}
    streamed = await ask_mock(tmp_path, options)
    whole = await ask_mock(tmp_path, options | {"chunkDelayMs": 60_000}, stream=False)

    pieces = [
        at
        for at, event in zip(streamed.raw_response.times_ms, streamed.events, strict=True)
        if event != "[DONE]" and event["choices"] and event["choices"][0]["delta"].get("content")
    ]
    assert len(pieces) == 3
    assert pieces[1] >= 39  # a busy client may receive the first one late
    assert pieces[2] >= 79
    assert whole.turn.text == "One two three."


@pytest.mark.shows("004-13")
async def test_the_pace_of_the_run_wins(tmp_path: Path) -> None:
    options = "{reply: One two three., chunk_delay_ms: 10000, thinking_ms: 10000}"
    for pace in (InstantPace(), RecordedPace(1000.0)):
        async with serve_scenarios(tmp_path, mock=options, pace=pace) as server:
            async with asyncio.timeout(5):
                assert (await server.send()).turn.text == "One two three."
