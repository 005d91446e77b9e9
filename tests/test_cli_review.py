"""`llm-proxy show --review`: compares two takes of one request through `git diff`."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sample_cassettes
from cli_process import environment, run_command
from stored_cassettes import (
    DONE_EVENT,
    StoredResponse,
    chat_event,
    raw_chat_request,
    text_response,
    write_cassettes,
)

ROOT = Path(__file__).parents[1]
GIT = shutil.which("git") or ""


async def show_review(folder: Path, path: Path, **env: str) -> str:
    result = await run_command("show", "--review", str(path), folder=folder, env=env)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


async def test_it_shows_request_and_response_without_times(tmp_path: Path) -> None:
    text = await show_review(
        tmp_path, sample_cassettes.write_complete(tmp_path, "Hel", "lo", content="Say hello.")
    )
    assert '                  "content": "Say hello."\n' in text
    assert "\ntext        Hello\n" in text
    assert "\nending      clean, 131 bytes in 3 messages\n" in text
    assert " ms" not in text


async def test_where_a_file_lies_and_when_its_bytes_came_makes_no_difference(
    tmp_path: Path,
) -> None:
    [quick] = write_cassettes(tmp_path, raw_chat_request(), text_response("a", "b"))
    [slow] = write_cassettes(
        tmp_path / "elsewhere", raw_chat_request(), text_response("a", "b", gap=40)
    )
    assert quick.read_bytes() != slow.read_bytes()
    assert await show_review(tmp_path, quick) == await show_review(tmp_path / "elsewhere", slow)


async def test_the_environment_makes_no_difference(tmp_path: Path) -> None:
    path = sample_cassettes.write_complete(tmp_path, "a" * 500)
    for env in ({"COLUMNS": "40"}, {"TERM": "dumb"}, {"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}):
        assert await show_review(tmp_path, path, **env) == await show_review(tmp_path, path)


async def test_what_no_dialect_reads_is_shown_as_it_was(tmp_path: Path) -> None:
    text = await show_review(tmp_path, sample_cassettes.write_unproven(tmp_path))
    assert "none: this response cannot be decoded as opaque" in text
    assert "\ntext\n" in text


async def test_a_request_that_is_no_json_is_shown_as_text(tmp_path: Path) -> None:
    request = (
        raw_chat_request()
        .replace(b"application/json", b"text/plain")
        .replace(b'{"model"', b'["model"')
    )
    [path] = write_cassettes(
        tmp_path, request, StoredResponse(((1.0, chat_event("a")), (2.0, DONE_EVENT)))
    )
    assert '            ["model":"m"' in await show_review(tmp_path, path)


async def test_a_file_that_is_no_cassette_is_shown_with_the_reason(tmp_path: Path) -> None:
    path = sample_cassettes.write_truncated(tmp_path)
    text = await show_review(tmp_path, path)
    first, *lines = text.splitlines()
    assert first == "unreadable: line 7: the file is truncated: the last line is incomplete"
    assert len(lines) == 7
    assert json.loads(lines[0])["cassette"] == 1


async def test_nothing_steers_a_terminal(tmp_path: Path) -> None:
    path = sample_cassettes.write_complete(tmp_path)
    path.write_bytes(b"\x1b]0;owned\x07\n\xff\r\x9b\n")
    text = await show_review(tmp_path, path)
    assert "owned" in text
    assert not {"\x1b", "\x07", "\r", "\x9b"} & set(text)


def run_git(folder: Path, *arguments: str) -> str:
    """The output of git, with only the settings of the folder."""
    identity = {f"GIT_{role}_{field}": "a@b.example" for role in ("AUTHOR", "COMMITTER")
           for field in ("NAME", "EMAIL")}  # fmt: skip
    env = environment(
        folder, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", **identity
    )
    result = subprocess.run(
        [GIT, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=True
    )
    return result.stdout


@pytest.mark.skipif(not GIT, reason="there is no git here")
def test_git_compares_two_takes_by_what_they_say(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "cassette-format.md").read_text("utf-8")
    attributes, config = page.split("## Review in git", 1)[1].split("```")[1].strip().splitlines()
    show = config.split(None, 3)[3].strip("'").removeprefix("llm-proxy ")
    subprocess.run(["/bin/sh", "-c", attributes], cwd=tmp_path, check=True)
    run_git(tmp_path, "init", "--quiet")
    command = f"{shlex.quote(sys.executable)} -m llm_proxy {show}"
    run_git(tmp_path, "config", config.split()[2], command)
    write_cassettes(tmp_path, raw_chat_request(), text_response("Rhine, ", "Elbe", gap=10))
    run_git(tmp_path, "add", ".gitattributes", "cassettes")
    run_git(tmp_path, "commit", "--quiet", "--message", "a take")
    write_cassettes(tmp_path, raw_chat_request(), text_response("Rhine, ", "Oder", gap=11))

    changed = [
        line for line in run_git(tmp_path, "diff").splitlines()
        if line[:1] in "+-" and line[:3] not in {"+++", "---"}
    ]  # fmt: skip

    assert changed[:2] == ["-text        Rhine, Elbe", "+text        Rhine, Oder"]
    assert [line[:7] for line in changed[2:]] == ["-sha256", "+sha256"]
