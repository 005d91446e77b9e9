"""Claude Code and Codex finish a task while they are recorded, and again from the recording."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from in_process_proxy import cassettes
from llm_proxy.cassette import StoredRequest
from llm_proxy.diff.json_leaves import compare_documents, json_leaves
from llm_proxy.matching import key_document
from llm_proxy.outcome import outcome_of
from real_programs import CLAUDE_CODE, CODEX, Place, Program, work
from stub_upstream import Upstream, upstream
from task_provider import LAST_WORD, LINE, provider


def case(program: Program) -> Any:  # pytest gives the type of its parameters no public name
    """A program as a test's parameter: skipped where it is not installed."""
    absent = pytest.mark.skipif(bool(program.missing), reason=program.missing)
    return pytest.param(program, id=program.name, marks=absent)


BOTH = (case(CLAUDE_CODE), case(CODEX))


async def recorded(program: Program, place: Place, offline: str) -> Upstream:
    """What the provider was asked while the program did its task."""
    place.clear()
    async with upstream(provider(place.file)) as stub:
        default = ("--upstream", f"default={stub.url}")
        ran = await work("record", *default, program=program, place=place, offline=offline)
    assert (ran.code, ran.out.strip()) == (0, LAST_WORD), ran.err
    assert place.file.read_text() == f"{LINE}\n"
    return stub


@pytest.mark.parametrize("program", BOTH)
async def test_a_program_finishes_its_task_while_it_is_recorded(
    tmp_path: Path, nobody: str, program: Program
) -> None:
    stub = await recorded(program, Place(tmp_path), nobody)

    assert [head.partition(b"\r\n")[0].decode() for head, _ in stub.requests] == [program.asks] * 2
    assert [outcome_of(cassette).complete for cassette in cassettes(tmp_path)] == [True, True]


def difference(one: bytes, other: bytes) -> set[str]:
    """Where two bodies differ, whatever the place in a list; all metadata of a client is one."""
    values = [
        json_leaves(key_document("", StoredRequest("POST", "/", "", (), body)))
        for body in (one, other)
    ]
    paths = {
        re.sub(r"\[\d+\]", "[*]", compare_document.path)
        for compare_document in compare_documents(*values)
    }
    return {re.sub(r"(?<=^\$\.client_metadata)\W.*", "", path) for path in paths}


@pytest.mark.parametrize("program", BOTH)
async def test_only_what_a_program_rolls_differs_from_run_to_run(
    tmp_path: Path, nobody: str, program: Program
) -> None:
    place = Place(tmp_path)

    one, other = [await recorded(program, place, nobody) for _ in range(2)]

    for (_, asked), (_, again) in zip(one.requests, other.requests, strict=True):
        assert difference(asked, again) == program.rolls


@pytest.mark.parametrize("program", BOTH)
async def test_a_program_finishes_its_task_again_from_the_recording_alone(
    tmp_path: Path, nobody: str, program: Program
) -> None:
    place = Place(tmp_path)
    await recorded(program, place, nobody)

    ran = await work("replay", "--strict", program=program, place=place, offline=nobody)

    assert (ran.code, ran.out.strip()) == (0, LAST_WORD), ran.err
    assert place.file.read_text() == f"{LINE}\n"


@pytest.mark.parametrize("program", BOTH)
async def test_a_program_gives_up_at_once_when_nothing_was_recorded(
    tmp_path: Path, nobody: str, program: Program
) -> None:
    place = Place(tmp_path)

    ran = await work("replay", program=program, place=place, offline=nobody)

    assert ran.code == 1
    assert "not answered from a cassette: 1 request\n" in ran.err
    assert not place.file.exists()
