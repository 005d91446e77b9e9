"""Every shipped scenario, through the official SDKs: the same turns in every dialect."""

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
from conversation_plans import Heard, Talk
from in_process_proxy import proxy
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.running.settings import SimulationOptions
from llm_proxy.shell.scenarios.files import load_all
from sdk_conversations import SPEAKERS
from shipped_scenarios import FAILING, FOLDER, IN_THE_URL, MOCK, PLAYED, Failing, Turn, call, text
from waiting import until

MODES: Final = ("stream", "whole")
RETRYING: Final = ("openai-chat", "openai-responses", "anthropic")
"""The dialects whose SDKs ask again by themselves."""
WRONG: Final = {
    "refund": "System prompt missing: You are a support agent",
    "equipped": "Expected tools not available: lookup.order",
    "thoughtful": "Expected reasoning to remain enabled",
}
"""What a bare request lacks."""
REPLIES: Final = (
    call("lookup", id=42),
    text("Found it: refunds take 3 business days."),
    text("A text alone is a reply too."),
)
"""What the shipped mock says."""


@dataclass(frozen=True, slots=True)
class Held:
    """What one SDK heard of everything that is shipped, and what of it came on the wire."""

    dialect: str
    heard: Mapping[str, list[Heard]]
    """By session."""
    statuses: Mapping[str, list[int]]
    """Of each attempt, by session; 0 is none."""
    unsuccessful: Mapping[str, str]
    """Why, by session."""

    def told(self, turn: Turn, mode: str) -> Heard:
        """A turn as this SDK is to hear it."""
        return turn.heard(self.dialect, stream=mode == "stream")

    def of(self, kind: str, mode: str) -> dict[str, list[Heard]]:
        """What was heard in the talks of a kind, by what they are about."""
        return {
            name: self.heard[f"{kind}.{name}.{mode}"] for name in TALKS[kind](self.dialect, mode)
        }

    def attempts(self, kind: str, mode: str) -> dict[str, list[int]]:
        """The status of each attempt in the talks of a kind, by what they are about."""
        return {
            name: self.statuses[f"{kind}.{name}.{mode}"] for name in TALKS[kind](self.dialect, mode)
        }


def _plays(dialect: str, mode: str) -> dict[str, Talk]:
    stream = mode == "stream"
    return {name: it.talk(name, dialect, stream=stream) for name, it in PLAYED.items()}


def _fails(_: str, mode: str) -> dict[str, Talk]:
    stream = mode == "stream"
    return {name: Talk("", name, stream, tries=3, **it.more) for name, it in FAILING.items()}


def _retries(dialect: str, mode: str) -> dict[str, Talk]:
    if dialect not in RETRYING:
        return {}
    return {name: replace(it, retries=2) for name, it in _fails(dialect, mode).items()}


def _errs(_: str, mode: str) -> dict[str, Talk]:
    return {name: Talk("", name, mode == "stream") for name in WRONG}


def _mocks(_: str, mode: str) -> dict[str, Talk]:
    talk = Talk("", "Refund?", mode == "stream", turns=4, tools={"lookup": {"type": "object"}})
    return {"lookup": talk}


TALKS: Final = {
    "plays": _plays, "fails": _fails, "retries": _retries, "errs": _errs, "mocks": _mocks,
}  # fmt: skip
"""Talks by their kind: what makes them for a dialect and a mode."""


async def _held(dialect: str, folder: Path) -> Held:
    talks = [
        replace(talk, id=f"{kind}.{name}.{mode}")
        for kind, of in TALKS.items()
        for mode in MODES
        for name, talk in of(dialect, mode).items()
    ]
    mock = json.dumps(yaml.safe_load(MOCK.read_text("utf-8"))["mock"])
    how = SimulationOptions(scenarios=FOLDER, mock=mock)
    async with proxy("simulate", folder, simulating=how, pace=InstantPace()) as server:
        heard = await SPEAKERS[dialect](server.url, talks)
        await until(lambda: server.server.active_count == 0)
    statuses: dict[str, list[int]] = {item.id: [] for item in talks}
    for entry in server.journal.entries:
        statuses[entry.session].append(entry.status)
    unsuccessful = {item.session: item.why for item in server.journal.unsuccessful}
    sessions = (talk.id for talk in talks)
    return Held(dialect, dict(zip(sessions, heard, strict=True)), statuses, unsuccessful)


@pytest.fixture(scope="module", params=SPEAKERS)
def held(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Held:
    """Everything that one SDK hears: asked once, for some take seconds to start."""
    if why := sdk_conversations.missing(request.param):
        pytest.skip(why)
    return asyncio.run(_held(request.param, tmp_path_factory.mktemp("shipped")))


each_mode = pytest.mark.parametrize("mode", MODES)


@pytest.mark.parametrize("path", [FOLDER, MOCK], ids=["scenarios", "mock"])
def test_nothing_is_wrong_or_doubtful_in_what_is_shipped(path: Path) -> None:
    found = load_all([path])

    assert (found.mistakes, found.warnings) == ((), ())
    assert bool(found.scenarios) is (path == FOLDER)


@pytest.mark.shows("000-105")
def test_every_shipped_scenario_is_played_here() -> None:
    shipped = {scenario.value.id for scenario in load_all([FOLDER]).scenarios}

    assert shipped == PLAYED.keys() | FAILING.keys()


@pytest.mark.shows("000-71 to 000-78", "000-81 to 000-85", "000-105")
@each_mode
def test_every_scenario_is_heard_as_it_is_written(held: Held, mode: str) -> None:
    """Whole conversations, the tools' results sent back."""
    expected = {name: [held.told(turn, mode) for turn in it.turns] for name, it in PLAYED.items()}
    for (name, dialect), part in IN_THE_URL.items():
        if dialect == held.dialect:
            expected[name] = [held.told(Turn((part,)), mode)]

    assert held.of("plays", mode) == expected


def _raised(it: Failing, dialect: str, mode: str) -> list[str]:
    of_this_mode = it.raised.get(f"{dialect}, {mode}")
    return it.raised[dialect] if of_this_mode is None else of_this_mode


def _attempts(mode: str) -> dict[str, list[int]]:
    """The status of every attempt, by scenario."""
    return {
        name: it.whole if mode == "whole" and it.whole else it.statuses
        for name, it in FAILING.items()
    }


@pytest.mark.shows("000-54", "000-55", "000-58 to 000-63")
@each_mode
def test_every_failure_is_raised_as_often_as_it_is_scripted_and_then_no_more(
    held: Held, mode: str
) -> None:
    """With SDKs that do not ask again."""
    answers = {name: held.told(Turn((text(it.says),)), mode) for name, it in FAILING.items()}

    assert held.of("fails", mode) == {
        name: [replace(answers[name], raised=_raised(it, held.dialect, mode))]
        for name, it in FAILING.items()
    }
    assert held.attempts("fails", mode) == _attempts(mode)


@pytest.mark.shows("000-55")
@each_mode
def test_two_retries_of_the_sdk_swallow_what_may_be_tried_again(held: Held, mode: str) -> None:
    """The SDKs' own retries are attempts too."""
    if held.dialect not in RETRYING:
        pytest.skip(f"the SDK of {held.dialect} never asks again")

    assert {name: turn.raised for name, [turn] in held.of("retries", mode).items()} == {
        name: [] if it.swallowed else _raised(it, held.dialect, mode)
        for name, it in FAILING.items()
    }
    assert held.attempts("retries", mode) == _attempts(mode)


@pytest.mark.shows("000-96", "000-97", "000-98")
@each_mode
def test_a_request_that_is_not_as_expected_is_told_what_is_wrong(held: Held, mode: str) -> None:
    """It raises nothing in any SDK."""
    reported = {
        name: call(
            "agent__final_report", status="failure", report_format="markdown",
            report_content=f"# Test Harness Error\n\n{why}",
        )
        for name, why in WRONG.items()
    }  # fmt: skip

    assert held.of("errs", mode) == {
        name: [held.told(Turn((text("Scenario validation failed."), report)), mode)]
        for name, report in reported.items()
    }


@pytest.mark.shows("004-04", "004-06", "004-07")
@each_mode
def test_the_shipped_mock_gives_its_replies_in_order_and_then_fails_loudly(
    held: Held, mode: str
) -> None:
    raises = {"gemini": "ClientError", "ollama": "ResponseError"}
    heard = held.of("mocks", mode)["lookup"]

    assert [replace(item, usage=None) for item in heard] == [
        *(replace(held.told(Turn((reply,)), mode), usage=None) for reply in REPLIES),
        Heard(raised=[raises.get(held.dialect, "APIStatusError")]),
    ]
    assert held.attempts("mocks", mode) == {"lookup": [200, 200, 200, 424]}


@pytest.mark.shows("000-98")
def test_only_what_is_wrong_makes_a_session_unsuccessful(held: Held) -> None:
    """Failures that a scenario asks for do not."""
    out_of_replies = "The mock 'lookup' has 3 replies, and this is call 4"
    whys = {session: why.partition(":")[0] for session, why in held.unsuccessful.items()}

    assert whys == {
        f"{kind}.{name}.{mode}": why.partition(":")[0]
        for mode in MODES
        for kind, reasons in (("errs", WRONG), ("mocks", {"lookup": out_of_replies}))
        for name, why in reasons.items()
    }
