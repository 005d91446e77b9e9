"""`llm-proxy verify`: whether every cassette can be trusted, and is found where it lies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sample_cassettes
from cli_process import run
from stored_cassettes import chat, key_of, put, says
from terminal import on_terminal

KEY = key_of(chat("hi"))
NAME = f"cassettes/openai-chat/m/{KEY[:16]}-1.jsonl"


async def test_a_good_library_has_no_problems(tmp_path: Path) -> None:
    sample_cassettes.complete(tmp_path)
    sample_cassettes.partial(tmp_path)
    sample_cassettes.unproven(tmp_path)
    sample_cassettes.in_session(tmp_path, "alice")

    ran = await run("verify", folder=tmp_path)

    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "llm-proxy: 4 cassettes checked, all of them whole and consistent\n"


@pytest.mark.parametrize("arguments", [[], ["."]], ids=["no library", "empty folder"])
async def test_nothing_to_verify_is_fine_and_said(tmp_path: Path, arguments: list[str]) -> None:
    ran = await run("verify", *arguments, folder=tmp_path)
    assert (ran.code, ran.out) == (0, "")
    assert "nothing to verify" in ran.err


@pytest.mark.parametrize("command", ["verify", "ls", "stats"])
async def test_a_library_that_somebody_names_must_be_there(tmp_path: Path, command: str) -> None:
    ran = await run(command, "--cassettes", "casettes", folder=tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "llm-proxy: there is no folder casettes: give --cassettes the folder that has the "
        "cassettes, or record some with llm-proxy record\n"
    )

    (tmp_path / "casettes").mkdir()
    assert (await run(command, "--cassettes", "casettes", folder=tmp_path)).code == 0


async def test_a_path_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    ran = await run("verify", "nowhere.jsonl", folder=tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert "there is no file or folder nowhere.jsonl: give paths of cassettes" in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("old", "new", "line", "why"),
    [
        ('"lo"', '"la"', 7, "the messages do not give the SHA-256 of the end line"),
        ('"bytes":131', '"bytes":130', 7, "the messages hold 131 bytes, the end line says 130"),
        ('"at":40,', '"at":10,', 5, "a read is at 10.0 ms"),
        ('"at":20,', '"at":20,"x":1,', 4, "a message is one of data"),
        ('"status":200', '"status":"200"', 3, "response.status must be an integer, and it is text"),
        ('"method":', '"Method":', 2, "request.Method is an unknown field"),
        ('{"cassette":1', '{"cassette":2', 1, "format 2 is newer"),
        ('{"cassette":1', '{"cassette":x', 1, "not JSON"),
        (f'"key":"{KEY[:4]}', '"key":"0000', 1, "the key begins 0000"),
        ('"content":"hi"', '"content":"ho"', 1, "the stored request has key"),
        ('"dialect":"openai-chat"', '"dialect":"telex"', 1, "dialect 'telex' is not one"),
        ('"session":"default"', '"session":"bob"', 1, "session bob lies in the folder of"),
    ],
    ids=[
        "body", "length", "order of reads", "field of a message", "type", "field", "format",
        "JSON", "key", "request", "dialect", "session",
    ],
)  # fmt: skip
async def test_each_problem_is_one_line_with_its_place(
    tmp_path: Path, old: str, new: str, line: int, why: str
) -> None:
    sample_cassettes.rewritten(sample_cassettes.complete(tmp_path), old, new)

    ran = await run("verify", folder=tmp_path)

    assert ran.code == 1
    assert any(row.startswith(f"{NAME}:{line}: {why}") for row in ran.out.splitlines()), ran.out
    assert all(row.startswith(f"{NAME}:") for row in ran.out.splitlines())
    assert ran.complaint.startswith("llm-proxy: 1 cassette checked, ")


async def test_a_file_under_the_wrong_name_is_found(tmp_path: Path) -> None:
    path = sample_cassettes.complete(tmp_path)
    path.rename(path.with_name(f"{'0' * 16}-1.jsonl"))

    ran = await run("verify", folder=tmp_path)

    assert ran.code == 1
    assert f"rename the file to {KEY[:16]}-<take>.jsonl" in ran.out


async def test_a_file_of_another_kind_of_name_is_no_problem(tmp_path: Path) -> None:
    path = sample_cassettes.complete(tmp_path)
    path.rename(path.with_name("greeting.jsonl"))
    assert (await run("verify", folder=tmp_path)).code == 0


async def test_a_file_in_the_folder_of_another_session_is_found(tmp_path: Path) -> None:
    sample_cassettes.in_session(tmp_path, "alice")
    (tmp_path / "cassettes/@alice").rename(tmp_path / "cassettes/@bob")

    for arguments in ([], ["cassettes/@bob"], ["cassettes/@bob/openai-chat"]):
        ran = await run("verify", *arguments, folder=tmp_path)
        assert ran.code == 1
        assert "session alice lies in the folder of session bob" in ran.out


@pytest.mark.parametrize("name", ["../../x", "$(reboot)", "-rf /"])
async def test_a_name_that_is_none_is_no_place_that_a_file_should_go_to(
    tmp_path: Path, name: str
) -> None:
    sample_cassettes.rewritten(
        sample_cassettes.complete(tmp_path), '"session":"default"', f'"session":"{name}"'
    )

    ran = await run("verify", folder=tmp_path)

    assert ran.code == 1
    assert ran.out == (
        f"{NAME}:1: no session can be called {name!r}: line 1 was edited by hand; record it again\n"
    )


async def test_a_folder_elsewhere_is_a_library_of_its_own(tmp_path: Path) -> None:
    sample_cassettes.in_session(tmp_path, "alice")
    (tmp_path / "cassettes").rename(tmp_path / "other")

    for path in ("other", "other/@alice", f"other/@alice/openai-chat/m/{KEY[:16]}-1.jsonl"):
        ran = await run("verify", path, folder=tmp_path)
        assert (ran.code, ran.out) == (0, ""), path
        assert "1 cassette checked" in ran.err


async def test_two_files_of_one_take_are_a_problem(tmp_path: Path) -> None:
    path = sample_cassettes.complete(tmp_path)
    twin = tmp_path / "cassettes" / "zzz" / path.name
    twin.parent.mkdir()
    twin.write_bytes(path.read_bytes())

    ran = await run("verify", folder=tmp_path)

    assert ran.code == 1
    assert ran.out == (
        f"{twin.relative_to(tmp_path)}: the same take as {NAME}: delete one of them\n"
    )


async def test_paths_choose_what_is_checked_and_nothing_is_checked_twice(tmp_path: Path) -> None:
    sample_cassettes.complete(tmp_path)
    sample_cassettes.torn(tmp_path)

    one = await run("verify", NAME, folder=tmp_path)
    both = await run("verify", NAME, "cassettes", str(tmp_path / NAME), folder=tmp_path)

    assert (one.code, one.out) == (0, "")
    assert both.code == 1
    assert both.complaint == "llm-proxy: 2 cassettes checked, 1 problem in 1 of them"


async def test_json_lists_the_problems(tmp_path: Path) -> None:
    put(tmp_path, chat("hi"), says("a"), says("b"))
    sample_cassettes.rewritten(tmp_path / NAME, '"a"', '"x"')

    ran = await run("verify", "--json", folder=tmp_path)

    assert (ran.code, ran.err) == (1, "")
    assert json.loads(ran.out) == {
        "ok": False,
        "checked": 2,
        "keyed_by_other_rules": 0,
        "problems": [
            {
                "file": NAME,
                "line": 6,
                "why": "the messages do not give the SHA-256 of the end line: edited by hand?",
            }
        ],
    }


async def test_a_hostile_file_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = sample_cassettes.complete(tmp_path)
    sample_cassettes.rewritten(path, '{"request":{', '{"request":{"\\u001b]0;owned\\u0007":1,')

    ran = await run("verify", folder=tmp_path)

    assert ran.code == 1
    assert "owned" in ran.out
    assert not {"\x1b", "\x07"} & set(ran.out)


def test_many_files_have_a_progress_bar_that_leaves_nothing_behind(tmp_path: Path) -> None:
    path = sample_cassettes.complete(tmp_path)
    for number in range(200):
        (path.parent / f"{number}.jsonl").write_bytes(path.read_bytes())

    code, text = on_terminal("verify", folder=tmp_path)

    assert code == 0
    assert "reading" in text
    assert text.endswith("llm-proxy: 201 cassettes checked, all of them whole and consistent\r\n")
