"""`llm-proxy verdict` and `llm-proxy report`, on journal files and on running proxies."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGTERM
from typing import Any, Final
from xml.etree import ElementTree as ET

from aiohttp import web

from case_tables import each_row
from cli_process import run_command, running_server
from journal_documents import Entry, fault_entry, journal_document, refused_entry, request_entry
from llm_proxy.faults.fault_record import FaultEffect
from raw_http import send_request
from scenario_server import scenario_document, text_turn, write_scenarios
from stored_cassettes import raw_chat_request

EARLY_RETRY: Final = (
    refused_entry(1, 1200.0, 429, retry_after_ms=2000.0),
    request_entry(2, 1500.0),
)
NOTE_ENTRIES: Final = (request_entry(1, 0, fault_entry(FaultEffect.FAILED, 5, event=2)),)
NO_SERVER: Final = {"LLM_PROXY_URL": "http://127.0.0.1:1"}


def write_journal(folder: Path, *entries: Entry, **fields: Any) -> str:
    """Write a journal file; returns its name."""
    (folder / "run.json").write_bytes(journal_document(*entries, **fields))
    return "run.json"


async def test_a_finding_is_reported_with_its_evidence_and_what_to_do(tmp_path: Path) -> None:
    result = await run_command("verdict", write_journal(tmp_path, *EARLY_RETRY), folder=tmp_path)

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "error    too-soon: retried too early once: after 290 ms instead of 2.0 s",
        "  POST /v1/chat/completions, session default, m",
        ("  #1 at 1.2 s: HTTP 429, Retry-After 2.0 s (fault a rule, refused); retried after "
        "290 ms (#2)"),
        ("  Advice: before a retry, wait for the time in the retry-after-ms or Retry-After "
        "header; the SDKs of OpenAI and Anthropic do this if retries are enabled."),
    ]  # fmt: skip
    assert result.stderr == "llm-proxy: 1 fault injected; 1 error\n"


async def test_a_client_that_behaves_gives_no_finding(tmp_path: Path) -> None:
    path = write_journal(tmp_path, refused_entry(1), request_entry(2, 500))
    result = await run_command("verdict", path, folder=tmp_path)
    message = "1 fault injected; the client handled it"
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"llm-proxy: {message}\n")


async def test_a_run_without_faults_says_so(tmp_path: Path) -> None:
    skipped = request_entry(1, 0, fault_entry(FaultEffect.CUT, skipped="no body"))
    result = await run_command("verdict", write_journal(tmp_path, skipped), folder=tmp_path)
    message = "no faults were injected; 1 fault skipped"
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"llm-proxy: {message}\n")


@each_row(("level", "code"), [("note", 1), ("warning", 0), ("error", 0)])
async def test_the_level_decides_what_a_run_fails_for(
    tmp_path: Path, level: str, code: int
) -> None:
    result = await run_command(
        "verdict", write_journal(tmp_path, *NOTE_ENTRIES), "--level", level, folder=tmp_path
    )
    assert result.exit_code == code
    assert result.stdout.startswith("note     failed-accepted: ")
    assert result.last_error_line.endswith("; 1 note")


async def test_an_unknown_level_is_reported_with_the_known_ones(tmp_path: Path) -> None:
    result = await run_command("verdict", "--level", "fatal", folder=tmp_path)
    assert result.exit_code == 2
    assert "--level: 'fatal' is not one of note, warning, error" in result.stderr


async def test_a_long_retry_storm_is_abridged(tmp_path: Path) -> None:
    storm = [refused_entry(number, number * 20.0) for number in range(1, 1001)]
    result = await run_command("verdict", write_journal(tmp_path, *storm), folder=tmp_path)
    assert "  and 992 more (use --json to list all)\n" in result.stdout
    assert len(result.stdout.splitlines()) < 40


async def test_json_is_one_document_and_junit_a_file_beside_it(tmp_path: Path) -> None:
    path = write_journal(tmp_path, *EARLY_RETRY)
    result = await run_command("verdict", path, "--json", "--junit", "v.xml", folder=tmp_path)

    verdict = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (1, "")
    assert (verdict["verdict"], verdict["ok"], verdict["findings"][0]["rule"]) == (
        1,
        False,
        "too-soon",
    )
    junit = ET.fromstring((tmp_path / "v.xml").read_bytes())  # noqa: S314 # it is ours
    assert (junit.tag, junit.attrib["failures"]) == ("testsuites", "1")


async def test_junit_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    path = write_journal(tmp_path, *EARLY_RETRY)
    result = await run_command("verdict", path, "--junit", "no/v.xml", folder=tmp_path)
    message = "cannot write no/v.xml: No such file or directory"
    assert (result.exit_code, result.stdout, result.last_error_line) == (
        2,
        "",
        f"llm-proxy: error: {message}",
    )


async def test_what_a_client_sent_cannot_steer_the_terminal(tmp_path: Path) -> None:
    hostile_entry = refused_entry(1, 0, path="/\x1b]0;owned\x07", session="a\nb")
    result = await run_command("verdict", write_journal(tmp_path, hostile_entry), folder=tmp_path)
    assert "\x1b" not in result.stdout
    assert "POST /\\x1b]0;owned\\x07, session a⏎b, m" in result.stdout


@each_row("command", ["verdict", "report"])
@each_row(
    ("source", "reason"),
    [
        ("nothing.json", "cannot read nothing.json: No such file or directory; pass a file"),
        (".", "cannot read .: Is a directory; pass a file"),
        ("text.json", "text.json is not a valid journal (JSON is malformed: invalid character"),
        ("http://127.0.0.1:1", "http://127.0.0.1:1/_proxy/journal: no response (Connection re"),
        ("ftp://127.0.0.1:1", "SOURCE: 'ftp://127.0.0.1:1' is not an http:// or https:// URL"),
        ("http://u:p@h/", "SOURCE: expected a URL without user, query and fragment, such as 'http://h/'"),
        (None, "http://127.0.0.1:1/_proxy/health: no response"),
    ],
)  # fmt: skip
async def test_an_unusable_source_is_reported_in_one_sentence(
    tmp_path: Path, command: str, source: str | None, reason: str
) -> None:
    (tmp_path / "text.json").write_text("no journal")
    arguments = [] if source is None else [source]
    result = await run_command(command, *arguments, folder=tmp_path, env=NO_SERVER)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"llm-proxy: error: {reason}")
    assert len(result.stderr.splitlines()) == 1


@asynccontextmanager
async def other_server(status: int, body: bytes, **headers: str) -> AsyncIterator[str]:
    """A server that is no llm-proxy."""

    async def respond(_: web.BaseRequest) -> web.Response:
        return web.Response(status=status, body=body, headers=headers)

    runner = web.ServerRunner(web.Server(respond))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@each_row(
    ("status", "body", "location", "reason"),
    [
        (404, b"", "", ": HTTP 404 from a server that is not llm-proxy; use the URL"),
        (
            302,
            b"",
            "http://127.0.0.1:1/",
            ": HTTP 302 from a server that is not llm-proxy; use the URL",
        ),
        (200, b"<html>", "", " is not a valid journal (JSON is malformed"),
    ],
    ids=["nothing", "a redirect", "a page"],
)
async def test_another_server_is_recognised(
    tmp_path: Path, status: int, body: bytes, location: str, reason: str
) -> None:
    headers = {"Location": location} if location else {}
    async with other_server(status, body, **headers) as url:
        result = await run_command("verdict", url, folder=tmp_path)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"llm-proxy: error: {url}/_proxy/journal{reason}")


async def test_another_server_at_the_url_of_the_environment_is_recognised(tmp_path: Path) -> None:
    async with other_server(200, b"<html>") as url:
        result = await run_command("report", folder=tmp_path, env={"LLM_PROXY_URL": url})
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(
        f"llm-proxy: error: {url}/_proxy/health: a page from a server that is not llm-proxy; use"
    )


FAILING_SCENARIO: Final = scenario_document(
    text_turn("Here you are.", failuresBeforeSuccess=1, failureStatus="rate_limit"), name="refund"
)


async def test_a_run_is_judged_while_it_goes_on_and_from_the_file_that_it_leaves(
    tmp_path: Path,
) -> None:
    options = (
        "--scenarios",
        str(write_scenarios(tmp_path, FAILING_SCENARIO)),
        "--journal",
        "run.json",
    )
    nowhere = {"http_proxy": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1"}
    async with running_server("simulate", *options, folder=tmp_path) as server:
        await send_request(server.url, raw_chat_request("refund"))
        by_url = await run_command("verdict", f"{server.url}/v1", folder=tmp_path, env=nowhere)
        by_variable = await run_command(
            "verdict", folder=tmp_path, env={"LLM_PROXY_URL": server.url}
        )
        page = json.loads(
            (await send_request(server.url, b"GET /_proxy/verdict HTTP/1.1\r\n\r\n")).body
        )
        server.send(SIGTERM)
        server_result = await server.wait_for_end()
    from_file = await run_command("verdict", "run.json", folder=tmp_path)
    by_json = await run_command("verdict", "run.json", "--json", folder=tmp_path)

    assert server_result.exit_code == 0
    assert "run llm-proxy report run.json" in server_result.stderr
    assert by_url.exit_code == 1
    assert by_url.stdout.startswith(
        "warning  gave-up: gave up after the first failure: HTTP 429 (fault "
    )
    assert (by_url.stdout, by_url.stderr) == (from_file.stdout, from_file.stderr)
    assert (by_variable.stdout, by_variable.stderr) == (
        by_url.stdout,
        f"llm-proxy: reading the journal of llm-proxy simulate on {server.url}\n{by_url.stderr}",
    )
    assert page == json.loads(by_json.stdout)


async def test_a_report_summarises_a_run(tmp_path: Path) -> None:
    path = write_journal(
        tmp_path,
        *EARLY_RETRY,
        request_entry(
            3,
            0,
            fault_entry(FaultEffect.CUT, rule="cut", skipped="no body"),
            late_mean_ms=0.5,
            late_worst_ms=2.0,
            timed_writes=1200,
        ),
        request_entry(4, retry_count=1, ms=2500.0, pace="50tps"),
        requests=12_345,
        faults=[{"rule": item, "matched": 4, "injected": 0} for item in ("cut", "reset,after=3")],
    )
    result = await run_command("report", path, folder=tmp_path)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "requests  12,345; the figures below cover only the latest 4 requests",
        "sessions  1",
        "sources   live: 4",
        "statuses  200: 3, 429: 1",
        "endings   sent: 4",
        "retries   1 (reported by the SDKs)",
        "times     median 10 ms, p95 2.5 s, worst 2.5 s",
        "paces     50tps: 1",
        "lateness  mean 0.50 ms, worst 2.00 ms, over 1,200 writes in 1 request",
        "fault     a rule, refused: injected once",
        "fault     cut: never injected, skipped once: no body",
        "fault     reset,after=3: never injected",
    ]


async def test_a_report_is_one_json_document_when_asked(tmp_path: Path) -> None:
    result = await run_command(
        "report", write_journal(tmp_path, *EARLY_RETRY), "--json", folder=tmp_path
    )
    report = json.loads(result.stdout)
    assert (report["report"], report["requests"], report["statuses"]) == (
        1,
        2,
        {"200": 1, "429": 1},
    )
    assert report["faults"] == [
        {"rule": "a rule, refused", "injected": 1, "skipped": 0, "reasons": []}
    ]


async def test_a_report_of_a_run_without_requests_is_short(tmp_path: Path) -> None:
    result = await run_command("report", write_journal(tmp_path), folder=tmp_path)
    assert (result.exit_code, result.stdout) == (0, "requests  0\n")
