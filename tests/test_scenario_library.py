"""The scenario library loads scenarios from files and reloads them on change."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from llm_proxy.errors import UsageError
from llm_proxy.scenario.choosing import ScenarioSet
from llm_proxy.scenario.documents.loading import LoadedScenarios, parse_scenario_file
from llm_proxy.shell import scenarios as scenarios_module
from llm_proxy.shell.scenarios import (
    CHECK_INTERVAL_S,
    ScannedFile,
    ScenarioLibrary,
    load_scenarios,
    scan_files,
)
from waiting import wait_until

ROOT = os.geteuid() == 0


def scenario(name: str, description: str = "x") -> str:
    answer = "{turn: 1, response: {kind: text, assistant_text: a}}"
    return f"id: {name}\ndescription: {description}\nturns: [{answer}]\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def ids(loaded: LoadedScenarios | ScenarioSet) -> list[str]:
    return [item.value.id for item in loaded.scenarios]


def mistakes(folder: Path, loaded: LoadedScenarios) -> list[str]:
    return [str(mistake).removeprefix(f"{folder}/") for mistake in loaded.mistakes]


class Clock:
    """A clock that is advanced manually."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time

    def advance(self, seconds: float = CHECK_INTERVAL_S) -> None:
        self.time += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def load_library(path: Path, clock: Clock) -> ScenarioLibrary:
    scenario_library = ScenarioLibrary(path, clock)
    scenario_library.load()
    return scenario_library


def test_a_folder_is_read_in_the_order_of_its_paths(tmp_path: Path) -> None:
    write(tmp_path / "b.yml", scenario("b"))
    write(tmp_path / "a" / "z.yaml", scenario("z"))
    write(tmp_path / "a" / "c" / "y.YAML", scenario("y"))
    write(tmp_path / "c.json", '{"id": "c", "description": "d", "turns": []}')
    write(tmp_path / "notes.txt", "no: [scenario")
    write(tmp_path / ".hidden" / "h.yaml", "no: [scenario")
    write(tmp_path / ".h.yaml", "no: [scenario")
    write(tmp_path / "scenario.schema.json", "{}")

    loaded = load_scenarios([tmp_path])

    assert ids(loaded) == ["y", "z", "b", "c"]
    assert [Path(item.file).relative_to(tmp_path).as_posix() for item in loaded.scenarios] == [
        "a/c/y.YAML", "a/z.yaml", "b.yml", "c.json",
    ]  # fmt: skip


def test_a_file_may_have_any_name_where_it_is_given(tmp_path: Path) -> None:
    assert ids(load_scenarios([write(tmp_path / "refund.txt", scenario("a"))])) == ["a"]


def test_a_path_that_is_given_twice_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))

    assert load_scenarios([tmp_path, path, tmp_path]).mistakes == ()


def test_links_are_followed(tmp_path: Path) -> None:
    write(tmp_path / "real" / "a.yaml", scenario("a"))
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "folder").symlink_to(tmp_path / "real")
    write(tmp_path / "b", scenario("b"))
    (tmp_path / "here" / "b.yaml").symlink_to(tmp_path / "b")

    assert ids(load_scenarios([tmp_path / "here"])) == ["b", "a"]


def test_unreadable_files_are_reported_and_their_neighbours_loaded(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", scenario("a"))
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "lost.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "self.yaml").symlink_to(tmp_path / "self.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")

    loaded = load_scenarios([tmp_path])

    assert mistakes(tmp_path, loaded) == [
        "loop: the symbolic link points to a parent folder; remove the link",
        "lost.yaml: broken symbolic link; remove the link",
        "pipe.yaml: not a regular file; rename or remove it",
        "self.yaml: cannot read the file: Too many levels of symbolic links",
    ]
    assert ids(loaded) == ["a"]


@pytest.mark.skipif(ROOT, reason="root may read everything")
def test_files_without_permission_are_reported(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", scenario("a")).chmod(0)
    (tmp_path / "closed").mkdir(mode=0)

    assert mistakes(tmp_path, load_scenarios([tmp_path])) == [
        "a.yaml: cannot read the file: Permission denied",
        "closed: cannot read the folder: Permission denied",
    ]


def test_a_path_to_nothing_is_a_mistake_of_usage(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    reasons = []
    for name in ("nowhere", "pipe", "empty"):
        with pytest.raises(UsageError) as caught:
            load_scenarios([tmp_path / name])
        reasons.append(str(caught.value).replace(f"{tmp_path}/", ""))

    assert reasons == [
        "no such file or folder: nowhere (set --scenarios)",
        "neither a file nor a folder: pipe (set --scenarios)",
        "no scenario files in empty; add a file that matches *.yaml, *.yml, *.json",
    ]


def test_at_the_start_all_mistakes_are_reported(tmp_path: Path, clock: Clock) -> None:
    path = write(tmp_path / "s.yaml", "- {id: 1, description: a, turns: []}\n" * 25)

    with pytest.raises(UsageError) as caught:
        load_library(path, clock)
    first, *lines = str(caught.value).splitlines()

    assert first == f"25 errors in the scenarios of {path}:"
    assert lines[0] == f'  {path}:1:8: $[0].id: expected text, got the number 1; write "1"'
    assert lines[19].startswith(f"  {path}:20:8: $[19].id: ")
    assert lines[20:] == ["  and 5 more; run `llm-proxy scenario lint` to list all errors"]


def test_at_the_start_warnings_are_logged(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    load_library(write(tmp_path / "s.yaml", "id: a\ndescription: b\nturns: []\n"), clock)

    assert [record.getMessage().rpartition("/")[2] for record in caplog.records] == [
        "s.yaml:3:1: $.turns: the scenario has no turns, so every request fails"
    ]


async def test_a_change_is_seen_once_the_files_are_looked_at_again(
    tmp_path: Path, clock: Clock
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    scenario_library = load_library(tmp_path, clock)
    write(path, scenario("changed"))
    write(tmp_path / "b.yaml", scenario("b"))

    clock.advance(CHECK_INTERVAL_S / 2)
    assert ids(await scenario_library.current_scenarios()) == ["a"]
    clock.advance()
    assert ids(await scenario_library.current_scenarios()) == ["changed", "b"]

    path.unlink()
    clock.advance()
    assert ids(await scenario_library.current_scenarios()) == ["b"]


@pytest.fixture
def read_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of each file that is read, once per read."""
    names: list[str] = []

    def recording_load(file: str, content: bytes) -> LoadedScenarios:
        names.append(Path(file).name)
        return parse_scenario_file(file, content)

    monkeypatch.setattr(scenarios_module, "parse_scenario_file", recording_load)
    return names


async def test_only_what_has_changed_is_read_again(
    tmp_path: Path, clock: Clock, read_names: list[str]
) -> None:
    write(tmp_path / "a.yaml", scenario("a"))
    path = write(tmp_path / "b.yaml", scenario("b"))
    scenario_library = load_library(tmp_path, clock)

    clock.advance()
    await scenario_library.current_scenarios()
    assert read_names == ["a.yaml", "b.yaml"]

    write(path, scenario("b2"))
    clock.advance()
    assert ids(await scenario_library.current_scenarios()) == ["a", "b2"]
    assert read_names == ["a.yaml", "b.yaml", "b.yaml"]


async def test_a_broken_edit_is_reported_once_and_the_last_good_version_stays(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = write(tmp_path / "a.yaml", scenario("a"))
    scenario_library = load_library(path, clock)

    write(path, "id: 5\n")
    for _ in range(3):
        clock.advance()
        assert ids(await scenario_library.current_scenarios()) == ["a"]
    write(path, scenario("mended"))
    clock.advance()

    assert ids(await scenario_library.current_scenarios()) == ["mended"]
    assert [record.getMessage().replace(f"{tmp_path}/", "") for record in caplog.records] == [
        (
            "keeping the previous scenarios: 3 errors in the scenarios of a.yaml:\n"
            "  a.yaml:1:1: $: missing field 'description': the purpose of the scenario\n"
            "  a.yaml:1:1: $: missing field 'turns': the turns of the conversation\n"
            '  a.yaml:1:5: $.id: expected text, got the number 5; write "5"'
        ),
        "a.yaml changed; loaded 1 scenario",
    ]


async def test_while_a_file_is_missing_its_last_good_version_stays(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    scenario_library = load_library(path, clock)

    path.rename(tmp_path / "away")
    for _ in range(3):
        clock.advance()
        assert ids(await scenario_library.current_scenarios()) == ["a"]
    (tmp_path / "away").rename(path)
    clock.advance()

    assert ids(await scenario_library.current_scenarios()) == ["a"]
    lost = f"no such file or folder: {path} (set --scenarios)"
    assert [record.getMessage() for record in caplog.records] == [
        f"keeping the previous scenarios: {lost}"
    ]


async def test_an_edit_of_the_same_size_is_seen(tmp_path: Path, clock: Clock) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    os.utime(path, ns=(0, 0))
    scenario_library = load_library(path, clock)

    write(path, scenario("b"))
    clock.advance()

    assert ids(await scenario_library.current_scenarios()) == ["b"]


async def test_concurrent_callers_scan_the_files_once(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    scenario_library = load_library(path, clock)
    scans: list[Sequence[Path]] = []

    def counting_scan(paths: Sequence[Path]) -> tuple[ScannedFile, ...]:
        scans.append(paths)
        return scan_files(paths)

    monkeypatch.setattr(scenarios_module, "scan_files", counting_scan)
    write(path, scenario("b"))
    clock.advance()

    results = await asyncio.gather(*(scenario_library.current_scenarios() for _ in range(20)))

    assert [ids(item) for item in results] == [["b"]] * 20
    assert len(scans) == 1


class BlockedReader:
    """A file reader that blocks until it is released."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.released = threading.Event()

    def load(self, file: str, content: bytes) -> LoadedScenarios:
        self.started.set()
        assert self.released.wait(10)
        return parse_scenario_file(file, content)

    async def wait_until_reading(self) -> None:
        """Wait until a read has started."""
        assert await asyncio.to_thread(self.started.wait, 10)


async def test_slow_files_do_not_block_requests(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    scenario_library = ScenarioLibrary(path, clock, max_wait_s=0.01)
    scenario_library.load()
    reader = BlockedReader()
    monkeypatch.setattr(scenarios_module, "parse_scenario_file", reader.load)
    write(path, scenario("b"))
    clock.advance()

    assert ids(await scenario_library.current_scenarios()) == ["a"]
    await reader.wait_until_reading()
    assert [ids(await scenario_library.current_scenarios()) for _ in range(3)] == [["a"]] * 3

    reader.released.set()
    await wait_until(lambda: scenario_library._renewal_task is None)
    assert ids(await scenario_library.current_scenarios()) == ["b"]


async def test_a_request_during_a_reload_does_not_wait(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    scenario_library = load_library(path, clock)
    reader = BlockedReader()
    monkeypatch.setattr(scenarios_module, "parse_scenario_file", reader.load)
    write(path, scenario("b"))
    clock.advance()

    noticed = asyncio.create_task(scenario_library.current_scenarios())
    await reader.wait_until_reading()
    assert ids(await scenario_library.current_scenarios()) == ["a"]
    assert not noticed.done()

    reader.released.set()
    assert ids(await noticed) == ["b"]


async def test_a_cancelled_request_does_not_stop_a_reload(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    scenario_library = load_library(path, clock)
    reader = BlockedReader()
    monkeypatch.setattr(scenarios_module, "parse_scenario_file", reader.load)
    write(path, scenario("b"))
    clock.advance()

    leaving, staying = (asyncio.create_task(scenario_library.current_scenarios()) for _ in range(2))
    await reader.wait_until_reading()
    leaving.cancel()
    reader.released.set()

    assert ids(await staying) == ["b"]


async def test_a_fault_while_files_are_read_is_not_passed_over(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    scenario_library = load_library(path, clock)
    with monkeypatch.context() as broken:
        broken.setattr(scenarios_module, "scan_files", lambda _: 1 / 0)
        clock.advance()
        with pytest.raises(ZeroDivisionError):
            await scenario_library.current_scenarios()
    clock.advance()

    assert ids(await scenario_library.current_scenarios()) == ["a"]


# Emptied and deleted files


@pytest.mark.parametrize("saved", ["", "\n \n", "# to be written\n", "---\n"])
async def test_a_file_that_is_half_saved_is_a_mistake_until_it_is_whole(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, saved: str
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    write(tmp_path / "b.yaml", scenario("b"))
    scenario_library = load_library(tmp_path, clock)

    write(path, saved)
    for _ in range(3):
        clock.advance()
        assert ids(await scenario_library.current_scenarios()) == ["a", "b"]
    write(path, scenario("whole"))
    clock.advance()

    assert ids(await scenario_library.current_scenarios()) == ["whole", "b"]
    assert [record.getMessage().replace(f"{tmp_path}", ".") for record in caplog.records] == [
        (
            "keeping the previous scenarios: 1 error in the scenarios of .:\n"
            "  ./a.yaml: the file is now empty; save the scenarios again, or delete the file"
        )
    ]


async def test_a_file_that_never_held_anything_is_no_mistake(tmp_path: Path, clock: Clock) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    write(tmp_path / "b.yaml", "# later\n")
    scenario_library = load_library(tmp_path, clock)
    write(path, scenario("changed"))
    write(tmp_path / "c.json", "")
    clock.advance()

    assert ids(await scenario_library.current_scenarios()) == ["changed"]


async def test_an_empty_list_of_scenarios_is_accepted(tmp_path: Path, clock: Clock) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    scenario_library = load_library(path, clock)
    write(path, "scenarios: []\n")
    clock.advance()

    assert ids(await scenario_library.current_scenarios()) == []


async def test_an_emptied_file_that_is_deleted_is_none_any_more(
    tmp_path: Path, clock: Clock
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    write(tmp_path / "b.yaml", scenario("b"))
    scenario_library = load_library(tmp_path, clock)
    write(path, "")
    clock.advance()
    await scenario_library.current_scenarios()
    path.unlink()
    clock.advance()

    assert ids(await scenario_library.current_scenarios()) == ["b"]


async def test_a_folder_that_loses_its_last_file_keeps_what_was_good(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    scenario_library = load_library(tmp_path, clock)
    path.unlink()
    for _ in range(2):
        clock.advance()
        assert ids(await scenario_library.current_scenarios()) == ["a"]

    assert [record.getMessage() for record in caplog.records] == [
        (
            f"keeping the previous scenarios: no scenario files in {tmp_path}; add a file that "
            "matches *.yaml, *.yml, *.json"
        )
    ]
