"""The end of a run: its summary line, runs without a request, and what fails a strict run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from case_tables import each_row
from cli_process import run_command, run_requests
from raw_http import build_http_request
from stored_cassettes import (
    DONE_EVENT,
    chat_event,
    raw_chat_request,
    text_response,
    write_cassettes,
)
from stub_upstream import Connection, Script, chunked, upstream

COMPLETE: Final = chunked([chat_event("live"), DONE_EVENT])
MODES: Final = ("record", "replay", "auto", "simulate")


async def incomplete(connection: Connection) -> None:
    """Close the connection in the middle of a stream."""
    await connection.begin()
    await connection.chunk(chat_event("half"))
    connection.fin()


async def no_response(connection: Connection) -> None:
    """Close the connection without a response."""
    connection.fin()


@each_row(
    ("arguments", "contents", "expected_summary"),
    [
        ("record", "ab", "recorded 2 exchanges, 2 complete"),
        ("record --strict", "ab", "recorded 2 exchanges, 2 complete"),
        ("replay", "aaa", "replayed 3 responses from 2 cassettes, 0 misses"),
        ("replay", "abb", "replayed 1 response from 1 cassette, 2 misses"),
        (
            'replay --mock {"reply":"Hi"}',
            "ab",
            "replayed 1 response from 1 cassette, simulated 1 response, 0 misses",
        ),
        (
            "auto",
            "abb",
            "replayed 1 response from 1 cassette, recorded 2 exchanges, 0 misses (--again record)",
        ),
        (
            "auto --again replay",
            "abb",
            "replayed 2 responses from 2 cassettes, recorded 1 exchange, 0 misses (--again replay)",
        ),
        (
            "auto --on-miss passthrough",
            "ab",
            "replayed 1 response from 1 cassette, forwarded 1 request without recording, 0 misses",
        ),
        ("auto --on-miss fail", "ab", "replayed 1 response from 1 cassette, 1 miss"),
        ("simulate", "ab", "simulated 2 responses"),
        ("simulate --fault rate-limit,first=1", "ab", "simulated 1 response, injected 1 fault"),
        ("simulate --fault reset,after=3,nth=9", "a", "simulated 1 response, injected 0 faults"),
        (
            "replay --fault rate-limit",
            "b",
            "replayed 0 responses from 0 cassettes, 0 misses, injected 1 fault",
        ),
    ],
)  # fmt: skip
async def test_a_run_ends_with_a_summary_in_one_line(
    tmp_path: Path, arguments: str, contents: str, expected_summary: str
) -> None:
    folder = tmp_path / arguments
    write_cassettes(folder, raw_chat_request("a"), text_response("1"), text_response("2"))
    async with upstream(COMPLETE) as provider:
        env = {"LLM_PROXY_UPSTREAM": f"default={provider.url}", "LLM_PROXY_PACE": "instant"}
        requests = map(raw_chat_request, contents)
        ran, _ = await run_requests(*arguments.split(), folder=folder, requests=requests, env=env)
    assert ran.exit_code == 0
    lines = ran.stderr.splitlines()
    assert f"llm-proxy: {expected_summary}" in lines[-2 if "2 misses" in expected_summary else -1 :]


async def test_in_ci_auto_ends_as_a_replay_does(tmp_path: Path) -> None:
    ran, _ = await run_requests(
        "auto", folder=tmp_path, requests=[raw_chat_request()], env={"CI": "true"}
    )
    assert ran.last_error_line == "llm-proxy: replayed 0 responses from 0 cassettes, 1 miss"


async def test_a_refused_request_is_counted(tmp_path: Path) -> None:
    foreign_host = build_http_request("/v1/models", b"", "Host: evil.example", method="GET")
    ran, statuses = await run_requests("simulate", folder=tmp_path, requests=[foreign_host])
    assert statuses == [421]
    assert ran.last_error_line == "llm-proxy: simulated 0 responses, refused 1 request"


@each_row("mode", MODES)
@each_row("is_strict", [False, True])
@each_row("has_command", [False, True])
async def test_a_run_without_a_request_says_what_to_check_and_fails_if_it_is_strict(
    tmp_path: Path, mode: str, is_strict: bool, has_command: bool
) -> None:
    arguments = [mode, *(["--strict"] if is_strict else [])]
    env = {"OPENAI_API_KEY": "its own"}
    if has_command:
        ran = await run_command(*arguments, "--", "true", folder=tmp_path, env=env)
    else:
        ran, _ = await run_requests(*arguments, folder=tmp_path, requests=[], env=env)
    begin = (
        "llm-proxy: error: no request reached llm-proxy (--strict); "
        if is_strict
        else "llm-proxy: warning: no request reached llm-proxy; "
    )
    program = "command" if has_command else "client"
    advice = (
        f"check that the {program} reads OPENAI_BASE_URL, or the base-URL variable of its "
        "provider, and that no base URL is fixed in its code"
    )
    keys = (
        "; these API key variables are not set: ANTHROPIC_API_KEY, GEMINI_API_KEY, GROQ_API_KEY, "
        "CO_API_KEY, MISTRAL_API_KEY"
    )
    needs_keys = has_command and mode in {"record", "auto"}
    assert ran.exit_code == int(is_strict)
    assert ran.last_error_line == begin + advice + (keys if needs_keys else "")
    assert "0 misses" not in ran.stderr


async def test_a_command_that_fails_keeps_its_exit_code(tmp_path: Path) -> None:
    ran = await run_command("replay", "--strict", "--", "sh", "-c", "exit 7", folder=tmp_path)
    assert ran.exit_code == 7
    assert "no request reached llm-proxy" in ran.stderr


@each_row(
    ("arguments", "script", "code"),
    [
        ("record --strict", COMPLETE, 0),
        ("record --strict", incomplete, 1),
        ("record --strict", no_response, 1),
        ("record", incomplete, 0),
        ("record", no_response, 0),
        ("auto --strict", COMPLETE, 0),
        ("auto --strict", incomplete, 1),
        ("auto --strict", no_response, 1),
        ("auto", incomplete, 0),
    ],
)
async def test_a_response_that_is_not_recorded_as_a_whole_fails_a_strict_run(
    tmp_path: Path, arguments: str, script: Script, code: int
) -> None:
    folder = tmp_path / f"{arguments} {script.__name__}"
    folder.mkdir()
    async with upstream(script) as provider:
        env = {"LLM_PROXY_UPSTREAM": f"default={provider.url}"}
        requests = [raw_chat_request()]
        ran, _ = await run_requests(*arguments.split(), folder=folder, requests=requests, env=env)
    assert ran.exit_code == code, ran.stderr
    assert ("llm-proxy: error: 1 request failed (--strict)\n" in ran.stderr) is (code == 1)
