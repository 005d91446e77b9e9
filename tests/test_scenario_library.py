"""A server's scenarios are read from files, and read again when those change."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from llm_proxy.errors import UsageError
from llm_proxy.scenario.documents.loading import LoadedScenarios, load_file
from llm_proxy.shell.scenarios import files
from llm_proxy.shell.scenarios import library as library_module
from llm_proxy.shell.scenarios.files import load_all
from llm_proxy.shell.scenarios.library import CHECK_EVERY, ScenarioLibrary
from waiting import until

ROOT = os.geteuid() == 0


def scenario(name: str, description: str = "x") -> str:
    answer = "{turn: 1, response: {kind: text, assistant_text: a}}"
    return f"id: {name}\ndescription: {description}\nturns: [{answer}]\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def ids(it: LoadedScenarios) -> list[str]:
    return [item.value.id for item in it.scenarios]


def mistakes(folder: Path, it: LoadedScenarios) -> list[str]:
    return [str(mistake).removeprefix(f"{folder}/") for mistake in it.mistakes]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time

    def later(self, seconds: float = CHECK_EVERY) -> None:
        self.time += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def library(path: Path, clock: Clock) -> ScenarioLibrary:
    it = ScenarioLibrary(path, clock)
    it.load()
    return it


def test_a_folder_is_read_in_the_order_of_its_paths(tmp_path: Path) -> None:
    write(tmp_path / "b.yml", scenario("b"))
    write(tmp_path / "a" / "z.yaml", scenario("z"))
    write(tmp_path / "a" / "c" / "y.YAML", scenario("y"))
    write(tmp_path / "c.json", '{"id": "c", "description": "d", "turns": []}')
    write(tmp_path / "notes.txt", "no: [scenario")
    write(tmp_path / ".hidden" / "h.yaml", "no: [scenario")
    write(tmp_path / ".h.yaml", "no: [scenario")
    write(tmp_path / "scenario.schema.json", "{}")

    it = load_all([tmp_path])

    assert ids(it) == ["y", "z", "b", "c"]
    assert [Path(item.file).relative_to(tmp_path).as_posix() for item in it.scenarios] == [
        "a/c/y.YAML", "a/z.yaml", "b.yml", "c.json",
    ]  # fmt: skip


def test_a_file_may_have_any_name_where_it_is_given(tmp_path: Path) -> None:
    assert ids(load_all([write(tmp_path / "refund.txt", scenario("a"))])) == ["a"]


def test_a_path_that_is_given_twice_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))

    assert load_all([tmp_path, path, tmp_path]).mistakes == ()


def test_links_are_followed(tmp_path: Path) -> None:
    write(tmp_path / "real" / "a.yaml", scenario("a"))
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "folder").symlink_to(tmp_path / "real")
    write(tmp_path / "b", scenario("b"))
    (tmp_path / "here" / "b.yaml").symlink_to(tmp_path / "b")

    assert ids(load_all([tmp_path / "here"])) == ["b", "a"]


def test_what_is_no_readable_file_is_told_with_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", scenario("a"))
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "lost.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "self.yaml").symlink_to(tmp_path / "self.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")

    it = load_all([tmp_path])

    assert mistakes(tmp_path, it) == [
        "loop: this link leads back to a folder that it lies in: remove it",
        "lost.yaml: this link leads to nothing: remove it",
        "pipe.yaml: this is no regular file: give it another name, or remove it",
        "self.yaml: the file cannot be read: Too many levels of symbolic links",
    ]
    assert ids(it) == ["a"]


@pytest.mark.skipif(ROOT, reason="root may read everything")
def test_what_may_not_be_read_is_told(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", scenario("a")).chmod(0)
    (tmp_path / "closed").mkdir(mode=0)

    assert mistakes(tmp_path, load_all([tmp_path])) == [
        "a.yaml: the file cannot be read: Permission denied",
        "closed: the folder cannot be read: Permission denied",
    ]


def test_a_path_to_nothing_is_a_mistake_of_usage(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    reasons = []
    for name in ("nowhere", "pipe", "empty"):
        with pytest.raises(UsageError) as told:
            load_all([tmp_path / name])
        reasons.append(str(told.value).replace(f"{tmp_path}/", ""))

    assert reasons == [
        "there is no file or folder nowhere: give --scenarios one that there is",
        "pipe is neither a file nor a folder: give --scenarios one of these",
        "empty holds no scenarios: there is no *.yaml *.yml *.json below it",
    ]


def test_at_the_start_all_mistakes_are_told(tmp_path: Path, clock: Clock) -> None:
    path = write(tmp_path / "s.yaml", "- {id: 1, description: a, turns: []}\n" * 25)

    with pytest.raises(UsageError) as told:
        library(path, clock)
    first, *lines = str(told.value).splitlines()

    assert first == f"the scenarios in {path} have 25 mistakes:"
    assert lines[0] == f'  {path}:1:8: $[0].id: 1 is a number: write text in quotes, "1"'
    assert lines[19].startswith(f"  {path}:20:8: $[19].id: ")
    assert lines[20:] == ["  and 5 more: llm-proxy scenario lint tells all of them"]


def test_at_the_start_warnings_are_logged(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    library(write(tmp_path / "s.yaml", "id: a\ndescription: b\nturns: []\n"), clock)

    assert [record.getMessage().rpartition("/")[2] for record in caplog.records] == [
        "s.yaml:3:1: $.turns: there are no turns, so every request fails"
    ]


async def test_a_change_is_seen_once_the_files_are_looked_at_again(
    tmp_path: Path, clock: Clock
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    it = library(tmp_path, clock)
    write(path, scenario("changed"))
    write(tmp_path / "b.yaml", scenario("b"))

    clock.later(CHECK_EVERY / 2)
    assert ids(await it.current()) == ["a"]
    clock.later()
    assert ids(await it.current()) == ["changed", "b"]

    path.unlink()
    clock.later()
    assert ids(await it.current()) == ["b"]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were read, each time."""
    names: list[str] = []

    def counted(file: str, content: bytes) -> LoadedScenarios:
        names.append(Path(file).name)
        return load_file(file, content)

    monkeypatch.setattr(files, "load_file", counted)
    return names


async def test_only_what_has_changed_is_read_again(
    tmp_path: Path, clock: Clock, reads: list[str]
) -> None:
    write(tmp_path / "a.yaml", scenario("a"))
    path = write(tmp_path / "b.yaml", scenario("b"))
    it = library(tmp_path, clock)

    clock.later()
    await it.current()
    assert reads == ["a.yaml", "b.yaml"]

    write(path, scenario("b2"))
    clock.later()
    assert ids(await it.current()) == ["a", "b2"]
    assert reads == ["a.yaml", "b.yaml", "b.yaml"]


async def test_a_broken_edit_is_told_once_and_what_was_good_stays(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = write(tmp_path / "a.yaml", scenario("a"))
    it = library(path, clock)

    write(path, "id: 5\n")
    for _ in range(3):
        clock.later()
        assert ids(await it.current()) == ["a"]
    write(path, scenario("mended"))
    clock.later()

    assert ids(await it.current()) == ["mended"]
    assert [record.getMessage().replace(f"{tmp_path}/", "") for record in caplog.records] == [
        (
            "what was good before stays: the scenarios in a.yaml have 3 mistakes:\n"
            "  a.yaml:1:1: $: description is missing: what it is for, for people\n"
            "  a.yaml:1:1: $: turns is missing: the answers, by turn\n"
            '  a.yaml:1:5: $.id: 5 is a number: write text in quotes, "5"'
        ),
        "a.yaml has changed: 1 scenario read anew",
    ]


async def test_a_file_that_is_gone_for_a_while_is_missed_by_nobody(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    it = library(path, clock)

    path.rename(tmp_path / "away")
    for _ in range(3):
        clock.later()
        assert ids(await it.current()) == ["a"]
    (tmp_path / "away").rename(path)
    clock.later()

    assert ids(await it.current()) == ["a"]
    lost = f"there is no file or folder {path}: give --scenarios one that there is"
    assert [record.getMessage() for record in caplog.records] == [
        f"what was good before stays: {lost}"
    ]


async def test_an_edit_of_the_same_size_is_seen(tmp_path: Path, clock: Clock) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    os.utime(path, ns=(0, 0))
    it = library(path, clock)

    write(path, scenario("b"))
    clock.later()

    assert ids(await it.current()) == ["b"]


async def test_many_who_ask_at_once_look_once(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    it = library(path, clock)
    looks: list[Sequence[Path]] = []

    def counted(paths: Sequence[Path]) -> tuple[files.ScannedFile, ...]:
        looks.append(paths)
        return files.scan_files(paths)

    monkeypatch.setattr(library_module, "scan_files", counted)
    write(path, scenario("b"))
    clock.later()

    asked = await asyncio.gather(*(it.current() for _ in range(20)))

    assert [ids(item) for item in asked] == [["b"]] * 20
    assert len(looks) == 1


class Held:
    """Reads files only once it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()

    def load(self, file: str, content: bytes) -> LoadedScenarios:
        self.begun.set()
        assert self.go.wait(10)
        return load_file(file, content)

    async def reads(self) -> None:
        """Until it has begun to."""
        assert await asyncio.to_thread(self.begun.wait, 10)


async def test_nobody_waits_for_files_that_take_long_to_read(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    it = ScenarioLibrary(path, clock, patience=0.01)
    it.load()
    held = Held()
    monkeypatch.setattr(files, "load_file", held.load)
    write(path, scenario("b"))
    clock.later()

    assert ids(await it.current()) == ["a"]
    await held.reads()
    assert [ids(await it.current()) for _ in range(3)] == [["a"]] * 3

    held.go.set()
    await until(lambda: it._renewal_task is None)
    assert ids(await it.current()) == ["b"]


async def test_who_comes_while_files_are_read_does_not_wait_at_all(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    it = library(path, clock)
    held = Held()
    monkeypatch.setattr(files, "load_file", held.load)
    write(path, scenario("b"))
    clock.later()

    noticed = asyncio.create_task(it.current())
    await held.reads()
    assert ids(await it.current()) == ["a"]
    assert not noticed.done()

    held.go.set()
    assert ids(await noticed) == ["b"]


async def test_who_leaves_does_not_stop_what_others_wait_for(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    it = library(path, clock)
    held = Held()
    monkeypatch.setattr(files, "load_file", held.load)
    write(path, scenario("b"))
    clock.later()

    leaving, staying = (asyncio.create_task(it.current()) for _ in range(2))
    await held.reads()
    leaving.cancel()
    held.go.set()

    assert ids(await staying) == ["b"]


async def test_a_fault_while_files_are_read_is_not_passed_over(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    it = library(path, clock)
    with monkeypatch.context() as broken:
        broken.setattr(library_module, "scan_files", lambda _: 1 / 0)
        clock.later()
        with pytest.raises(ZeroDivisionError):
            await it.current()
    clock.later()

    assert ids(await it.current()) == ["a"]


# What is gone


@pytest.mark.parametrize("half", ["", "\n \n", "# to be written\n", "---\n"])
async def test_a_file_that_is_half_saved_is_a_mistake_until_it_is_whole(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, half: str
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    write(tmp_path / "b.yaml", scenario("b"))
    it = library(tmp_path, clock)

    write(path, half)
    for _ in range(3):
        clock.later()
        assert ids(await it.current()) == ["a", "b"]
    write(path, scenario("whole"))
    clock.later()

    assert ids(await it.current()) == ["whole", "b"]
    assert [record.getMessage().replace(f"{tmp_path}", ".") for record in caplog.records] == [
        (
            "what was good before stays: the scenarios in . have 1 mistake:\n"
            "  ./a.yaml: the file holds nothing any more: save it whole, or delete it"
        )
    ]


async def test_a_file_that_never_held_anything_is_no_mistake(tmp_path: Path, clock: Clock) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    write(tmp_path / "b.yaml", "# later\n")
    it = library(tmp_path, clock)
    write(path, scenario("changed"))
    write(tmp_path / "c.json", "")
    clock.later()

    assert ids(await it.current()) == ["changed"]


async def test_a_list_without_scenarios_is_what_somebody_means(
    tmp_path: Path, clock: Clock
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    it = library(path, clock)
    write(path, "scenarios: []\n")
    clock.later()

    assert ids(await it.current()) == []


async def test_an_emptied_file_that_is_deleted_is_none_any_more(
    tmp_path: Path, clock: Clock
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    write(tmp_path / "b.yaml", scenario("b"))
    it = library(tmp_path, clock)
    write(path, "")
    clock.later()
    await it.current()
    path.unlink()
    clock.later()

    assert ids(await it.current()) == ["b"]


async def test_a_folder_that_loses_its_last_file_keeps_what_was_good(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "a.yaml", scenario("a"))
    it = library(tmp_path, clock)
    path.unlink()
    for _ in range(2):
        clock.later()
        assert ids(await it.current()) == ["a"]

    assert [record.getMessage() for record in caplog.records] == [
        (
            f"what was good before stays: {tmp_path} holds no scenarios: there is no *.yaml *.yml "
            "*.json below it"
        )
    ]
