"""A library opens by file names, reads what is asked for, and keeps no more than it may."""

from __future__ import annotations

from pathlib import Path

import pytest

from in_process_proxy import proxy
from llm_proxy.cassette import Cassette, read_cassette
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.library import library as shelves
from llm_proxy.shell.library.library import Library
from raw_http import ask
from stored_cassettes import bodies, chat, key_of, put, says

MIB = 1024 * 1024


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the cassettes that were read, each time."""
    names: list[str] = []

    def counted(file: str, content: bytes) -> Cassette:
        names.append(Path(file).name)
        return read_cassette(file, content)

    monkeypatch.setattr(shelves, "read_cassette", counted)
    return names


def _library(folder: Path) -> Library:
    library = Library(folder / "cassettes")
    library.refresh()
    return library


def test_opening_a_library_reads_no_file(tmp_path: Path, reads: list[str]) -> None:
    put(tmp_path, chat("a"), says("1"), says("2"))
    put(tmp_path, chat("b"), says("3"))

    library = _library(tmp_path)

    assert library.numbers("default", key_of(chat("a"))) == [1, 2]
    assert len(library.files()) == 3
    assert reads == []


async def test_a_take_is_played_from_memory_once_it_was_read(
    tmp_path: Path, reads: list[str]
) -> None:
    put(tmp_path, chat(), says("1"), says("2"))
    async with proxy("replay", tmp_path, "", pace=InstantPace()) as it:
        played = [(await ask(it.url, chat())).body for _ in range(4)]
    assert played == bodies([says("1"), says("2"), says("2"), says("2")])
    assert len(reads) == 2


async def test_a_take_that_memory_has_no_room_for_is_read_again_and_no_other(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelves, "_CACHE", 0)  # the one that was read last stays all the same
    paths = put(tmp_path, chat(), *(says(str(number)) for number in range(1, 9)))
    async with proxy("replay", tmp_path, "", pace=InstantPace()) as it:
        for _ in range(3):
            await ask(it.url, chat())
    names = [path.name for path in paths]
    assert reads == [*names, *names[:3]]  # all of them once, to know which can be played


def test_memory_is_counted_with_requests_and_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = put(tmp_path, chat("small"), says("x"))
    wordy = put(tmp_path, chat("wordy"), says(*["x"] * 4000))
    asking = put(tmp_path, chat("y" * MIB), says("x"))
    monkeypatch.setattr(shelves, "_CACHE", MIB)
    library = _library(tmp_path)

    def kept() -> list[Path]:
        return [
            path for path in [*small, *wordy, *asking] if library.cached_cassette(path) is not None
        ]

    library.load_cassette(small[0])
    assert kept() == small
    library.load_cassette(wordy[0])  # some 260 KB, in 4001 messages and as many reads
    assert kept() == wordy
    library.load_cassette(asking[0])
    assert kept() == asking


def test_a_file_that_was_replaced_is_kept_as_it_was_read(tmp_path: Path) -> None:
    [path] = put(tmp_path, chat(), says("old"))
    library = _library(tmp_path)
    old = library.load_cassette(path)
    put(tmp_path, chat(), says("new"))
    assert library.load_cassette(path) is old


@pytest.mark.parametrize("size", [1, 5 * MIB], ids=["short", "longer than 4 MiB"])
async def test_a_cassette_of_another_name_answers_whatever_the_size_of_its_request(
    tmp_path: Path, size: int
) -> None:
    put(tmp_path, chat("z" * size), says("found"), name="my-own-name.jsonl")
    async with proxy("replay", tmp_path, "", pace=InstantPace()) as it:
        raw = await ask(it.url, chat("z" * size))
    assert raw.body == bodies([says("found")])[0]


def test_an_opening_is_read_without_the_rest(tmp_path: Path) -> None:
    [path] = put(tmp_path, chat("hello"), says("x"))
    meta, request = _library(tmp_path).read_opening(path)
    assert meta.key == key_of(chat("hello"))
    assert b"hello" in request.body

    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + b"\xff garbage")
    assert _library(tmp_path).read_opening(path) == (meta, request)

    path.write_bytes(lines[0] + lines[1].rstrip(b"\n"))
    with pytest.raises(CassetteError, match="torn"):
        _library(tmp_path).read_opening(path)


def test_two_files_for_one_take_are_refused_by_name(tmp_path: Path) -> None:
    [path] = put(tmp_path, chat(), says("x"))
    twin = path.parent / "copy" / path.name
    twin.parent.mkdir()
    twin.write_bytes(path.read_bytes())
    with pytest.raises(UsageError) as caught:
        _library(tmp_path)
    assert str(path) in str(caught.value)
    assert str(twin) in str(caught.value)
