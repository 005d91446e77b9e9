"""The names under which cassettes are written, before they have their own: never two for one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from in_process_proxy import cassettes
from llm_proxy.cassette import Cassette
from llm_proxy.errors import SpoolError
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import cassette_filer, recovery
from llm_proxy.shell.recording.cassette_filer import TEMPORARY, CassetteFiler, FiledCassette
from spool_files import PIECES, aged, body, left, opening
from stored_cassettes import event


def spooled(root: Path, machine: str, text: str) -> Path:
    """A spool called as every container calls its first, of the library in `root`."""
    folder = root / machine
    folder.mkdir()
    return left(folder, opening(root) + body(event(text)), "1-1")


def filed(root: Path, spool: Path) -> FiledCassette | None:
    return CassetteFiler(Library(root / "cassettes"), renew=False).file_spool(spool)


def temporary_files(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*.tmp"))


def test_recordings_of_one_name_that_are_filed_at_once_are_all_filed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = [f"machine {number}" for number in range(8)]
    spools = [spooled(tmp_path, machine, machine) for machine in machines]
    read_back, all_written = cassette_filer._verify_written, Barrier(len(machines))
    names: list[list[str]] = []

    def written(*arguments: Any) -> Cassette:
        all_written.wait(20)
        names.append(temporary_files(tmp_path))
        all_written.wait(20)
        return read_back(*arguments)

    monkeypatch.setattr(cassette_filer, "_verify_written", written)
    with ThreadPoolExecutor(len(machines)) as pool:
        found = list(pool.map(lambda spool: filed(tmp_path, spool), spools))

    assert {len(them) for them in names} == {len(machines)}
    assert all(TEMPORARY.fullmatch(name) for name in names[0])
    assert len({item.path for item in found if item is not None}) == len(machines)
    assert {cassette.body for cassette in cassettes(tmp_path)} == {
        event(machine) for machine in machines
    }
    assert temporary_files(tmp_path) == []


def test_a_file_that_has_the_name_already_is_neither_written_nor_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = filed(tmp_path, spooled(tmp_path, "first", "first"))
    assert first is not None
    monkeypatch.setattr(cassette_filer, "token_hex", lambda size: "0" * 2 * size)
    foreign = first.path.parent / ".1-1.00000000.tmp"
    foreign.write_bytes(b"theirs")
    spool = spooled(tmp_path, "second", "second")

    with suppress(SpoolError):  # or it takes another name
        filed(tmp_path, spool)

    assert foreign.read_bytes() == b"theirs"
    kept = [cassette.body for cassette in cassettes(tmp_path)]
    assert kept[0] == event("first")
    assert spool.exists() or kept[1:] == [event("second")]


@pytest.mark.parametrize(
    "name",
    [".mine.0123abcd.tmp", ".1-1-a.0123abcd.tmp", ".1-1.0123abcde.tmp", ".1-1.0123ABCD.tmp",
     "1-1.0123abcd.tmp", ".1-1.0123abcd.tmp.swp"],
)  # fmt: skip
def test_a_file_of_somebody_else_is_never_swept(tmp_path: Path, name: str) -> None:
    left(tmp_path, opening(tmp_path) + body(*PIECES), "1-1")
    folder = tmp_path / "cassettes" / "openai-chat"
    folder.mkdir(parents=True)
    theirs, ours = folder / name, folder / ".1-1.0123abcd.tmp"
    for path in (theirs, ours):
        path.write_bytes(b"half")
        aged(path, 9999)

    swept = list(recovery.recover_spools(Library(tmp_path / "cassettes"), tmp_path / "spool"))

    assert [item.path for item in swept if isinstance(item, recovery.DeletedFile)] == [ours]
    assert theirs.read_bytes() == b"half"
