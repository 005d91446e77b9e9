"""What is said at the end of a run of the cassettes that it did not use, or that were too old."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cli_process import Ran, run
from llm_proxy.errors import LlmProxyError
from llm_proxy.shell.library import last_played
from llm_proxy.shell.server.library_usage import LibraryUsage
from stored_cassettes import chat, put, says

ASKS = """
import os, sys, urllib.request
for content in sys.argv[1:]:
    body = '{"model":"m","stream":true,"messages":[{"role":"user","content":"%s"}]}' % content
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    urllib.request.urlopen(urllib.request.Request(url, body.encode())).read()
"""
NOW = datetime(2026, 6, 1, tzinfo=UTC)


async def asked(folder: Path, *options: str, mode: str = "replay", contents: str = "a") -> Ran:
    """A run whose command asks for these, one letter a request."""
    command = ("--", sys.executable, "-c", ASKS, *contents)
    return await run(mode, "--pace", "instant", *options, *command, folder=folder)


def recorded(path: Path, ago: timedelta) -> Path:
    """A cassette, recorded so long ago."""
    when = (datetime.now(UTC) - ago).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    path.write_text(re.sub('"recorded":"[^"]+"', f'"recorded":"{when}"', path.read_text(), count=1))
    return path


async def test_a_cassette_that_was_not_played_fails_the_run_where_that_is_asked(
    tmp_path: Path,
) -> None:
    put(tmp_path, chat("a"), says("1"))
    [unused] = put(tmp_path, chat("b"), says("2"))

    ran = await asked(tmp_path, "--fail-on-unused", "--journal", "run.json")

    assert ran.code == 1
    [line] = [line for line in ran.err.splitlines() if "not played in this run" in line]
    assert line.endswith(f"1 cassette; see llm-proxy prune: {unused.relative_to(tmp_path)}")
    told = json.loads((tmp_path / "run.json").read_text())["library"]
    assert told["unused"] == [str(unused.relative_to(tmp_path / "cassettes"))]
    assert len(told["played"]) == 1


@pytest.mark.parametrize("mode", ["replay", "auto"])
async def test_a_run_that_plays_all_of_them_is_fine(tmp_path: Path, mode: str) -> None:
    put(tmp_path, chat("a"), says("1"))
    put(tmp_path, chat("b"), says("2"))

    ran = await asked(tmp_path, "--fail-on-unused", mode=mode, contents="ab")

    assert ran.code == 0
    assert "not played" not in ran.err


async def test_nothing_is_said_of_unused_cassettes_unless_asked(tmp_path: Path) -> None:
    put(tmp_path, chat("a"), says("1"))
    put(tmp_path, chat("b"), says("2"))

    ran = await asked(tmp_path)

    assert ran.code == 0
    assert "not played" not in ran.err


async def test_of_many_unused_cassettes_the_first_are_named(tmp_path: Path) -> None:
    put(tmp_path, chat("a"), says("1"))
    put(tmp_path, chat("b"), *[says(str(number)) for number in range(25)])

    ran = await asked(tmp_path, "--fail-on-unused")

    [line] = [line for line in ran.err.splitlines() if "not played in this run" in line]
    assert "25 cassettes" in line
    assert line.endswith("and 5 more")
    assert line.count(".jsonl") == 20


@pytest.mark.parametrize(("limit", "code"), [("30d", 0), ("30d,warn", 0), ("30d,fail", 1)])
async def test_an_old_cassette_is_warned_of_once_and_fails_the_run_where_that_is_asked(
    tmp_path: Path, limit: str, code: int
) -> None:
    old = recorded(put(tmp_path, chat("a"), says("1"))[0], timedelta(days=100))
    recorded(put(tmp_path, chat("b"), says("2"))[0], timedelta(days=2))

    ran = await asked(tmp_path, "--max-age", limit, contents="aaab")

    assert ran.code == code
    name = str(old.relative_to(tmp_path))
    warned, told = [line for line in ran.err.splitlines() if name in line]
    assert f"{name} was recorded 100 days ago (--max-age 30d): record it again" in warned
    assert f"played, and older than 30d: 1 cassette; record again: {name}" in told


async def test_an_old_cassette_that_is_not_played_does_not_matter(tmp_path: Path) -> None:
    put(tmp_path, chat("a"), says("1"))
    recorded(put(tmp_path, chat("b"), says("2"))[0], timedelta(days=1))

    ran = await asked(tmp_path, "--max-age", "30d,fail", contents="b")

    assert ran.code == 0
    assert "older than" not in ran.err


@pytest.mark.parametrize("mode", ["record", "simulate"])
async def test_options_that_ask_for_what_is_played_are_idle_where_nothing_is(
    tmp_path: Path, mode: str
) -> None:
    ran = await asked(tmp_path, "--fail-on-unused", "--max-age", "1d", mode=mode, contents="")

    assert f"--fail-on-unused and --max-age are without effect: {mode} plays no cassette" in ran.err


async def test_a_run_remembers_what_it_played_outside_of_the_library(tmp_path: Path) -> None:
    [path] = put(tmp_path, chat("a"), says("1"))
    put(tmp_path, chat("b"), says("2"))
    before = datetime.now(UTC)

    await asked(tmp_path)

    known = last_played.read_last_played(tmp_path / "state" / "llm-proxy", tmp_path / "cassettes")
    assert list(known.played) == [str(path.relative_to(tmp_path / "cassettes"))]
    assert before <= known.played[next(iter(known.played))] <= datetime.now(UTC)
    assert known.since is not None
    files = {item.name for item in (tmp_path / "cassettes").rglob("*") if item.is_file()}
    assert all(name.endswith(".jsonl") for name in files)


async def test_a_state_folder_that_cannot_be_written_costs_no_run_its_success(
    tmp_path: Path,
) -> None:
    put(tmp_path, chat("a"), says("1"))
    (tmp_path / "state").write_text("no folder")

    ran = await asked(tmp_path)

    assert ran.code == 0
    assert "it is not remembered which cassettes were played" in ran.err


def test_runs_that_end_one_after_the_other_lose_nothing_of_each_other(tmp_path: Path) -> None:
    later = NOW + timedelta(days=1)

    last_played.record_played(tmp_path / "state", tmp_path, ["a", "b"], NOW)
    last_played.record_played(tmp_path / "state", tmp_path / "x" / "..", ["b", "c"], later)
    last_played.forget_files(tmp_path / "state", tmp_path, ["a"])

    known = last_played.read_last_played(tmp_path / "state", tmp_path)
    assert (known.since, known.played) == (NOW, {"b": later, "c": later})


def test_a_file_that_is_damaged_is_begun_anew(tmp_path: Path) -> None:
    last_played.record_played(tmp_path / "state", tmp_path, ["a"], NOW)
    [file] = (tmp_path / "state").rglob("*.json")
    file.write_text("{}")

    assert last_played.read_last_played(tmp_path / "state", tmp_path).played == {}
    last_played.record_played(tmp_path / "state", tmp_path, ["b"], NOW)
    assert last_played.read_last_played(tmp_path / "state", tmp_path).played == {"b": NOW}


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")

    with pytest.raises(LlmProxyError, match=r"played/[0-9a-f]{16}\.json cannot be written"):
        last_played.record_played(tmp_path / "state", tmp_path, ["a"], NOW)


def test_a_cassette_without_a_time_is_not_too_old() -> None:
    usage = LibraryUsage(Path("cassettes"))
    usage.record_played("cassettes/a.jsonl", "")
    usage.finish(["cassettes/a.jsonl", "cassettes/b.jsonl"])

    assert usage.document() == {
        "played": ["a.jsonl"], "recorded": [], "unused": ["b.jsonl"], "too_old": [],
    }  # fmt: skip
