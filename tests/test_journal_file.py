"""`--journal FILE`: a run writes its journal to a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from signal import SIGINT

import pytest

from case_tables import each_row
from cli_process import run_command, running_server
from llm_proxy.errors import LlmProxyError
from llm_proxy.providers import DUMMY_API_KEY
from llm_proxy.shell.running.end_of_run import write_journal
from llm_proxy.shell.running.settings import check_journal_path
from raw_http import build_http_request, send_request
from stored_cassettes import raw_chat_request, text_response, write_cassettes

CLIENT_SCRIPT = """
import os, urllib.request
body = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
urllib.request.urlopen(urllib.request.Request(url, body, headers)).read()
raise SystemExit(7)
"""


async def test_a_stopped_run_writes_the_journal_that_its_page_served(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("hello"))
    options = ("--pace", "instant", "--journal", "run.json")
    async with running_server("replay", *options, folder=tmp_path) as server:
        for request in (raw_chat_request(), raw_chat_request("missing")):
            await send_request(server.url, request)
        page = (
            await send_request(server.url, build_http_request("/_proxy/journal", b"", method="GET"))
        ).body
        server.send(SIGINT)
        result = await server.wait_for_end()

    assert result.exit_code == 0
    assert (tmp_path / "run.json").read_bytes() == page
    assert [entry["status"] for entry in json.loads(page)["entries"]] == [200, 424]


async def test_a_run_whose_command_ends_writes_the_journal_and_keeps_its_exit_code(
    tmp_path: Path,
) -> None:
    command = ("--", sys.executable, "-c", CLIENT_SCRIPT)
    ran = await run_command("simulate", "--journal", "run.json", *command, folder=tmp_path)

    journal = (tmp_path / "run.json").read_text()
    assert ran.exit_code == 7
    assert [entry["path"] for entry in json.loads(journal)["entries"]] == ["/v1/chat/completions"]
    assert DUMMY_API_KEY not in journal


async def test_a_journal_holds_no_secret(tmp_path: Path) -> None:
    key = "sk-canary-0123456789abcdefghijklmnop"
    missing = raw_chat_request(
        "missing", f"Authorization: Bearer {key}", path=f"/v1/chat/completions?key={key}"
    )
    unknown_path = build_http_request(f"/v1/unknown/{key}", b"", f"x-api-key: {key}")
    foreign_host = build_http_request(
        f"/v1/unknown/{key}", b"", "Host: evil.example", f"x-api-key: {key}"
    )
    absolute_target = build_http_request(
        f"http://me:{key}@evil.example/x?key={key}", b"", method="GET"
    )
    secret_in_target = build_http_request(
        f"http://evil.example/{key}", b"", f"Authorization: Bearer {key}", method="GET"
    )
    invalid_session = build_http_request(f"/@{key}!/v1/x", b"", f"x-api-key: {key}")
    async with running_server("replay", "--journal", "run.json", folder=tmp_path) as server:
        for request in (
            missing,
            unknown_path,
            foreign_host,
            absolute_target,
            secret_in_target,
            invalid_session,
        ):
            await send_request(server.url, request)
        server.send(SIGINT)
        await server.wait_for_end()

    journal = (tmp_path / "run.json").read_text()
    assert len(json.loads(journal)["entries"]) == 6
    assert key not in journal
    assert "'http://evil.example/x' is not a path" in journal


@each_row(
    ("path", "why"),
    [
        ("no/run.json", "no such folder: {}/no"),
        ("there", "is a folder; name a file"),
        ("/dev/null", "is not a regular file"),
    ],
)
async def test_an_invalid_journal_path_is_reported_before_anything_runs(
    tmp_path: Path, path: str, why: str
) -> None:
    (tmp_path / "there").mkdir(exist_ok=True)
    command = ("--", "echo", "ran")
    ran = await run_command("replay", "--journal", path, *command, folder=tmp_path)

    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"llm-proxy: error: --journal {path}")
    assert why.format(tmp_path) in ran.stderr


async def test_a_folder_that_goes_away_meanwhile_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    command = ("--", "rmdir", "there")
    ran = await run_command("simulate", "--journal", "there/run.json", *command, folder=tmp_path)

    assert ran.exit_code == 1
    assert "cannot write --journal there/run.json: No such file or directory" in ran.stderr


def test_an_older_journal_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("older" * 1000)
    write_journal(path, {"requests": 0, "entries": []})
    assert path.read_bytes() == b'{"requests":0,"entries":[]}\n'
    assert list(tmp_path.iterdir()) == [tmp_path / "run.json"]


def test_a_link_to_a_journal_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "run.json"
    link.symlink_to("there/latest.json")
    check_journal_path(link)
    write_journal(link, {"requests": 0})
    assert link.is_symlink()
    assert (tmp_path / "there" / "latest.json").read_bytes() == b'{"requests":0}\n'


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    (tmp_path / "run.json" / "full").touch()
    with pytest.raises(LlmProxyError, match="cannot write"):
        write_journal(tmp_path / "run.json", {})
    assert list(tmp_path.iterdir()) == [tmp_path / "run.json"]
