"""`--strict`: a run with a cassette that could not be used fails, whatever the application says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_process import run
from stored_cassettes import chat, put, says

SWALLOWING = """
import os, sys, urllib.error, urllib.request
body = {body!r}
headers = {{"Content-Type": "application/json"}}
asked = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
try:
    urllib.request.urlopen(asked)
except urllib.error.HTTPError as error:
    print(error.code)
"""
"""An application to which every error is as good as an answer."""


def application() -> list[str]:
    body = chat().partition(b"\r\n\r\n")[2]
    return ["--", sys.executable, "-c", SWALLOWING.format(body=body)]


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def edited(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"hello", b"hallo"))


def newer(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'{"cassette":1', b'{"cassette":99', 1))


@pytest.mark.parametrize("mode", ["replay", "auto"])
@pytest.mark.parametrize("spoil", [torn, edited, newer])
async def test_a_cassette_that_cannot_be_used_fails_a_strict_run(
    tmp_path: Path, spoil: Callable[[Path], None], mode: str
) -> None:
    [path] = put(tmp_path, chat(), says("hello"))
    before = path.read_bytes()
    spoil(path)
    assert path.read_bytes() != before

    ran = await run(mode, "--strict", *application(), folder=tmp_path)

    assert (ran.code, ran.out) == (1, "424\n")
    assert f"{path.relative_to(tmp_path)}:" in ran.err


async def test_it_does_not_fail_a_run_that_is_not_strict(tmp_path: Path) -> None:
    [path] = put(tmp_path, chat(), says("hello"))
    torn(path)

    ran = await run("replay", *application(), folder=tmp_path)

    assert (ran.code, ran.out) == (0, "424\n")
    assert f"{path.relative_to(tmp_path)}:" in ran.err


async def test_a_strict_run_whose_cassettes_are_sound_is_fine(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("hello"))

    ran = await run("replay", "--strict", *application(), folder=tmp_path)

    assert (ran.code, ran.out) == (0, "")
