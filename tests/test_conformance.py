"""Official clients and frameworks hear what was told, through the proxy, live and replayed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import judge_runner
import response_differences
from conformance_cases import CALLING, CASES, Told, question
from in_process_proxy import cassettes, proxy
from judge_runner import Answer, Ask
from llm_proxy.outcome import outcome_of
from llm_proxy.turns import Turn
from scripted_provider import provider
from stub_upstream import upstream

SPEAKERS = {"mistralai": "mistral"}
"""Whose client asks at paths that are OpenAI's too."""

BROKEN_OFF = (None, "error", "failed", "other")
"""What clients say of the finish of an answer that broke off."""

_CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
MODELS = {"bedrock": _CLAUDE, "bedrock-invoke": _CLAUDE}
"""What some clients know their models by."""

DIFFERENCES = Path(__file__).with_name("conformance_differences.json")
"""What clients hear otherwise, of their own doing: judge, question and field, and the reason."""

WITHOUT_TOOLS = {"openai-completions"}

OPERATOR = {
    "AWS_ACCESS_KEY_ID": "AKIA0123456789ABCDEF",
    "AWS_SECRET_ACCESS_KEY": "of-an-operator",
    "AWS_REGION": "us-east-1",
}
"""Clients of Bedrock sign what they ask, and the proxy signs it anew."""

MODES = ("stream", "whole")
JUDGES = [name for name in judge_runner.judges() if judge_runner.speaks(name)]


def asks(judge: str) -> list[Ask]:
    """Every case in every dialect and mode that a judge knows."""
    return [
        Ask(
            said := question(dialect, mode, case),
            dialect, MODELS.get(dialect, "gpt-5"), said, mode == "stream", case.calls_tools,
        )
        for dialect, modes in judge_runner.abilities(judge).items()
        for mode in MODES
        if modes.get(mode)
        for case in CASES
    ]  # fmt: skip


def misheard(judge: str, told: Told, answers: list[Answer]) -> list[str]:
    """What this judge heard otherwise than it was told, but for what it puts in its own words."""
    found = []
    for answer in answers:
        if answer.id in told.refused:
            continue
        dialect, mode, _ = answer.id.strip("[]").split(" ")
        can = judge_runner.abilities(judge)[dialect]
        fields = [item for item in can[mode] if item not in can.get("own", {})]
        turn = told.turns[answer.id]
        if turn.failure and answer.finish in BROKEN_OFF:
            fields = [field for field in fields if field != "finish"]
        found += [
            f"{answer.id} {difference}"
            for difference in response_differences.differences(answer, turn, fields)
        ]
        if "error" in fields and answer.error and turn.failure:
            found += [f"{answer.id} {item}" for item in misjudged(answer, turn, told.statuses)]
    return found


def misjudged(answer: Answer, turn: Turn, statuses: dict[str, int]) -> Iterator[str]:
    """What is wrong with an error: another status than was sent, or other words."""
    assert answer.error is not None
    assert turn.failure is not None
    sent = statuses[answer.id]
    if answer.error["status"] is not None and sent >= 400 and answer.error["status"] != sent:
        yield f"status {answer.error['status']}"
    if turn.failure.message not in answer.error["message"]:
        yield "message"


def plainly(answer: Answer) -> Answer:
    """An answer without what some clients roll anew, or quote of a request's id."""
    calls = answer.calls and [{**item, "id": None} for item in answer.calls]
    error = answer.error and {**answer.error, "message": ""}
    return replace(answer, calls=calls, error=error)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("judge", JUDGES)
async def test_a_client_hears_what_was_told_live_and_replayed(
    judge: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why := judge_runner.missing(judge):
        pytest.skip(why)
    for name, value in OPERATOR.items():
        monkeypatch.setenv(name, value)
    told = Told()
    async with upstream(provider(told.answer, SPEAKERS.get(judge, ""))) as live:
        async with proxy("record", tmp_path, live.url, sign="aws") as recording:
            first = await judge_runner.ask(judge, recording.url, asks(judge))
    async with proxy("replay", tmp_path) as replaying:
        again = await judge_runner.ask(judge, replaying.url, asks(judge))

    listed = json.loads(DIFFERENCES.read_bytes()).get(judge, {})
    assert sorted(misheard(judge, told, first)) == sorted(listed)
    assert list(map(plainly, again)) == list(map(plainly, first))
    assert replaying.journal.misses == []
    assert all(outcome_of(cassette).complete for cassette in cassettes(tmp_path))
    refused = {tuple(item.strip("[]").split(" ")[::2]) for item in told.refused}
    spoken = judge_runner.abilities(judge)
    assert refused == {(item, case) for item in WITHOUT_TOOLS & spoken.keys() for case in CALLING}
    assert {item.id for item in first} == told.turns.keys() | told.refused.keys()
