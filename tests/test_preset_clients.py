"""Real clients repeat a task from its recording, on another day and in another folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

import agent_tasks
import judge_runner
from agent_tasks import (
    DIALECTS_BY_LIBRARY,
    FILE_LINE,
    LIBRARY_PROGRAMS,
    TERMINAL_AGENTS,
    final_text,
)
from in_process_proxy import load_cassettes, proxy
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.pacing import InstantPace
from real_programs import Workspace, run_program

pytestmark = pytest.mark.thorough

DAYS: Final = ("2026-11-22", "2026-12-24")
ZONES: Final = ("Etc/GMT-14", "Etc/GMT+12")
"""Time zones in which it is never the same day."""


def terminal_param(preset: str) -> Any:  # pytest gives the type of its parameters no public name
    missing = TERMINAL_AGENTS[preset].program.missing_reason
    return pytest.param(preset, marks=pytest.mark.skipif(bool(missing), reason=missing))


def library_param(preset: str) -> Any:
    missing = judge_runner.missing_reason(preset)
    return pytest.param(preset, marks=pytest.mark.skipif(bool(missing), reason=missing))


@pytest.mark.parametrize("preset", [terminal_param(item) for item in TERMINAL_AGENTS])
async def test_a_program_repeats_its_task_on_another_day_in_another_folder(
    tmp_path: Path, unreachable_url: str, preset: str
) -> None:
    client = TERMINAL_AGENTS[preset]
    first, second = Workspace(tmp_path / "first"), Workspace(tmp_path / "other" / "second one")
    options = ("--normalise", preset, "--cassettes", str(tmp_path / "cassettes"))
    second.root.mkdir(parents=True)
    async with agent_tasks.task_provider(
        first.root, first.task_file, client.tool_calls(first.task_file)
    ) as url:
        recorded = await run_program(
            "record", "--upstream", f"default={url}", *options,
            program=client.program, workspace=first, offline=unreachable_url, timezone=ZONES[0],
        )  # fmt: skip

    ran = await run_program(
        "replay", "--strict", *options,
        program=client.program, workspace=second, offline=unreachable_url, timezone=ZONES[1],
    )  # fmt: skip

    assert (recorded.exit_code, recorded.stdout.strip()) == (0, final_text(first.task_file)), (
        recorded.stderr
    )
    assert (ran.exit_code, ran.stdout.strip()) == (0, final_text(second.task_file)), ran.stderr
    assert second.task_file.read_text() == f"{FILE_LINE}\n"
    assert len(load_cassettes(tmp_path)) == 3


def instructions(folder: Path, day: str) -> str:
    """The instructions of an app to the model, which vary with each run."""
    return f"Today's date is {day}. Session: {uuid4()}. Working directory: {folder}"


@pytest.mark.parametrize("preset", [library_param(item) for item in LIBRARY_PROGRAMS])
async def test_an_agent_repeats_its_task_on_another_day_in_another_folder(
    tmp_path: Path, preset: str
) -> None:
    first, second = tmp_path / "first" / "work", tmp_path / "other" / "second"
    first.mkdir(parents=True)
    second.mkdir(parents=True)
    files = [folder / "greeting.txt" for folder in (first, second)]
    rules, calls = (
        parse_rules([preset]),
        agent_tasks.library_calls(files[0]),
    )
    async with (
        agent_tasks.task_provider(tmp_path / "provider", files[0], calls) as url,
        proxy("record", tmp_path, url, match_rules=rules) as record_proxy,
    ):
        first_answers = await agent_tasks.run_library_agent(
            preset, record_proxy.url, instructions(first, DAYS[0])
        )

    async with proxy("replay", tmp_path, match_rules=rules, pace=InstantPace()) as replay_proxy:
        second_answers = await agent_tasks.run_library_agent(
            preset, replay_proxy.url, instructions(second, DAYS[1])
        )
        renamed = [entry.replaced_values for entry in replay_proxy.journal.entries]

    assert first_answers == [final_text(files[0])] * len(DIALECTS_BY_LIBRARY[preset])
    assert second_answers == [final_text(files[1])] * len(DIALECTS_BY_LIBRARY[preset])
    assert files[1].read_text() == f"{FILE_LINE}\n"
    assert len(renamed) == 3 * len(DIALECTS_BY_LIBRARY[preset])
    assert min(renamed) >= 1
