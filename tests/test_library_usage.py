"""The report at the end of a run on cassettes that were unused or too old."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from case_tables import each_row
from cli_process import CommandResult, run_command, run_requests
from llm_proxy.errors import LlmProxyError
from llm_proxy.shell.library import last_played
from llm_proxy.shell.server.journal import LibraryUsage
from stored_cassettes import raw_chat_request, text_response, write_cassettes

NOW = datetime(2026, 6, 1, tzinfo=UTC)


async def run_client(
    folder: Path, *options: str, mode: str = "replay", contents: str = "a"
) -> CommandResult:
    """Run a server, and send it one request for each letter of `contents`."""
    ran, _ = await run_requests(
        mode, "--pace", "instant", *options, folder=folder, requests=map(raw_chat_request, contents)
    )
    return ran


def set_recorded_at(path: Path, age: timedelta) -> Path:
    """Change the recording time of a cassette to this long ago."""
    recorded = (datetime.now(UTC) - age).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    path.write_text(
        re.sub('"recorded":"[^"]+"', f'"recorded":"{recorded}"', path.read_text(), count=1)
    )
    return path


async def test_a_cassette_that_was_not_played_fails_the_run_where_that_is_asked(
    tmp_path: Path,
) -> None:
    write_cassettes(tmp_path, raw_chat_request("a"), text_response("1"))
    [unused] = write_cassettes(tmp_path, raw_chat_request("b"), text_response("2"))

    ran = await run_client(tmp_path, "--fail-on-unused", "--journal", "run.json")

    assert ran.exit_code == 1
    [line] = [line for line in ran.stderr.splitlines() if "not played in this run" in line]
    assert line.endswith(
        f": {unused.relative_to(tmp_path)}; to delete unused cassettes, run "
        "llm-proxy prune --journal run.json"
    )
    usage = json.loads((tmp_path / "run.json").read_text())["library"]
    assert usage["unused"] == [str(unused.relative_to(tmp_path / "cassettes"))]
    assert len(usage["played"]) == 1


@each_row("mode", ["replay", "auto"])
async def test_a_run_that_plays_all_of_them_is_fine(tmp_path: Path, mode: str) -> None:
    write_cassettes(tmp_path, raw_chat_request("a"), text_response("1"))
    write_cassettes(tmp_path, raw_chat_request("b"), text_response("2"))

    ran = await run_client(tmp_path, "--fail-on-unused", mode=mode, contents="ab")

    assert ran.exit_code == 0
    assert "not played" not in ran.stderr


async def test_unused_cassettes_are_not_reported_without_the_option(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request("a"), text_response("1"))
    write_cassettes(tmp_path, raw_chat_request("b"), text_response("2"))

    ran = await run_client(tmp_path)

    assert ran.exit_code == 0
    assert "not played" not in ran.stderr


async def test_of_many_unused_cassettes_the_first_are_named(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request("a"), text_response("1"))
    write_cassettes(
        tmp_path, raw_chat_request("b"), *[text_response(str(number)) for number in range(25)]
    )

    ran = await run_client(tmp_path, "--fail-on-unused")

    [line] = [line for line in ran.stderr.splitlines() if "not played in this run" in line]
    assert "25 cassettes" in line
    assert ", and 5 more; to delete" in line
    assert line.count(".jsonl") == 20


@each_row(("limit", "code"), [("30d", 0), ("30d,warn", 0), ("30d,fail", 1)])
async def test_an_old_cassette_is_warned_of_once_and_fails_the_run_where_that_is_asked(
    tmp_path: Path, limit: str, code: int
) -> None:
    old = set_recorded_at(
        write_cassettes(tmp_path, raw_chat_request("a"), text_response("1"))[0], timedelta(days=100)
    )
    set_recorded_at(
        write_cassettes(tmp_path, raw_chat_request("b"), text_response("2"))[0], timedelta(days=2)
    )

    ran = await run_client(tmp_path, "--max-age", limit, contents="aaab")

    assert ran.exit_code == code
    name = str(old.relative_to(tmp_path))
    warning, summary = [line for line in ran.stderr.splitlines() if name in line]
    assert (
        f"{name} was recorded 100 days ago, which exceeds --max-age 30d; record the cassette again"
        in warning
    )
    assert f"1 played cassette older than 30d; record them again: {name}" in summary


async def test_an_old_cassette_that_is_not_played_does_not_matter(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request("a"), text_response("1"))
    set_recorded_at(
        write_cassettes(tmp_path, raw_chat_request("b"), text_response("2"))[0], timedelta(days=1)
    )

    ran = await run_client(tmp_path, "--max-age", "30d,fail", contents="b")

    assert ran.exit_code == 0
    assert "older than" not in ran.stderr


@each_row("option", ["--fail-on-unused", "--max-age"])
@each_row("mode", ["record", "simulate"])
async def test_options_about_played_cassettes_are_refused_in_a_mode_that_plays_none(
    tmp_path: Path, mode: str, option: str
) -> None:
    ran = await run_command(mode, option, folder=tmp_path)

    assert ran.exit_code == 2
    assert f"{mode} has no option {option}; {option} is an option of replay, auto" in ran.stderr


async def test_a_run_remembers_what_it_played_outside_of_the_library(tmp_path: Path) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request("a"), text_response("1"))
    write_cassettes(tmp_path, raw_chat_request("b"), text_response("2"))
    before = datetime.now(UTC)

    await run_client(tmp_path)

    known = last_played.read_last_played(tmp_path / "state" / "llm-proxy", tmp_path / "cassettes")
    assert list(known.played_at_by_path) == [str(path.relative_to(tmp_path / "cassettes"))]
    assert (
        before <= known.played_at_by_path[next(iter(known.played_at_by_path))] <= datetime.now(UTC)
    )
    assert known.tracked_since is not None
    files = {item.name for item in (tmp_path / "cassettes").rglob("*") if item.is_file()}
    assert all(name.endswith(".jsonl") for name in files)


async def test_a_state_folder_that_cannot_be_written_costs_no_run_its_success(
    tmp_path: Path,
) -> None:
    write_cassettes(tmp_path, raw_chat_request("a"), text_response("1"))
    (tmp_path / "state").write_text("no folder")

    ran = await run_client(tmp_path)

    assert ran.exit_code == 0
    assert "cannot record when the cassettes were replayed" in ran.stderr


def test_runs_that_end_one_after_the_other_lose_nothing_of_each_other(tmp_path: Path) -> None:
    later = NOW + timedelta(days=1)

    last_played.mark_played(tmp_path / "state", tmp_path, ["a", "b"], NOW)
    last_played.mark_played(tmp_path / "state", tmp_path / "x" / "..", ["b", "c"], later)
    last_played.forget_files(tmp_path / "state", tmp_path, ["a"])

    known = last_played.read_last_played(tmp_path / "state", tmp_path)
    assert (known.tracked_since, known.played_at_by_path) == (NOW, {"b": later, "c": later})


def test_a_file_that_is_damaged_is_begun_anew(tmp_path: Path) -> None:
    last_played.mark_played(tmp_path / "state", tmp_path, ["a"], NOW)
    [file] = (tmp_path / "state").rglob("*.json")
    file.write_text("{}")

    assert last_played.read_last_played(tmp_path / "state", tmp_path).played_at_by_path == {}
    last_played.mark_played(tmp_path / "state", tmp_path, ["b"], NOW)
    assert last_played.read_last_played(tmp_path / "state", tmp_path).played_at_by_path == {
        "b": NOW
    }


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")

    with pytest.raises(LlmProxyError, match=r"cannot write .*/played/[0-9a-f]{16}\.json"):
        last_played.mark_played(tmp_path / "state", tmp_path, ["a"], NOW)


def test_a_cassette_without_a_time_is_not_too_old() -> None:
    usage = LibraryUsage(Path("cassettes"))
    usage.mark_played("cassettes/a.jsonl", "")
    usage.determine_unused_files(["cassettes/a.jsonl", "cassettes/b.jsonl"])

    assert usage.to_json_document() == {
        "played": ["a.jsonl"], "recorded": [], "unused": ["b.jsonl"], "too_old": [],
    }  # fmt: skip
