"""Spool files: where they lie, who holds them, and what a crash left behind."""

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
    belongs_to,
    claim_spool,
    open_spool,
)
from spool_files import PIECES, aged, body, left, opening

NAME = "7-1-0123456789abcdef.spool"


def test_a_spool_is_its_owners_alone(tmp_path: Path) -> None:
    file = SpoolFile(tmp_path / "state" / "spool", NAME)
    file.append(b"secret\n")
    file.release()

    assert file.path.read_bytes() == b"secret\n"
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700


def test_a_spool_is_abandoned_once_its_recorder_lets_go(tmp_path: Path) -> None:
    file = SpoolFile(tmp_path, NAME)
    assert abandoned_spools(tmp_path) == []
    file.release()
    assert abandoned_spools(tmp_path) == [file.path]


def test_a_discarded_spool_is_gone(tmp_path: Path) -> None:
    file = SpoolFile(tmp_path, NAME)
    file.discard()
    assert all_spools(tmp_path) == []


def test_a_process_id_that_comes_again_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"what a crash left behind\n")
    files = [SpoolFile(tmp_path, NAME), SpoolFile(tmp_path, NAME)]
    for file in files:
        file.append(b"mine\n")
        file.release()

    assert (tmp_path / NAME).read_bytes() == b"what a crash left behind\n"
    assert [file.path.name for file in files] == [
        "7-1-0123456789abcdef.2.spool",
        "7-1-0123456789abcdef.3.spool",
    ]


def test_a_spool_that_is_deleted_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    deleted: list[Path] = []

    def recover_in_between(fd: int, how: int) -> None:
        if not deleted:
            deleted.append(tmp_path / NAME)
            (tmp_path / NAME).unlink()
        lock(fd, how)

    monkeypatch.setattr(fcntl, "flock", recover_in_between)
    file = SpoolFile(tmp_path, NAME)
    file.append(b"kept\n")
    file.release()

    assert deleted == [tmp_path / NAME]
    assert file.path.read_bytes() == b"kept\n"


def test_what_is_abandoned_comes_oldest_first(tmp_path: Path) -> None:
    paths = [left(tmp_path, b"", f"1-{number}-0123456789abcdef") for number in range(3)]
    aged(paths[1], 20)
    aged(paths[2], 10)
    assert abandoned_spools(tmp_path / "spool") == [paths[1], paths[2], paths[0]]


def test_no_folder_holds_no_spools(tmp_path: Path) -> None:
    assert all_spools(tmp_path / "nowhere") == []
    assert abandoned_spools(tmp_path / "nowhere") == []


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SpoolError, match="file cannot be read: Not a directory"):
        abandoned_spools(tmp_path / "file")
    with pytest.raises(SpoolError, match=f"{NAME} cannot be made: "):
        SpoolFile(tmp_path / "file", NAME)


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    file = SpoolFile(tmp_path, NAME)
    os.close(file._fd)
    file._fd = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(SpoolError, match="cannot be written: No space left on device"):
        file.append(b"x")
    file.release()


def test_only_one_claims_a_spool(tmp_path: Path) -> None:
    path = left(tmp_path, b"")
    with claim_spool(path) as first, claim_spool(path) as second:
        assert (first, second) == (True, False)
    with claim_spool(path) as again:
        assert again


def test_a_link_or_a_file_that_is_gone_is_not_claimed(tmp_path: Path) -> None:
    path = left(tmp_path, b"")
    link = tmp_path / "spool" / "link.spool"
    link.symlink_to(path)
    for each in (link, tmp_path / "gone.spool"):
        with claim_spool(each) as mine:
            assert not mine


def test_a_recorder_waits_for_whoever_looks_at_its_new_spool(tmp_path: Path) -> None:
    made: list[SpoolFile] = []
    maker = threading.Thread(target=lambda: made.append(SpoolFile(tmp_path, NAME)))
    path = tmp_path / NAME
    path.touch()
    with claim_spool(path) as mine:
        assert mine
        path.unlink()
        maker.start()
        maker.join(10)
    assert [file.path for file in made] == [path]
    made[0].release()


def test_a_spool_belongs_to_its_library_however_the_folder_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cassettes").mkdir()
    (tmp_path / "link").symlink_to("cassettes")
    monkeypatch.chdir(tmp_path)
    with open_spool(left(tmp_path, opening(tmp_path) + body(*PIECES))) as spooled:
        for spelling in ("cassettes", "./x/../cassettes", "link", tmp_path / "cassettes"):
            assert belongs_to(spooled, Path(spelling)), spelling
        assert not belongs_to(spooled, Path("other"))


def test_a_spool_of_a_newer_form_is_refused(tmp_path: Path) -> None:
    path = left(tmp_path, opening(tmp_path).replace(b'"spool":1', b'"spool":2') + body(*PIECES))
    with pytest.raises(CassetteError, match="not a spool's line: "):
        with open_spool(path):
            pass
