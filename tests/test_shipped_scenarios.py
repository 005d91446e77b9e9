"""Every shipped scenario through the official SDKs: the same turns in every dialect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
import yaml

import sdk_conversations
from case_tables import each_row
from conversation_plans import ConversationPlan, SdkResponse
from in_process_proxy import proxy
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.scenarios import load_scenarios
from scenario_server import REPORT
from sdk_conversations import CONVERSATION_RUNNERS
from shipped_scenarios import (
    ANY_OBJECT,
    FAILING_SCENARIOS,
    FOLDER,
    MOCK,
    PLAYED_SCENARIOS,
    TEXT_WITHOUT_BODY_MODEL,
    ExpectedTurn,
    FailingScenario,
    call_part,
    text_part,
)
from waiting import wait_until

MODES: Final = ("stream", "whole")
RETRYING: Final = ("openai-chat", "openai-responses", "anthropic")
"""The dialects whose SDKs retry by themselves."""
FAILED_CHECKS: Final = {
    "refund": "System prompt missing: You are a support agent",
    "equipped": "Expected tools not available: lookup.order",
    "thoughtful": "Expected reasoning to remain enabled",
}
"""The failed check of a request without options, by scenario."""
STATUS_EXCEPTIONS: Final = {"gemini": "ClientError", "ollama": "ResponseError"}
"""The exception for a status that has none of its own; `APIStatusError` in other dialects."""
REPLIES: Final = (
    call_part("lookup", id=42),
    text_part("Found it: refunds take 3 business days."),
    text_part("A text alone is a reply too."),
)
"""The replies of the shipped mock."""


@dataclass(frozen=True, slots=True)
class ShippedRun:
    """The turns that one SDK received from all shipped files, and the statuses on the wire."""

    dialect: str
    turns_by_session: Mapping[str, list[SdkResponse]]
    """The turns that the SDK received, by session."""
    statuses: Mapping[str, list[int]]
    """The status of each attempt, by session; 0 means no response."""
    unsuccessful: Mapping[str, str]
    """The reason, by session."""

    def expected_turn(self, turn: ExpectedTurn, mode: str) -> SdkResponse:
        """The turn as this SDK should receive it."""
        return turn.expected_response(self.dialect, stream=mode == "stream")

    def turns_of(self, kind: str, mode: str) -> dict[str, list[SdkResponse]]:
        """The turns received in the conversations of a kind, by scenario."""
        return {
            name: self.turns_by_session[f"{kind}.{name}.{mode}"]
            for name in CONVERSATIONS[kind](self.dialect, mode)
        }

    def statuses_of(self, kind: str, mode: str) -> dict[str, list[int]]:
        """The status of each attempt in the conversations of a kind, by scenario."""
        return {
            name: self.statuses[f"{kind}.{name}.{mode}"]
            for name in CONVERSATIONS[kind](self.dialect, mode)
        }


def _played_conversations(dialect: str, mode: str) -> dict[str, ConversationPlan]:
    stream = mode == "stream"
    return {
        name: played.conversation_plan(name, dialect, stream=stream)
        for name, played in PLAYED_SCENARIOS.items()
    }


def _failing_conversations(_: str, mode: str) -> dict[str, ConversationPlan]:
    stream = mode == "stream"
    return {
        name: ConversationPlan("", name, stream, tries=3, **failing.changed_fields)
        for name, failing in FAILING_SCENARIOS.items()
    }


def _retried_conversations(dialect: str, mode: str) -> dict[str, ConversationPlan]:
    if dialect not in RETRYING:
        return {}
    return {
        name: replace(conversation, retries=2)
        for name, conversation in _failing_conversations(dialect, mode).items()
    }


def _invalid_conversations(_: str, mode: str) -> dict[str, ConversationPlan]:
    return {name: ConversationPlan("", name, mode == "stream", retries=2) for name in FAILED_CHECKS}


def _reported_conversations(dialect: str, mode: str) -> dict[str, ConversationPlan]:
    return {
        name: replace(conversation, tools={REPORT: ANY_OBJECT})
        for name, conversation in _invalid_conversations(dialect, mode).items()
    }


def _mock_conversations(_: str, mode: str) -> dict[str, ConversationPlan]:
    conversation = ConversationPlan(
        "", "Refund?", mode == "stream", turns=4, tools={"lookup": {"type": "object"}}
    )
    return {"lookup": conversation}


CONVERSATIONS: Final = {
    "plays": _played_conversations,
    "fails": _failing_conversations,
    "retries": _retried_conversations,
    "errs": _invalid_conversations,
    "reports": _reported_conversations,
    "mocks": _mock_conversations,
}
"""By kind, the function that makes the conversations for a dialect and a mode."""


async def _run_shipped(dialect: str, folder: Path) -> ShippedRun:
    conversations = [
        replace(conversation, id=f"{kind}.{name}.{mode}")
        for kind, make_conversations in CONVERSATIONS.items()
        for mode in MODES
        for name, conversation in make_conversations(dialect, mode).items()
    ]
    mock = json.dumps(yaml.safe_load(MOCK.read_text("utf-8"))["mock"])
    async with proxy("simulate", folder, scenarios=FOLDER, mock=mock, pace=InstantPace()) as server:
        turn_lists = await CONVERSATION_RUNNERS[dialect](server.url, conversations)
        await wait_until(lambda: server.server.active_request_count == 0)
    statuses: dict[str, list[int]] = {item.id: [] for item in conversations}
    for entry in server.journal.entries:
        statuses[entry.session].append(entry.status)
    unsuccessful = {item.session: item.reason for item in server.journal.failed_sessions}
    sessions = (conversation.id for conversation in conversations)
    return ShippedRun(dialect, dict(zip(sessions, turn_lists, strict=True)), statuses, unsuccessful)


@pytest.fixture(scope="module", params=CONVERSATION_RUNNERS)
def shipped_run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ShippedRun:
    """All results of one SDK, collected once, since some SDKs take seconds to start."""
    if why := sdk_conversations.missing_reason(request.param):
        pytest.skip(why)
    return asyncio.run(_run_shipped(request.param, tmp_path_factory.mktemp("shipped")))


each_mode = each_row("mode", MODES)


@each_row("path", [FOLDER, MOCK])
def test_the_shipped_files_have_no_mistakes_or_warnings(path: Path) -> None:
    found = load_scenarios([path])

    assert (found.mistakes, found.warnings) == ((), ())
    assert bool(found.scenarios) is (path == FOLDER)


@pytest.mark.shows("000-105")
def test_every_shipped_scenario_is_played_here() -> None:
    shipped = {scenario.value.id for scenario in load_scenarios([FOLDER]).scenarios}

    assert shipped == PLAYED_SCENARIOS.keys() | FAILING_SCENARIOS.keys()


@pytest.mark.shows("000-71 to 000-78", "000-81 to 000-85", "000-105")
@each_mode
def test_every_sdk_receives_each_scenario_as_written(shipped_run: ShippedRun, mode: str) -> None:
    """The conversations are complete, with tool results sent back."""
    expected = {
        name: [shipped_run.expected_turn(turn, mode) for turn in played.turns]
        for name, played in PLAYED_SCENARIOS.items()
    }
    for (name, dialect), part in TEXT_WITHOUT_BODY_MODEL.items():
        if dialect == shipped_run.dialect:
            expected[name] = [shipped_run.expected_turn(ExpectedTurn((part,)), mode)]

    assert shipped_run.turns_of("plays", mode) == expected


def _expected_exceptions(failing: FailingScenario, dialect: str, mode: str) -> list[str]:
    of_this_mode = failing.expected_errors.get(f"{dialect}, {mode}")
    return failing.expected_errors[dialect] if of_this_mode is None else of_this_mode


def _expected_statuses(mode: str) -> dict[str, list[int]]:
    """The status of every attempt, by scenario."""
    return {
        name: failing.whole_statuses
        if mode == "whole" and failing.whole_statuses
        else failing.statuses
        for name, failing in FAILING_SCENARIOS.items()
    }


@pytest.mark.shows("000-54", "000-55", "000-58 to 000-63")
@each_mode
def test_every_failure_is_raised_as_often_as_it_is_scripted_and_then_no_more(
    shipped_run: ShippedRun, mode: str
) -> None:
    """The SDKs' own retries are off."""
    answers = {
        name: shipped_run.expected_turn(ExpectedTurn((text_part(failing.text),)), mode)
        for name, failing in FAILING_SCENARIOS.items()
    }

    assert shipped_run.turns_of("fails", mode) == {
        name: [
            replace(answers[name], raised=_expected_exceptions(failing, shipped_run.dialect, mode))
        ]
        for name, failing in FAILING_SCENARIOS.items()
    }
    assert shipped_run.statuses_of("fails", mode) == _expected_statuses(mode)


@pytest.mark.shows("000-55")
@each_mode
def test_two_retries_of_the_sdk_hide_retryable_failures(shipped_run: ShippedRun, mode: str) -> None:
    """The SDKs' own retries count as attempts."""
    if shipped_run.dialect not in RETRYING:
        pytest.skip(f"the SDK of {shipped_run.dialect} never asks again")

    assert {
        name: turn.raised for name, [turn] in shipped_run.turns_of("retries", mode).items()
    } == {
        name: []
        if failing.sdk_retries
        else _expected_exceptions(failing, shipped_run.dialect, mode)
        for name, failing in FAILING_SCENARIOS.items()
    }
    assert shipped_run.statuses_of("retries", mode) == _expected_statuses(mode)


@pytest.mark.shows("000-96", "000-97", "000-98")
@each_mode
def test_every_sdk_raises_once_for_an_unexpected_request_and_does_not_repeat_it(
    shipped_run: ShippedRun, mode: str
) -> None:
    """The SDKs may retry as often as they do by default."""
    raised = [STATUS_EXCEPTIONS.get(shipped_run.dialect, "APIStatusError")]

    assert shipped_run.turns_of("errs", mode) == {
        name: [SdkResponse(raised=raised)] for name in FAILED_CHECKS
    }
    assert shipped_run.statuses_of("errs", mode) == {name: [424] for name in FAILED_CHECKS}


@pytest.mark.shows("000-96", "000-97", "000-98")
@each_mode
def test_an_agent_with_the_tool_receives_the_failed_check_as_its_report(
    shipped_run: ShippedRun, mode: str
) -> None:
    """No SDK raises an exception for it."""
    reports = {
        name: call_part(
            REPORT, status="failure", report_format="markdown",
            report_content=f"# Test Harness Error\n\n{why}",
        )
        for name, why in FAILED_CHECKS.items()
    }  # fmt: skip

    assert shipped_run.turns_of("reports", mode) == {
        name: [
            shipped_run.expected_turn(
                ExpectedTurn((text_part("Scenario validation failed."), report)), mode
            )
        ]
        for name, report in reports.items()
    }


@pytest.mark.shows("004-04", "004-06", "004-07")
@each_mode
def test_the_shipped_mock_gives_its_replies_in_order_and_then_fails_loudly(
    shipped_run: ShippedRun, mode: str
) -> None:
    turns = shipped_run.turns_of("mocks", mode)["lookup"]

    assert [replace(item, usage=None) for item in turns] == [
        *(
            replace(shipped_run.expected_turn(ExpectedTurn((reply,)), mode), usage=None)
            for reply in REPLIES
        ),
        SdkResponse(raised=[STATUS_EXCEPTIONS.get(shipped_run.dialect, "APIStatusError")]),
    ]
    assert shipped_run.statuses_of("mocks", mode) == {"lookup": [200, 200, 200, 424]}


@pytest.mark.shows("000-98")
def test_only_failed_checks_make_a_session_unsuccessful(shipped_run: ShippedRun) -> None:
    """Scripted failures do not."""
    out_of_replies = "The mock 'lookup' has 3 replies, but this is request 4; add a reply or send "
    out_of_replies += "fewer requests."
    unsuccessful_reasons = {
        session: why.partition(":")[0] for session, why in shipped_run.unsuccessful.items()
    }

    assert unsuccessful_reasons == {
        f"{kind}.{name}.{mode}": why.partition(":")[0]
        for mode in MODES
        for kind, reasons in (
            ("errs", FAILED_CHECKS),
            ("reports", FAILED_CHECKS),
            ("mocks", {"lookup": out_of_replies}),
        )
        for name, why in reasons.items()
    }
