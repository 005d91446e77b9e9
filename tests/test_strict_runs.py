"""`--strict`: an unusable cassette fails the run, whatever the application makes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from case_tables import each_row
from cli_process import run_requests
from stored_cassettes import raw_chat_request, text_response, write_cassettes


def truncate_cassette(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def edit_cassette(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"hello", b"hallo"))


def set_newer_version(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'{"cassette":1', b'{"cassette":99', 1))


@each_row("mode", ["replay", "auto"])
@each_row("damage", [truncate_cassette, edit_cassette, set_newer_version])
async def test_a_cassette_that_cannot_be_used_fails_a_strict_run(
    tmp_path: Path, damage: Callable[[Path], None], mode: str
) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("hello"))
    before = path.read_bytes()
    damage(path)
    assert path.read_bytes() != before

    ran, statuses = await run_requests(
        mode, "--strict", folder=tmp_path, requests=[raw_chat_request()]
    )

    assert (ran.exit_code, statuses) == (1, [424])
    assert f"{path.relative_to(tmp_path)}:" in ran.stderr


async def test_it_does_not_fail_a_run_that_is_not_strict(tmp_path: Path) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("hello"))
    truncate_cassette(path)

    ran, statuses = await run_requests("replay", folder=tmp_path, requests=[raw_chat_request()])

    assert (ran.exit_code, statuses) == (0, [424])
    assert f"{path.relative_to(tmp_path)}:" in ran.stderr


async def test_a_strict_run_whose_cassettes_are_sound_is_fine(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("hello"))

    ran, statuses = await run_requests(
        "replay", "--strict", folder=tmp_path, requests=[raw_chat_request()]
    )

    assert (ran.exit_code, statuses) == (0, [200])
