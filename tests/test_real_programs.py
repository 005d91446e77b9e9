"""Claude Code and Codex complete a task while recorded, and again in replay."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from in_process_proxy import load_cassettes
from llm_proxy.cassette import StoredRequest
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.diff.documents import differing_values, json_leaves
from llm_proxy.matching import key_document
from real_programs import CLAUDE_CODE, CODEX, Program, Workspace, run_program
from stub_upstream import Upstream, upstream
from task_provider import FILE_LINE, FINAL_TEXT, task_provider

pytestmark = pytest.mark.thorough


def program_param(
    program: Program,
) -> Any:  # pytest gives the type of its parameters no public name
    """Return a test parameter for a program, skipped where the program is not installed."""
    skip_mark = pytest.mark.skipif(bool(program.missing_reason), reason=program.missing_reason)
    return pytest.param(program, id=program.name, marks=skip_mark)


PROGRAMS = (program_param(CLAUDE_CODE), program_param(CODEX))


async def record_task(program: Program, place: Workspace, offline: str) -> Upstream:
    """Record the program while it does its task; return the upstream with its requests."""
    place.reset()
    async with upstream(task_provider(place.task_file)) as stub:
        default = ("--upstream", f"default={stub.url}")
        result = await run_program(
            "record", *default, program=program, workspace=place, offline=offline
        )
    assert (result.exit_code, result.stdout.strip()) == (0, FINAL_TEXT), result.stderr
    assert place.task_file.read_text() == f"{FILE_LINE}\n"
    return stub


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_program_finishes_its_task_while_it_is_recorded(
    tmp_path: Path, unreachable_url: str, program: Program
) -> None:
    stub = await record_task(program, Workspace(tmp_path), unreachable_url)

    assert [head.partition(b"\r\n")[0].decode() for head, _ in stub.requests] == [
        program.request_line
    ] * 2
    assert [cassette_outcome(cassette).is_complete for cassette in load_cassettes(tmp_path)] == [
        True,
        True,
    ]


def differing_paths(first: bytes, second: bytes) -> set[str]:
    """Return the paths that differ, without list indexes; `client_metadata` counts as one path."""
    leaves = [
        json_leaves(key_document("", StoredRequest("POST", "/", "", (), body)))
        for body in (first, second)
    ]
    paths = {re.sub(r"\[\d+\]", "[*]", path) for path, *_ in differing_values(*leaves)}
    return {re.sub(r"(?<=^\$\.client_metadata)\W.*", "", path) for path in paths}


@pytest.mark.parametrize("program", PROGRAMS)
async def test_only_generated_values_differ_between_runs(
    tmp_path: Path, unreachable_url: str, program: Program
) -> None:
    place = Workspace(tmp_path)

    first, second = [await record_task(program, place, unreachable_url) for _ in range(2)]

    for (_, first_body), (_, second_body) in zip(first.requests, second.requests, strict=True):
        assert differing_paths(first_body, second_body) == program.varying_paths


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_program_finishes_its_task_again_from_the_recording_alone(
    tmp_path: Path, unreachable_url: str, program: Program
) -> None:
    place = Workspace(tmp_path)
    await record_task(program, place, unreachable_url)

    result = await run_program(
        "replay", "--strict", program=program, workspace=place, offline=unreachable_url
    )

    assert (result.exit_code, result.stdout.strip()) == (0, FINAL_TEXT), result.stderr
    assert place.task_file.read_text() == f"{FILE_LINE}\n"


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_program_gives_up_at_once_when_nothing_was_recorded(
    tmp_path: Path, unreachable_url: str, program: Program
) -> None:
    place = Workspace(tmp_path)

    result = await run_program("replay", program=program, workspace=place, offline=unreachable_url)

    assert result.exit_code == 1
    assert re.search("replayed 0 responses from 0 cassettes.*, 1 miss\n", result.stderr)
    assert not place.task_file.exists()
