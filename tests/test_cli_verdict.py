"""`llm-proxy verdict` and `llm-proxy report`, on files and on proxies that run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGTERM
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
from aiohttp import web

from cli_process import run, serving
from journal_documents import Entry, document, entry, fault, refused
from llm_proxy.faults.fault_record import FaultEffect
from raw_http import ask
from scenario_server import says, script, write
from stored_cassettes import chat

EARLY: Final = (refused(1, 1200.0, 429, retry_after_ms=2000.0), entry(2, 1500.0))
NOTED: Final = (entry(1, 0, fault(FaultEffect.FAILED, 5, event=2)),)
ALONE: Final = {"LLM_PROXY_URL": "http://127.0.0.1:1"}


def left(folder: Path, *entries: Entry, **fields: Any) -> str:
    """A journal's file."""
    (folder / "run.json").write_bytes(document(*entries, **fields))
    return "run.json"


async def test_a_finding_is_told_with_its_evidence_and_what_to_do(tmp_path: Path) -> None:
    ran = await run("verdict", left(tmp_path, *EARLY), folder=tmp_path)

    assert ran.code == 1
    assert ran.out.splitlines() == [
        ("error    too-soon: asked again too soon, once: after 290 ms, where it was told to wait "
        "2.0 s"),
        "  POST /v1/chat/completions, session default, m",
        ("  #1 at 1.2 s: HTTP 429, told to wait 2.0 s (fault a rule, refused); asked again 290 ms "
        "later (#2)"),
        ("  What to do: wait for the time in retry-after-ms or Retry-After before asking again; "
        "the SDKs of OpenAI and Anthropic do where their retries are left on."),
    ]  # fmt: skip
    assert ran.err == "llm-proxy: 1 fault met by 1 request of 1 session: 1 error\n"


async def test_a_client_that_behaves_gives_no_finding(tmp_path: Path) -> None:
    path = left(tmp_path, refused(1), entry(2, 500))
    ran = await run("verdict", path, folder=tmp_path)
    words = "1 fault met by 1 request of 1 session: nothing to find fault with"
    assert (ran.code, ran.out, ran.err) == (0, "", f"llm-proxy: {words}\n")


async def test_a_run_without_faults_says_so(tmp_path: Path) -> None:
    skipped = entry(1, 0, fault(FaultEffect.CUT, skipped="no body"))
    ran = await run("verdict", left(tmp_path, skipped), folder=tmp_path)
    words = "nothing was injected: nothing to judge; 1 fault could not strike"
    assert (ran.code, ran.out, ran.err) == (0, "", f"llm-proxy: {words}\n")


@pytest.mark.parametrize(("level", "code"), [("note", 1), ("warning", 0), ("error", 0)])
async def test_the_level_decides_what_a_run_fails_for(
    tmp_path: Path, level: str, code: int
) -> None:
    ran = await run("verdict", left(tmp_path, *NOTED), "--level", level, folder=tmp_path)
    assert ran.code == code
    assert ran.out.startswith("note     failed-accepted: ")
    assert ran.complaint.endswith(": 1 note")


async def test_a_level_that_is_none_is_named_with_those_there_are(tmp_path: Path) -> None:
    ran = await run("verdict", "--level", "fatal", folder=tmp_path)
    assert ran.code == 2
    assert "--level: 'fatal' is not one of note, warning, error" in ran.err


async def test_a_long_storm_is_told_in_part(tmp_path: Path) -> None:
    storm = [refused(number, number * 20.0) for number in range(1, 1001)]
    ran = await run("verdict", left(tmp_path, *storm), folder=tmp_path)
    assert "  and 992 more: see --json\n" in ran.out
    assert len(ran.out.splitlines()) < 40


async def test_json_is_one_document_and_junit_a_file_beside_it(tmp_path: Path) -> None:
    path = left(tmp_path, *EARLY)
    ran = await run("verdict", path, "--json", "--junit", "v.xml", folder=tmp_path)

    told = json.loads(ran.out)
    assert (ran.code, ran.err) == (1, "")
    assert (told["verdict"], told["ok"], told["findings"][0]["rule"]) == (1, False, "too-soon")
    junit = ET.fromstring((tmp_path / "v.xml").read_bytes())  # noqa: S314 # it is ours
    assert (junit.tag, junit.attrib["failures"]) == ("testsuites", "1")


async def test_junit_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    path = left(tmp_path, *EARLY)
    ran = await run("verdict", path, "--junit", "no/v.xml", folder=tmp_path)
    words = "--junit no/v.xml cannot be written: No such file or directory"
    assert (ran.code, ran.out, ran.complaint) == (2, "", f"llm-proxy: {words}")


async def test_what_a_client_sent_cannot_steer_the_terminal(tmp_path: Path) -> None:
    odd = refused(1, 0, path="/\x1b]0;owned\x07", session="a\nb")
    ran = await run("verdict", left(tmp_path, odd), folder=tmp_path)
    assert "\x1b" not in ran.out
    assert "POST /\\x1b]0;owned\\x07, session a⏎b, m" in ran.out


@pytest.mark.parametrize("command", ["verdict", "report"])
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("nothing.json", "nothing.json cannot be read (No such file or directory): give a file"),
        (".", ". cannot be read (Is a directory): give a file"),
        ("text.json", "text.json is no journal (JSON is malformed: invalid character"),
        ("http://127.0.0.1:1", "http://127.0.0.1:1/_proxy/journal does not answer (Connection re"),
        ("ftp://127.0.0.1:1", "SOURCE: 'ftp://127.0.0.1:1' is no http:// or https:// URL"),
        ("http://u:p@h/", "SOURCE: 'http://h/' is only part of what is given"),
        (None, "http://127.0.0.1:1/_proxy/journal does not answer"),
    ],
)  # fmt: skip
async def test_a_source_that_is_none_is_told_in_a_sentence(
    tmp_path: Path, command: str, source: str | None, why: str
) -> None:
    (tmp_path / "text.json").write_text("no journal")
    arguments = [] if source is None else [source]
    ran = await run(command, *arguments, folder=tmp_path, env=ALONE)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"llm-proxy: {why}")
    assert len(ran.err.splitlines()) == 1


@asynccontextmanager
async def other_server(status: int, body: bytes, **headers: str) -> AsyncIterator[str]:
    """A server that is no proxy of ours."""

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(status=status, body=body, headers=headers)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "body", "location", "why"),
    [
        (404, b"", "", "answers with HTTP 404: that is no llm-proxy"),
        (302, b"", "http://127.0.0.1:1/", "answers with HTTP 302: that is no llm-proxy"),
        (200, b"<html>", "", "is no journal (JSON is malformed"),
    ],
    ids=["nothing", "a redirect", "a page"],
)
async def test_another_server_is_recognised(
    tmp_path: Path, status: int, body: bytes, location: str, why: str
) -> None:
    headers = {"Location": location} if location else {}
    async with other_server(status, body, **headers) as url:
        ran = await run("verdict", url, folder=tmp_path)
    assert ran.code == 2
    assert ran.err.startswith(f"llm-proxy: {url}/_proxy/journal {why}")


FAILING: Final = script(
    says("Here you are.", failuresBeforeSuccess=1, failureStatus="rate_limit"), name="refund"
)


async def test_a_run_is_judged_while_it_goes_on_and_from_the_file_that_it_leaves(
    tmp_path: Path,
) -> None:
    options = ("--scenarios", str(write(tmp_path, FAILING)), "--journal", "run.json")
    nowhere = {"http_proxy": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1"}
    async with serving("simulate", *options, folder=tmp_path) as it:
        await ask(it.url, chat("refund"))
        asked = await run("verdict", f"{it.url}/v1", folder=tmp_path, env=nowhere)
        named = await run("verdict", folder=tmp_path, env={"LLM_PROXY_URL": it.url})
        page = json.loads((await ask(it.url, b"GET /_proxy/verdict HTTP/1.1\r\n\r\n")).body)
        it.send(SIGTERM)
        ended = await it.ended()
    after = await run("verdict", "run.json", folder=tmp_path)
    by_json = await run("verdict", "run.json", "--json", folder=tmp_path)

    assert ended.code == 0
    assert "journal in run.json: see llm-proxy report run.json" in ended.err
    assert asked.code == 1
    assert asked.out.startswith("warning  gave-up: gave up at the first failure: HTTP 429 (fault ")
    assert (asked.out, asked.err) == (named.out, named.err) == (after.out, after.err)
    assert page == json.loads(by_json.out)


async def test_a_report_tells_a_run_in_figures(tmp_path: Path) -> None:
    path = left(
        tmp_path,
        *EARLY,
        entry(3, 0, fault(FaultEffect.CUT, rule="cut", skipped="no body"), late_mean_ms=0.5,
              late_worst_ms=2.0, timed_writes=1200),
        entry(4, retry_count=1, ms=2500.0, pace="50tps"),
        requests=12_345,
        faults=[{"rule": item, "seen": 4, "struck": 0} for item in ("cut", "reset,after=3")],
    )  # fmt: skip
    ran = await run("report", path, folder=tmp_path)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "requests  12,345, of which the latest 4 are told here",
        "sessions  1",
        "answers   live 4",
        "statuses  200 3, 429 1",
        "endings   sent 4",
        "retries   1 by the count of their SDKs",
        "times     median 10 ms, 95 % within 2.5 s, worst 2.5 s",
        "paces     50tps 1",
        "lateness  mean 0.50 ms, worst 2.00 ms, over 1,200 writes of 1 request",
        "fault     a rule, refused: struck once",
        "fault     cut: never struck, could not once: no body",
        "fault     reset,after=3: never struck",
    ]


async def test_a_report_is_one_json_document_when_asked(tmp_path: Path) -> None:
    ran = await run("report", left(tmp_path, *EARLY), "--json", folder=tmp_path)
    told = json.loads(ran.out)
    assert (told["report"], told["requests"], told["statuses"]) == (1, 2, {"200": 1, "429": 1})
    assert told["faults"] == [{"rule": "a rule, refused", "faults": 1, "skipped": 0, "why": []}]


async def test_a_report_of_a_run_without_requests_is_short(tmp_path: Path) -> None:
    ran = await run("report", left(tmp_path), folder=tmp_path)
    assert (ran.code, ran.out) == (0, "requests  0\n")
