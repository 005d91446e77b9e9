"""Official clients and frameworks decode every case through the proxy, live and replayed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import judge_runner
import response_differences
from conformance_cases import CASES, ConformanceProvider, case_prompt
from dialect_manners import DIALECTS_WITHOUT_CALLS
from in_process_proxy import load_cassettes, proxy
from judge_runner import JudgeRequest, JudgeResponse
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.turns import Turn
from scripted_provider import provider_script
from stub_upstream import upstream

CLIENT_PROVIDERS = {"mistralai": "mistral"}
"""The provider of clients whose request paths are OpenAI's too."""

TRUNCATED_FINISHES = (None, "error", "failed", "other")
"""The finish reasons that clients report for a truncated response."""

_CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
MODELS = {"bedrock": _CLAUDE, "bedrock-invoke": _CLAUDE}
"""The model names that some clients require."""

DIFFERENCES = Path(__file__).with_name("conformance_differences.json")
"""Differences caused by the clients themselves: judge, case and field, with the reason."""

WITHOUT_TURNS = {"cohere-v1"}
"""Decoded, and encoded for errors alone."""

OPERATOR_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIA0123456789ABCDEF",
    "AWS_SECRET_ACCESS_KEY": "of-an-operator",
    "AWS_REGION": "us-east-1",
}
"""Bedrock clients sign their requests, and the proxy signs them again."""

MODES = ("stream", "whole")
JUDGES = [
    pytest.param(name, marks=judge_runner.marks(name))
    for name in judge_runner.judge_names()
    if judge_runner.follows_protocol(name)
]


def judge_requests(judge: str) -> list[JudgeRequest]:
    """A request for every case in every dialect and mode that the judge supports."""
    return [
        JudgeRequest(
            prompt := case_prompt(dialect, mode, case),
            dialect, MODELS.get(dialect, "gpt-5"), prompt, mode == "stream", case.calls_tools,
        )
        for dialect, modes in judge_runner.load_abilities(judge).items()
        for mode in MODES
        if modes.get(mode)
        for case in CASES
    ]  # fmt: skip


def answer_differences(
    judge: str, case_provider: ConformanceProvider, answers: list[JudgeResponse]
) -> list[str]:
    """What the judge decoded differently, except in fields that it rewords by itself."""
    differences = []
    for answer in answers:
        if answer.id in case_provider.errors_by_prompt:
            continue
        dialect, mode, _ = answer.id.strip("[]").split(" ")
        capabilities = judge_runner.load_abilities(judge)[dialect]
        fields = [field for field in capabilities[mode] if field not in capabilities.get("own", {})]
        turn = case_provider.turns_by_prompt[answer.id]
        if turn.failure and answer.finish in TRUNCATED_FINISHES:
            fields = [field for field in fields if field != "finish"]
        differences += [
            f"{answer.id} {difference}"
            for difference in response_differences.differing_fields(answer, turn, fields)
        ]
        if "error" in fields and answer.error and turn.failure:
            differences += [
                f"{answer.id} {error}"
                for error in error_differences(answer, turn, case_provider.statuses_by_prompt)
            ]
    return differences


def error_differences(answer: JudgeResponse, turn: Turn, statuses: dict[str, int]) -> Iterator[str]:
    """What differs in an error: its status or its message."""
    assert answer.error is not None
    assert turn.failure is not None
    sent = statuses[answer.id]
    if answer.error["status"] is not None and sent >= 400 and answer.error["status"] != sent:
        yield f"status {answer.error['status']}"
    if turn.failure.message not in answer.error["message"]:
        yield "message"


def without_volatile_fields(answer: JudgeResponse) -> JudgeResponse:
    """The answer without ids that some clients generate, or messages that may quote them."""
    calls = answer.calls and [{**call, "id": None} for call in answer.calls]
    error = answer.error and {**answer.error, "message": ""}
    return replace(answer, calls=calls, error=error)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("judge", JUDGES)
async def test_a_client_decodes_every_case_live_and_replayed(
    judge: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := judge_runner.missing_reason(judge):
        pytest.skip(reason)
    for name, value in OPERATOR_CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    case_provider = ConformanceProvider()
    live_script = provider_script(case_provider.respond, CLIENT_PROVIDERS.get(judge, ""))
    async with judge_runner.running_judge(judge) as send:
        async with (
            upstream(live_script) as live,
            proxy("record", tmp_path, live.url, sign="aws") as recording,
        ):
            live_answers = await send(recording.url, judge_requests(judge))
        async with proxy("replay", tmp_path) as replaying:
            replayed_answers = await send(replaying.url, judge_requests(judge))

    sent_ids = {request.id for request in judge_requests(judge)}
    assert sorted(answer_differences(judge, case_provider, live_answers)) == sorted(
        difference
        for difference in json.loads(DIFFERENCES.read_bytes()).get(judge, {})
        if f"{difference.partition(']]')[0]}]]" in sent_ids
    )
    assert list(map(without_volatile_fields, replayed_answers)) == list(
        map(without_volatile_fields, live_answers)
    )
    assert replaying.journal.misses == []
    assert all(cassette_outcome(cassette).is_complete for cassette in load_cassettes(tmp_path))
    refused = {
        tuple(case_id.strip("[]").split(" ")[::2]) for case_id in case_provider.errors_by_prompt
    }
    supported = judge_runner.load_abilities(judge)
    assert refused == {
        (dialect, case.name)
        for dialect in supported
        for case in CASES
        if (dialect in DIALECTS_WITHOUT_CALLS and case.calls_tools)
        or (dialect in WITHOUT_TURNS and case.status == 200)
    }
    assert {
        answer.id for answer in live_answers
    } == case_provider.turns_by_prompt.keys() | case_provider.errors_by_prompt.keys()
