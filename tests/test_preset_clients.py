"""Real clients do a task a second time, on another day, in another folder, from the recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

import agent_tasks
import judge_runner
from agent_tasks import ASKED, LIBRARIES, LINE, TERMINALS, last_word
from in_process_proxy import cassettes, proxy
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.running.settings import MatchingOptions
from real_programs import Place, work

DAYS: Final = ("2026-11-22", "2026-12-24")
ZONES: Final = ("Etc/GMT-14", "Etc/GMT+12")
"""It is never the same day in both."""


def terminal(preset: str) -> Any:  # pytest gives the type of its parameters no public name
    missing = TERMINALS[preset].program.missing
    return pytest.param(preset, marks=pytest.mark.skipif(bool(missing), reason=missing))


def library(preset: str) -> Any:
    missing = judge_runner.missing(preset)
    return pytest.param(preset, marks=pytest.mark.skipif(bool(missing), reason=missing))


@pytest.mark.parametrize("preset", [terminal(item) for item in TERMINALS])
async def test_a_program_does_its_task_again_on_another_day_in_another_folder(
    tmp_path: Path, nobody: str, preset: str
) -> None:
    it = TERMINALS[preset]
    first, second = Place(tmp_path / "first"), Place(tmp_path / "other" / "second one")
    kept = ("--normalise", preset, "--cassettes", str(tmp_path / "cassettes"))
    second.root.mkdir(parents=True)
    async with agent_tasks.provider(first.root, first.file, it.calls(first.file)) as url:
        recorded = await work(
            "record", "--upstream", f"default={url}", *kept,
            program=it.program, place=first, offline=nobody, zone=ZONES[0],
        )  # fmt: skip

    ran = await work(
        "replay", "--strict", *kept,
        program=it.program, place=second, offline=nobody, zone=ZONES[1],
    )  # fmt: skip

    assert (recorded.code, recorded.out.strip()) == (0, last_word(first.file)), recorded.err
    assert (ran.code, ran.out.strip()) == (0, last_word(second.file)), ran.err
    assert second.file.read_text() == f"{LINE}\n"
    assert len(cassettes(tmp_path)) == 3


def instructions(folder: Path, day: str) -> str:
    """What an app tells the model of a run."""
    return f"Today's date is {day}. Session: {uuid4()}. Working directory: {folder}"


@pytest.mark.parametrize("preset", [library(item) for item in LIBRARIES])
async def test_an_agent_does_its_task_again_on_another_day_in_another_folder(
    tmp_path: Path, preset: str
) -> None:
    first, second = tmp_path / "first" / "work", tmp_path / "other" / "second"
    first.mkdir(parents=True)
    second.mkdir(parents=True)
    files = [folder / "greeting.txt" for folder in (first, second)]
    rules, calls = (
        MatchingOptions(rules=parse_rules([preset])),
        agent_tasks.library_calls(files[0]),
    )
    async with (
        agent_tasks.provider(tmp_path / "provider", files[0], calls) as url,
        proxy("record", tmp_path, url, matching=rules) as recording,
    ):
        said = await agent_tasks.ask(preset, recording.url, instructions(first, DAYS[0]))

    async with proxy("replay", tmp_path, matching=rules, pace=InstantPace()) as replaying:
        again = await agent_tasks.ask(preset, replaying.url, instructions(second, DAYS[1]))
        renamed = [entry.renamed for entry in replaying.journal.entries]

    assert said == [last_word(files[0])] * len(ASKED[preset])
    assert again == [last_word(files[1])] * len(ASKED[preset])
    assert files[1].read_text() == f"{LINE}\n"
    assert len(renamed) == 3 * len(ASKED[preset])
    assert min(renamed) >= 1
