"""`--strict`: an unusable cassette fails the run, even if the application succeeds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_process import run_command
from stored_cassettes import raw_chat_request, text_response, write_cassettes

ERROR_IGNORING_PROGRAM = """
import os, sys, urllib.error, urllib.request
body = {body!r}
headers = {{"Content-Type": "application/json"}}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
try:
    urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    print(error.code)
"""
"""An application that ignores errors."""


def application() -> list[str]:
    body = raw_chat_request().partition(b"\r\n\r\n")[2]
    return ["--", sys.executable, "-c", ERROR_IGNORING_PROGRAM.format(body=body)]


def truncate_cassette(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def edit_cassette(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"hello", b"hallo"))


def set_newer_version(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'{"cassette":1', b'{"cassette":99', 1))


@pytest.mark.parametrize("mode", ["replay", "auto"])
@pytest.mark.parametrize("damage", [truncate_cassette, edit_cassette, set_newer_version])
async def test_a_cassette_that_cannot_be_used_fails_a_strict_run(
    tmp_path: Path, damage: Callable[[Path], None], mode: str
) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("hello"))
    before = path.read_bytes()
    damage(path)
    assert path.read_bytes() != before

    ran = await run_command(mode, "--strict", *application(), folder=tmp_path)

    assert (ran.exit_code, ran.stdout) == (1, "424\n")
    assert f"{path.relative_to(tmp_path)}:" in ran.stderr


async def test_it_does_not_fail_a_run_that_is_not_strict(tmp_path: Path) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("hello"))
    truncate_cassette(path)

    ran = await run_command("replay", *application(), folder=tmp_path)

    assert (ran.exit_code, ran.stdout) == (0, "424\n")
    assert f"{path.relative_to(tmp_path)}:" in ran.stderr


async def test_a_strict_run_whose_cassettes_are_sound_is_fine(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("hello"))

    ran = await run_command("replay", "--strict", *application(), folder=tmp_path)

    assert (ran.exit_code, ran.stdout) == (0, "")
