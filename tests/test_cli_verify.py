"""`llm-proxy verify`: whether every cassette is intact and is stored in the right place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sample_cassettes
from case_tables import each_row
from cli_process import run_command
from stored_cassettes import key_of_request, raw_chat_request, text_response, write_cassettes
from terminal import run_on_terminal

KEY = key_of_request(raw_chat_request("hi"))
NAME = f"cassettes/openai-chat/m/{KEY[:16]}-1.jsonl"


async def test_a_good_library_has_no_problems(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)
    sample_cassettes.write_partial(tmp_path)
    sample_cassettes.write_unproven(tmp_path)
    sample_cassettes.write_in_session(tmp_path, "alice")

    result = await run_command("verify", folder=tmp_path)

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "llm-proxy: 4 cassettes checked, no problems\n"


@pytest.mark.parametrize("arguments", [[], ["."]], ids=["no library", "empty folder"])
async def test_nothing_to_verify_is_fine_and_reported(tmp_path: Path, arguments: list[str]) -> None:
    result = await run_command("verify", *arguments, folder=tmp_path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "record some with llm-proxy record" in result.stderr


@each_row("command", ["verify", "ls", "stats"])
async def test_a_named_library_must_exist(tmp_path: Path, command: str) -> None:
    result = await run_command(command, "--cassettes", "casettes", folder=tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "llm-proxy: error: no such folder: casettes (set --cassettes)\n"

    (tmp_path / "casettes").mkdir()
    assert (await run_command(command, "--cassettes", "casettes", folder=tmp_path)).exit_code == 0
    (tmp_path / "casettes").rmdir()


async def test_a_path_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    result = await run_command("verify", "nowhere.jsonl", folder=tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no such file or folder: nowhere.jsonl (omit PATHS" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@each_row(
    ("old", "new", "line", "reason"),
    [
        ('"lo"', '"la"', 7, 'the SHA-256 hash of the messages does not match "sha256"'),
        ('"bytes":131', '"bytes":130', 7, 'the messages have 131 bytes in total'),
        ('"at":40,', '"at":10,', 5, 'the time 10.0 ms in "at" is earlier than the previous read'),
        ('"at":20,', '"at":20,"x":1,', 4, "wrong fields: a message needs exactly one of"),
        ('"status":200', '"status":"200"', 3, "response.status: expected an integer, got a string"),
        ('"method":', '"Method":', 2, "request.Method is an unknown field"),
        ('{"cassette":1', '{"cassette":2', 1, "cassette format 2 is not supported"),
        ('{"cassette":1', '{"cassette":x', 1, "invalid JSON"),
        (f'"key":"{KEY[:4]}', '"key":"0000', 1, "the key starts with 0000"),
        ('"content":"hi"', '"content":"ho"', 1, "the key of the stored request is"),
        ('"dialect":"openai-chat"', '"dialect":"telex"', 1, "the dialect 'telex' is not supported"),
        ('"session":"default"', '"session":"bob"', 1, "the session in line 1 is bob, but"),
    ],
    ids=[
        "body", "length", "order of reads", "field of a message", "type", "field", "format",
        "JSON", "key", "request", "dialect", "session",
    ],
)  # fmt: skip
async def test_each_problem_is_one_line_with_its_place(
    tmp_path: Path, old: str, new: str, line: int, reason: str
) -> None:
    sample_cassettes.replace_in_file(sample_cassettes.write_complete(tmp_path), old, new)

    result = await run_command("verify", folder=tmp_path)

    assert result.exit_code == 1
    assert any(row.startswith(f"{NAME}:{line}: {reason}") for row in result.stdout.splitlines()), (
        result.stdout
    )
    assert all(row.startswith(f"{NAME}:") for row in result.stdout.splitlines())
    assert result.last_error_line.startswith("llm-proxy: 1 cassette checked, ")


async def test_a_file_under_the_wrong_name_is_found(tmp_path: Path) -> None:
    path = sample_cassettes.write_complete(tmp_path)
    path.rename(path.with_name(f"{'0' * 16}-1.jsonl"))

    result = await run_command("verify", folder=tmp_path)

    assert result.exit_code == 1
    assert f"rename the file to {KEY[:16]}-<take>.jsonl" in result.stdout


async def test_a_file_of_another_kind_of_name_is_no_problem(tmp_path: Path) -> None:
    path = sample_cassettes.write_complete(tmp_path)
    path.rename(path.with_name("greeting.jsonl"))
    assert (await run_command("verify", folder=tmp_path)).exit_code == 0


async def test_a_file_in_the_folder_of_another_session_is_found(tmp_path: Path) -> None:
    sample_cassettes.write_in_session(tmp_path, "alice")
    (tmp_path / "cassettes/@alice").rename(tmp_path / "cassettes/@bob")

    for arguments in ([], ["cassettes/@bob"], ["cassettes/@bob/openai-chat"]):
        result = await run_command("verify", *arguments, folder=tmp_path)
        assert result.exit_code == 1
        assert (
            "the session in line 1 is alice, but the file is in the folder of session bob"
            in result.stdout
        )


@each_row("name", ["../../x", "$(reboot)", "-rf /"])
async def test_an_invalid_session_name_gives_no_folder_advice(tmp_path: Path, name: str) -> None:
    sample_cassettes.replace_in_file(
        sample_cassettes.write_complete(tmp_path), '"session":"default"', f'"session":"{name}"'
    )

    result = await run_command("verify", folder=tmp_path)

    assert result.exit_code == 1
    assert result.stdout == (
        f"{NAME}:1: {name!r} is not a valid session name; record the cassette again\n"
    )


async def test_a_folder_elsewhere_is_a_library_of_its_own(tmp_path: Path) -> None:
    sample_cassettes.write_in_session(tmp_path, "alice")
    (tmp_path / "cassettes").rename(tmp_path / "other")

    for path in ("other", "other/@alice", f"other/@alice/openai-chat/m/{KEY[:16]}-1.jsonl"):
        result = await run_command("verify", path, folder=tmp_path)
        assert (result.exit_code, result.stdout) == (0, ""), path
        assert "1 cassette checked" in result.stderr


async def test_two_files_of_one_take_are_a_problem(tmp_path: Path) -> None:
    path = sample_cassettes.write_complete(tmp_path)
    duplicate = tmp_path / "cassettes" / "zzz" / path.name
    duplicate.parent.mkdir()
    duplicate.write_bytes(path.read_bytes())

    result = await run_command("verify", folder=tmp_path)

    assert result.exit_code == 1
    assert result.stdout == (
        f"{duplicate.relative_to(tmp_path)}: this file has the same key and take number as {NAME}; "
        "delete one of the two files\n"
    )


async def test_paths_choose_what_is_checked_and_nothing_is_checked_twice(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)
    sample_cassettes.write_truncated(tmp_path)

    single = await run_command("verify", NAME, folder=tmp_path)
    overlapping = await run_command(
        "verify", NAME, "cassettes", str(tmp_path / NAME), folder=tmp_path
    )

    assert (single.exit_code, single.stdout) == (0, "")
    assert overlapping.exit_code == 1
    assert overlapping.last_error_line == "llm-proxy: 2 cassettes checked, 1 problem in 1 file"


async def test_json_lists_the_problems(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request("hi"), text_response("a"), text_response("b"))
    sample_cassettes.replace_in_file(tmp_path / NAME, '"a"', '"x"')

    result = await run_command("verify", "--json", folder=tmp_path)

    assert (result.exit_code, result.stderr) == (1, "")
    assert json.loads(result.stdout) == {
        "ok": False,
        "checked": 2,
        "keyed_by_other_rules": 0,
        "problems": [
            {
                "file": NAME,
                "line": 6,
                "reason": (
                    'the SHA-256 hash of the messages does not match "sha256" in the last line; '
                    "the file was edited or damaged"
                ),
            }
        ],
    }


async def test_a_hostile_file_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = sample_cassettes.write_complete(tmp_path)
    sample_cassettes.replace_in_file(
        path, '{"request":{', '{"request":{"\\u001b]0;owned\\u0007":1,'
    )

    result = await run_command("verify", folder=tmp_path)

    assert result.exit_code == 1
    assert "owned" in result.stdout
    assert not {"\x1b", "\x07"} & set(result.stdout)


def test_many_files_have_a_progress_bar_that_leaves_nothing_behind(tmp_path: Path) -> None:
    path = sample_cassettes.write_complete(tmp_path)
    for number in range(200):
        (path.parent / f"{number}.jsonl").write_bytes(path.read_bytes())

    code, text = run_on_terminal("verify", folder=tmp_path)

    assert code == 0
    assert "Reading cassettes" in text
    assert text.endswith("llm-proxy: 201 cassettes checked, no problems\r\n")
