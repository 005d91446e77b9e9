"""Spool files: their location, their locks, and those that a crash left behind."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from pathlib import Path

import pytest

from llm_proxy.errors import CassetteError, SpoolError
from llm_proxy.shell.recording.spooling import (
    SpoolFile,
    abandoned_spools,
    all_spools,
    claim_file,
    is_for_library,
    open_spool,
)
from spool_files import EVENTS, encode_body, encode_opening, make_older, write_spool

NAME = "7-1-0123456789abcdef.spool"


def test_a_spool_is_its_owners_alone(tmp_path: Path) -> None:
    file = SpoolFile(tmp_path / "state" / "spool", NAME)
    file.append(b"secret\n")
    file.close_and_keep()

    assert file.path.read_bytes() == b"secret\n"
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700


def test_a_spool_is_abandoned_once_its_recorder_lets_go(tmp_path: Path) -> None:
    file = SpoolFile(tmp_path, NAME)
    assert abandoned_spools(tmp_path) == []
    file.close_and_keep()
    assert abandoned_spools(tmp_path) == [file.path]


def test_a_discarded_spool_is_gone(tmp_path: Path) -> None:
    file = SpoolFile(tmp_path, NAME)
    file.discard()
    assert all_spools(tmp_path) == []


def test_a_reused_process_id_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"what a crash left behind\n")
    files = [SpoolFile(tmp_path, NAME), SpoolFile(tmp_path, NAME)]
    for file in files:
        file.append(b"mine\n")
        file.close_and_keep()

    assert (tmp_path / NAME).read_bytes() == b"what a crash left behind\n"
    assert [file.path.name for file in files] == [
        "7-1-0123456789abcdef.2.spool",
        "7-1-0123456789abcdef.3.spool",
    ]


def test_a_spool_that_is_deleted_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original_flock = fcntl.flock
    deleted: list[Path] = []

    def delete_before_locking(fd: int, operation: int) -> None:
        if not deleted:
            deleted.append(tmp_path / NAME)
            (tmp_path / NAME).unlink()
        original_flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", delete_before_locking)
    file = SpoolFile(tmp_path, NAME)
    file.append(b"kept\n")
    file.close_and_keep()

    assert deleted == [tmp_path / NAME]
    assert file.path.read_bytes() == b"kept\n"


def test_what_is_abandoned_comes_oldest_first(tmp_path: Path) -> None:
    paths = [write_spool(tmp_path, b"", f"1-{number}-0123456789abcdef") for number in range(3)]
    make_older(paths[1], 20)
    make_older(paths[2], 10)
    assert abandoned_spools(tmp_path / "spool") == [paths[1], paths[2], paths[0]]


def test_no_folder_holds_no_spools(tmp_path: Path) -> None:
    assert all_spools(tmp_path / "nowhere") == []
    assert abandoned_spools(tmp_path / "nowhere") == []


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SpoolError, match=r"cannot read .*file: Not a directory"):
        abandoned_spools(tmp_path / "file")
    with pytest.raises(SpoolError, match=f"cannot create .*{NAME}: "):
        SpoolFile(tmp_path / "file", NAME)


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    file = SpoolFile(tmp_path, NAME)
    os.close(file._fd)
    file._fd = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(SpoolError, match=r"cannot write .*: No space left on device"):
        file.append(b"x")
    file.close_and_keep()


def test_only_one_claims_a_spool(tmp_path: Path) -> None:
    path = write_spool(tmp_path, b"")
    with claim_file(path) as first, claim_file(path) as second:
        assert (first, second) == (True, False)
    with claim_file(path) as is_claimed_again:
        assert is_claimed_again


def test_a_link_or_a_file_that_is_gone_is_not_claimed(tmp_path: Path) -> None:
    path = write_spool(tmp_path, b"")
    link = tmp_path / "spool" / "link.spool"
    link.symlink_to(path)
    for candidate in (link, tmp_path / "gone.spool"):
        with claim_file(candidate) as is_claimed:
            assert not is_claimed


def test_a_recorder_waits_for_a_process_that_has_claimed_its_new_spool(tmp_path: Path) -> None:
    created_spools: list[SpoolFile] = []
    thread = threading.Thread(target=lambda: created_spools.append(SpoolFile(tmp_path, NAME)))
    path = tmp_path / NAME
    path.touch()
    with claim_file(path) as is_claimed:
        assert is_claimed
        path.unlink()
        thread.start()
        thread.join(10)
    assert [file.path for file in created_spools] == [path]
    created_spools[0].close_and_keep()


def test_a_spool_belongs_to_its_library_however_the_folder_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cassettes").mkdir()
    (tmp_path / "link").symlink_to("cassettes")
    monkeypatch.chdir(tmp_path)
    with open_spool(
        write_spool(tmp_path, encode_opening(tmp_path) + encode_body(*EVENTS))
    ) as spooled:
        for spelling in ("cassettes", "./x/../cassettes", "link", tmp_path / "cassettes"):
            assert is_for_library(spooled, Path(spelling)), spelling
        assert not is_for_library(spooled, Path("other"))


def test_a_spool_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = write_spool(
        tmp_path,
        encode_opening(tmp_path).replace(b'"spool":1', b'"spool":2') + encode_body(*EVENTS),
    )
    with pytest.raises(CassetteError, match="invalid spool line: "):
        with open_spool(path):
            pass
