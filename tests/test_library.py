"""A library opens by file names alone, reads files on demand, and limits its cache."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

from in_process_proxy import proxy
from llm_proxy.cassette import Cassette, parse_cassette
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.library import library as library_module
from llm_proxy.shell.library.library import Library
from raw_http import send_request
from stored_cassettes import (
    key_of_request,
    raw_chat_request,
    response_bodies,
    text_response,
    write_cassettes,
)

MIB = 1024 * 1024


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the cassettes in the order of their reads."""
    names: list[str] = []

    def read_and_record(file: str, content: bytes) -> Cassette:
        names.append(Path(file).name)
        return parse_cassette(file, content)

    monkeypatch.setattr(library_module, "parse_cassette", read_and_record)
    return names


def _open_library(folder: Path) -> Library:
    library = Library(folder / "cassettes")
    library.refresh()
    return library


def test_opening_a_library_reads_no_file(tmp_path: Path, reads: list[str]) -> None:
    write_cassettes(tmp_path, raw_chat_request("a"), text_response("1"), text_response("2"))
    write_cassettes(tmp_path, raw_chat_request("b"), text_response("3"))

    library = _open_library(tmp_path)

    assert list(library.take_paths("default", key_of_request(raw_chat_request("a")))) == [1, 2]
    assert len(library.cassette_paths()) == 3
    assert reads == []


async def test_a_take_is_replayed_from_memory_after_its_first_read(
    tmp_path: Path, reads: list[str]
) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("1"), text_response("2"))
    async with proxy("replay", tmp_path, "", pace=InstantPace()) as replay_proxy:
        played_bodies = [
            (await send_request(replay_proxy.url, raw_chat_request())).body for _ in range(4)
        ]
    assert played_bodies == response_bodies(
        [text_response("1"), text_response("2"), text_response("2"), text_response("2")]
    )
    assert len(reads) == 2


async def test_only_a_take_that_does_not_fit_in_the_cache_is_read_again(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        library_module, "_MAX_CACHE_BYTES", 0
    )  # the last one read stays cached regardless
    paths = write_cassettes(
        tmp_path, raw_chat_request(), *(text_response(str(number)) for number in range(1, 9))
    )
    async with proxy("replay", tmp_path, "", pace=InstantPace()) as replay_proxy:
        for _ in range(3):
            await send_request(replay_proxy.url, raw_chat_request())
    names = [path.name for path in paths]
    assert reads == [*names, *names[:3]]  # each once, to find those that can be replayed


def test_the_cache_size_includes_requests_and_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = write_cassettes(tmp_path, raw_chat_request("small"), text_response("x"))
    many_messages = write_cassettes(
        tmp_path, raw_chat_request("wordy"), text_response(*["x"] * 4000)
    )
    large_request = write_cassettes(tmp_path, raw_chat_request("y" * MIB), text_response("x"))
    monkeypatch.setattr(library_module, "_MAX_CACHE_BYTES", MIB)
    library = _open_library(tmp_path)

    def cached() -> list[Path]:
        return [
            path
            for path in [*small, *many_messages, *large_request]
            if library.cached_cassette(path) is not None
        ]

    library.load_cassette(small[0])
    assert cached() == small
    library.load_cassette(many_messages[0])  # some 260 KB, in 4001 messages and as many reads
    assert cached() == many_messages
    library.load_cassette(large_request[0])
    assert cached() == large_request


def test_a_replaced_file_stays_cached_as_it_was_read(tmp_path: Path) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("old"))
    library = _open_library(tmp_path)
    old = library.load_cassette(path)
    write_cassettes(tmp_path, raw_chat_request(), text_response("new"))
    assert library.load_cassette(path) is old


@pytest.mark.parametrize("size", [1, 5 * MIB], ids=["short", "longer than 4 MiB"])
async def test_a_cassette_of_another_name_answers_whatever_the_size_of_its_request(
    tmp_path: Path, size: int
) -> None:
    write_cassettes(
        tmp_path, raw_chat_request("z" * size), text_response("found"), name="my-own-name.jsonl"
    )
    async with proxy("replay", tmp_path, "", pace=InstantPace()) as replay_proxy:
        response = await send_request(replay_proxy.url, raw_chat_request("z" * size))
    assert response.body == response_bodies([text_response("found")])[0]


def test_an_opening_is_read_without_the_rest(tmp_path: Path) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request("hello"), text_response("x"))
    meta, request = _open_library(tmp_path).read_opening(path)
    assert meta.key == key_of_request(raw_chat_request("hello"))
    assert b"hello" in request.body

    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + b"\xff garbage")
    assert _open_library(tmp_path).read_opening(path) == (meta, request)

    path.write_bytes(lines[0] + lines[1].rstrip(b"\n"))
    with pytest.raises(CassetteError, match="truncated"):
        _open_library(tmp_path).read_opening(path)


def test_two_files_for_one_take_are_refused_by_name(tmp_path: Path) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("x"))
    twin = path.parent / "copy" / path.name
    twin.parent.mkdir()
    twin.write_bytes(path.read_bytes())
    with pytest.raises(UsageError) as refused:
        _open_library(tmp_path)
    assert str(path) in str(refused.value)
    assert str(twin) in str(refused.value)


def test_folders_may_be_nested_deeper_than_calls_of_python(tmp_path: Path) -> None:
    possible_calls = 100
    folder = tmp_path
    for _ in range(possible_calls + 20):
        folder /= "f"
        folder.mkdir()
    stray = folder / "stray.jsonl"
    stray.touch()
    library = Library(tmp_path)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(context=0)) + possible_calls)
    try:
        library.refresh()
        assert library.stray_paths() == [stray]
    finally:
        sys.setrecursionlimit(limit)
