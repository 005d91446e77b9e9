"""`--journal FILE`: what was asked and answered is left behind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from signal import SIGINT

import pytest

from cli_process import run, serving
from llm_proxy.errors import LlmProxyError
from llm_proxy.shell.running import journal_file
from llm_proxy.shell.running.environment import DUMMY_KEY
from raw_http import ask, post
from stored_cassettes import chat, put, says

ASKS = """
import os, urllib.request
body = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
urllib.request.urlopen(urllib.request.Request(url, body, headers)).read()
raise SystemExit(7)
"""


async def test_a_run_that_is_stopped_leaves_what_its_page_gave(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("hello"))
    options = ("--pace", "instant", "--journal", "run.json")
    async with serving("replay", *options, folder=tmp_path) as it:
        for request in (chat(), chat("missing")):
            await ask(it.url, request)
        page = (await ask(it.url, post("/_proxy/journal", b"", method="GET"))).body
        it.send(SIGINT)
        ended = await it.ended()

    assert ended.code == 0
    assert (tmp_path / "run.json").read_bytes() == page
    assert [entry["status"] for entry in json.loads(page)["entries"]] == [200, 424]


async def test_a_run_whose_command_ends_leaves_it_too_and_gives_its_exit_code(
    tmp_path: Path,
) -> None:
    command = ("--", sys.executable, "-c", ASKS)
    ran = await run("simulate", "--journal", "run.json", *command, folder=tmp_path)

    journal = (tmp_path / "run.json").read_text()
    assert ran.code == 7
    assert [entry["path"] for entry in json.loads(journal)["entries"]] == ["/v1/chat/completions"]
    assert DUMMY_KEY not in journal


async def test_a_journal_holds_no_secret(tmp_path: Path) -> None:
    key = "sk-canary-0123456789abcdefghijklmnop"
    asked = chat("missing", f"Authorization: Bearer {key}", path=f"/v1/chat/completions?key={key}")
    odd = post(f"/v1/unknown/{key}", b"", f"x-api-key: {key}")
    foreign = post(f"/v1/unknown/{key}", b"", "Host: evil.example", f"x-api-key: {key}")
    absolute = post(f"http://me:{key}@evil.example/x?key={key}", b"", method="GET")
    echoed = post(f"http://evil.example/{key}", b"", f"Authorization: Bearer {key}", method="GET")
    session = post(f"/@{key}!/v1/x", b"", f"x-api-key: {key}")
    async with serving("replay", "--journal", "run.json", folder=tmp_path) as it:
        for request in (asked, odd, foreign, absolute, echoed, session):
            await ask(it.url, request)
        it.send(SIGINT)
        await it.ended()

    journal = (tmp_path / "run.json").read_text()
    assert len(json.loads(journal)["entries"]) == 6
    assert key not in journal
    assert "'http://evil.example/x' is no path" in journal


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("no/run.json", "there is no folder {}/no; make it, or name another"),
        ("there", "is a folder: name a file in it"),
        ("/dev/null", "is a device or the like: name a plain file"),
    ],
)
async def test_a_place_that_is_none_is_told_before_anything_runs(
    tmp_path: Path, path: str, why: str
) -> None:
    (tmp_path / "there").mkdir()
    command = ("--", sys.executable, "-c", "print('ran')")
    ran = await run("replay", "--journal", path, *command, folder=tmp_path)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"llm-proxy: --journal {path}")
    assert why.format(tmp_path) in ran.err


async def test_a_folder_that_goes_away_meanwhile_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    command = ("--", sys.executable, "-c", "import os; os.rmdir('there')")
    ran = await run("simulate", "--journal", "there/run.json", *command, folder=tmp_path)

    assert ran.code == 1
    assert "--journal there/run.json cannot be written: No such file or directory" in ran.err


def test_an_older_journal_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("older" * 1000)
    journal_file.write_journal(path, {"requests": 0, "entries": []})
    assert path.read_bytes() == b'{"requests":0,"entries":[]}\n'
    assert list(tmp_path.iterdir()) == [tmp_path / "run.json"]


def test_a_link_to_a_journal_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "run.json"
    link.symlink_to("there/latest.json")
    journal_file.check_writable(link)
    journal_file.write_journal(link, {"requests": 0})
    assert link.is_symlink()
    assert (tmp_path / "there" / "latest.json").read_bytes() == b'{"requests":0}\n'


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    (tmp_path / "run.json" / "full").touch()
    with pytest.raises(LlmProxyError, match="cannot be written"):
        journal_file.write_journal(tmp_path / "run.json", {})
    assert list(tmp_path.iterdir()) == [tmp_path / "run.json"]
