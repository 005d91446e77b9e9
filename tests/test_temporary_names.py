"""The temporary names of cassettes while they are written: no two writers share one."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from in_process_proxy import load_cassettes
from llm_proxy.errors import SpoolError
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import cassette_filer, recovery
from llm_proxy.shell.recording.cassette_filer import (
    TEMPORARY_FILE_NAME,
    CassetteFiler,
    FiledCassette,
)
from spool_files import EVENTS, encode_body, encode_opening, make_older, write_spool
from stored_cassettes import chat_event, raw_chat_request


def make_spool(root: Path, machine: str, text: str) -> Path:
    """A spool of the library in `root`, with the name of every container's first spool."""
    folder = root / machine
    folder.mkdir()
    return write_spool(folder, encode_opening(root) + encode_body(chat_event(text)), "1-1")


def file_spool(root: Path, spool: Path) -> FiledCassette | None:
    return CassetteFiler(Library(root / "cassettes"), replaces_older=False).file_spool(spool)


def temporary_files(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*.tmp"))


def test_recordings_of_one_name_that_are_filed_at_once_are_all_filed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = [f"machine {number}" for number in range(8)]
    spools = [make_spool(tmp_path, machine, machine) for machine in machines]
    verify_written, all_written = cassette_filer._verify_written, Barrier(len(machines))
    name_lists: list[list[str]] = []

    def verify_when_all_are_written(*arguments: Any) -> None:
        all_written.wait(20)
        name_lists.append(temporary_files(tmp_path))
        all_written.wait(20)
        verify_written(*arguments)

    monkeypatch.setattr(cassette_filer, "_verify_written", verify_when_all_are_written)
    with ThreadPoolExecutor(len(machines)) as pool:
        filed_cassettes = list(pool.map(lambda spool: file_spool(tmp_path, spool), spools))

    assert {len(names_seen) for names_seen in name_lists} == {len(machines)}
    assert all(TEMPORARY_FILE_NAME.fullmatch(name) for name in name_lists[0])
    assert len({item.path for item in filed_cassettes if item is not None}) == len(machines)
    assert {cassette.response_body for cassette in load_cassettes(tmp_path)} == {
        chat_event(machine) for machine in machines
    }
    assert temporary_files(tmp_path) == []


def test_a_file_that_has_the_name_already_is_neither_written_nor_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = file_spool(tmp_path, make_spool(tmp_path, "first", "first"))
    assert first is not None
    monkeypatch.setattr(cassette_filer, "token_hex", lambda size: "0" * 2 * size)
    foreign = first.path.parent / ".1-1.00000000.tmp"
    foreign.write_bytes(b"theirs")
    spool = make_spool(tmp_path, "second", "second")

    with suppress(SpoolError):  # or it takes another name
        file_spool(tmp_path, spool)

    assert foreign.read_bytes() == b"theirs"
    kept = [cassette.response_body for cassette in load_cassettes(tmp_path)]
    assert kept[0] == chat_event("first")
    assert spool.exists() or kept[1:] == [chat_event("second")]


def test_a_file_that_another_recording_was_written_over_is_not_filed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = file_spool(tmp_path, make_spool(tmp_path, "other", "other"))
    assert other is not None
    content = encode_opening(tmp_path, raw_chat_request("mine")) + encode_body(*EVENTS)
    spool = write_spool(tmp_path, content, "1-1")

    def write_over(_: int) -> None:
        [temporary] = tmp_path.rglob("*.tmp")
        temporary.write_bytes(other.path.read_bytes())

    monkeypatch.setattr(os, "fsync", write_over)
    with pytest.raises(SpoolError, match="another process overwrote the file"):
        file_spool(tmp_path, spool)

    assert spool.read_bytes() == content
    assert [cassette.response_body for cassette in load_cassettes(tmp_path)] == [
        chat_event("other")
    ]
    assert temporary_files(tmp_path) == []


@pytest.mark.parametrize(
    "name",
    [".mine.0123abcd.tmp", ".1-1-a.0123abcd.tmp", ".1-1.0123abcde.tmp", ".1-1.0123ABCD.tmp",
     "1-1.0123abcd.tmp", ".1-1.0123abcd.tmp.swp"],
)  # fmt: skip
def test_a_file_of_somebody_else_is_never_swept(tmp_path: Path, name: str) -> None:
    write_spool(tmp_path, encode_opening(tmp_path) + encode_body(*EVENTS), "1-1")
    folder = tmp_path / "cassettes" / "openai-chat"
    folder.mkdir(parents=True)
    theirs, ours, young = (
        folder / item for item in (name, ".1-1.0123abcd.tmp", ".2-1.0123abcd.tmp")
    )
    for path, age in ((theirs, 9999), (ours, 9999), (young, 50)):
        path.write_bytes(b"half")
        make_older(path, age)

    recovered = list(recovery.recover_spools(Library(tmp_path / "cassettes"), tmp_path / "spool"))

    assert [item.path for item in recovered if isinstance(item, recovery.DeletedFile)] == [ours]
    assert theirs.read_bytes() == young.read_bytes() == b"half"
