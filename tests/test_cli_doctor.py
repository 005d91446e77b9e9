"""`llm-proxy doctor`: problems of this machine, this environment or this library."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sample_cassettes
from case_tables import each_row
from cli_process import CommandResult, run_command, running_server
from llm_proxy.cli import doctor
from llm_proxy.cli.doctor import (
    CheckLevel,
    CheckResult,
    PortListener,
    check_base_urls,
    check_own_variables,
    check_package,
    check_port,
    check_proxy_variables,
    find_listener,
    http_parser_result,
    run_library_checks,
)
from spool_files import EVENTS, encode_body, encode_opening, write_spool

OK, WARNING, PROBLEM = CheckLevel.OK, CheckLevel.WARNING, CheckLevel.PROBLEM


async def run_doctor(folder: Path, *options: str, **env: str) -> CommandResult:
    return await run_command("doctor", "--spool", "spool", *options, folder=folder, env=env)


def texts_of_level(results: Iterator[CheckResult], level: CheckLevel) -> list[str]:
    return [result.text for result in results if result.level is level]


def check_library(folder: Path) -> Iterator[CheckResult]:
    """The checks of the library in `folder`."""
    return run_library_checks(folder / "cassettes", folder / "spool")


async def test_everything_that_is_checked_has_a_line(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)

    result = await run_doctor(tmp_path)

    assert result.exit_code == 0
    rows = [row.split(maxsplit=1) for row in result.stdout.splitlines()]
    assert {level for level, _ in rows} <= {"ok", "warning"}
    names = [
        "llm-proxy", "aiohttp", "orjson", "click", "rich", "HTTP parser", "event loop", "decoders",
        "port 4777", "proxies", "base URLs", "library", "spool",
    ]  # fmt: skip
    assert [name for name in names if not any(text.startswith(name) for _, text in rows)] == []
    assert f"CPython {sys.version.split()[0]}" in result.stdout
    assert "HTTP parser     aiohttp's C parser" in result.stdout
    assert "_UnixSelectorEventLoop" in result.stdout
    assert result.last_error_line.startswith("llm-proxy: 0 problems, ")


async def test_a_problem_makes_the_exit_code_1(tmp_path: Path) -> None:
    torn = sample_cassettes.write_truncated(tmp_path).relative_to(tmp_path)

    result = await run_doctor(tmp_path)

    assert result.exit_code == 1
    assert f"problem  library         {torn}:7: the file is truncated" in result.stdout
    assert result.last_error_line.startswith("llm-proxy: 1 problem, ")


async def test_json_is_one_document(tmp_path: Path) -> None:
    sample_cassettes.write_truncated(tmp_path)

    result = await run_doctor(tmp_path, "--json")

    document: dict[str, Any] = json.loads(result.stdout)
    assert (result.exit_code, result.stderr, document["ok"]) == (1, "", False)
    [problem] = [check for check in document["checks"] if check["level"] == "problem"]
    assert problem["name"] == "library"
    assert "the file is truncated" in problem["text"]


async def test_an_environment_that_leads_astray_is_a_warning(tmp_path: Path) -> None:
    result = await run_doctor(
        tmp_path, HTTP_PROXY="http://me:hunter2@proxy:3128", OLLAMA_HOST="http://me:hunter2@gpu:1",
        AWS_ENDPOINT_URL_BEDROCK_RUNTIME="http://aws:1",
    )  # fmt: skip
    assert result.exit_code == 0
    assert (
        "warning  proxies         requests to 127.0.0.1 go through the proxy set in HTTP_PROXY"
        in result.stdout
    )
    assert (
        "warning  OLLAMA_HOST     expected a URL without user, query and fragment, such as "
        "'http://gpu:1'" in result.stdout
    )
    assert (
        "ok       AWS_ENDPOINT_URL_BEDROCK_RUNTIME clients in this shell send requests to"
        in result.stdout
    )
    assert "hunter2" not in result.stdout


async def test_a_variable_that_names_no_upstream_is_shown(tmp_path: Path) -> None:
    result = await run_doctor(tmp_path, AWS_ENDPOINT_URL_BEDROCK_AGENT_RUNTIME="http://aws:1")
    assert result.exit_code == 0
    assert "send requests to http://aws:1; with -- COMMAND, record and auto" in result.stdout
    assert "do not use that URL" in result.stdout


class TestTheLibrary:
    def test_a_good_one_is_fine(self, tmp_path: Path) -> None:
        sample_cassettes.write_complete(tmp_path)
        (tmp_path / "spool").mkdir(mode=0o700)
        results = list(check_library(tmp_path))
        assert {result.level for result in results} == {OK}
        texts = [result.text for result in results]
        assert texts == [
            f"1 cassette in {tmp_path}/cassettes can be read",
            f"{tmp_path}/cassettes is writable",
            f"{tmp_path}/spool is writable",
            f"only you can access {tmp_path}/spool (mode 700)",
            "no interrupted recordings",
        ]

    def test_an_empty_one_is_fine_and_can_be_made(self, tmp_path: Path) -> None:
        results = list(check_library(tmp_path))
        assert {result.level for result in results} == {OK}
        assert "no cassettes in " in results[0].text
        assert results[1].text.endswith(
            "cassettes does not exist yet; the first recording will create it"
        )

    def test_partial_takes_are_counted_and_named(self, tmp_path: Path) -> None:
        path = sample_cassettes.write_partial(tmp_path)
        [text] = texts_of_level(check_library(tmp_path), WARNING)
        assert text.startswith("1 partial cassette: ")
        assert text.endswith(f"/m/{path.name}; record again, or replay with --allow-partial")

    def test_of_many_bad_files_some_are_named(self, tmp_path: Path) -> None:
        folder = tmp_path / "cassettes"
        folder.mkdir()
        for number in range(8):
            (folder / f"{number}.jsonl").write_text("x")
        problems = texts_of_level(check_library(tmp_path), PROBLEM)
        assert len(problems) == 6
        assert problems[0].startswith(f"{folder}/0.jsonl:1: the file is truncated")
        assert problems[5] == "3 more unreadable files; run llm-proxy verify"

    def test_two_files_of_one_take_are_a_problem(self, tmp_path: Path) -> None:
        path = sample_cassettes.write_complete(tmp_path)
        (tmp_path / "cassettes" / path.name).write_bytes(path.read_bytes())
        [text] = texts_of_level(check_library(tmp_path), PROBLEM)
        assert text.startswith("two files have the same key and take number 1")

    def test_a_file_in_place_of_a_folder_is_a_problem(self, tmp_path: Path) -> None:
        for name in ("cassettes", "spool"):
            (tmp_path / name).write_text("")
        problems = texts_of_level(check_library(tmp_path), PROBLEM)
        assert len(problems) == 4
        assert f"not a folder: {tmp_path}/spool (set --spool)" in problems

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_folder_that_cannot_be_written_is_a_problem(self, tmp_path: Path) -> None:
        (tmp_path / "spool").mkdir(mode=0o500)
        [text] = texts_of_level(check_library(tmp_path), PROBLEM)
        assert text == (
            f"cannot write to {tmp_path}/spool; change the folder's permissions, or set --spool"
        )


class TestTheSpool:
    def test_a_folder_that_others_can_read_is_a_warning(self, tmp_path: Path) -> None:
        (tmp_path / "spool").mkdir()
        (tmp_path / "spool").chmod(0o750)
        [text] = texts_of_level(check_library(tmp_path), WARNING)
        assert f"(mode 750); run chmod 700 {tmp_path}" in text

    def test_recordings_left_by_a_crash_are_a_warning_that_says_what_to_do(
        self, tmp_path: Path
    ) -> None:
        write_spool(
            tmp_path, encode_opening(tmp_path) + encode_body(*EVENTS), "1-1-0123456789abcdef"
        )
        write_spool(
            tmp_path,
            encode_opening(tmp_path / "other") + encode_body(*EVENTS),
            "1-2-0123456789abcdef",
        )
        write_spool(tmp_path, b"", "1-3-0123456789abcdef")
        [text] = texts_of_level(check_library(tmp_path), WARNING)
        assert text.startswith("1 interrupted recording of ")
        assert f"; run llm-proxy recover --cassettes {tmp_path}/cassettes" in text
        assert "1 interrupted recording of other libraries" in text
        assert "1 interrupted recording that cannot be read" in text


@each_row(
    ("package", "floor", "level", "message"),
    [
        ("click", (8, 2), OK, ""),
        ("click", (99,), PROBLEM, "is too old; run pip install --upgrade 'click>=99'"),
        ("no-such-thing", (1, 2), PROBLEM, "not installed; run pip install 'no-such-thing>=1.2'"),
    ],
    ids=["there", "too old", "missing"],
)
def test_packages_are_held_against_the_oldest_that_is_safe(
    package: str, floor: tuple[int, ...], level: CheckLevel, message: str
) -> None:
    result = check_package(package, floor)
    assert result.level is level
    assert message in result.text


@each_row(
    ("release", "floor", "level"),
    [
        ("3.14.4", (3, 14, 4), OK),
        ("3.14.10", (3, 14, 4), OK),
        ("4.0", (3, 14, 4), OK),
        ("3.14.4rc1", (3, 14, 4), OK),
        ("3.14.3", (3, 14, 4), PROBLEM),
        ("3.9.9", (3, 14, 4), PROBLEM),
        ("garbage", (1,), PROBLEM),
    ],
)
def test_releases_are_compared_by_their_numbers(
    monkeypatch: pytest.MonkeyPatch, release: str, floor: tuple[int, ...], level: CheckLevel
) -> None:
    monkeypatch.setattr(doctor, "version", lambda package: release)
    assert check_package("aiohttp", floor).level is level


def test_the_slow_parser_is_a_warning() -> None:
    assert http_parser_result(is_c_parser=True).level is OK
    assert http_parser_result(is_c_parser=False).level is WARNING


async def test_the_parser_that_is_in_use_is_the_one_that_is_named(tmp_path: Path) -> None:
    result = await run_doctor(tmp_path, AIOHTTP_NO_EXTENSIONS="1")
    assert result.exit_code == 0
    assert "warning  HTTP parser     aiohttp uses its Python parser" in result.stdout


@each_row(
    ("occupant", "level", "text"),
    [
        (None, OK, "free"),
        (PortListener(llm_proxy_mode="replay"), OK, "used by llm-proxy replay"),
        (
            PortListener(process_label="nginx (process 7)"),
            WARNING,
            "used by nginx (process 7); stop that process, ",
        ),
        (PortListener(), WARNING, "used by another process; stop that process, set --port 0"),
    ],
    ids=["free", "ours", "somebody's", "nobody knows whose"],
)
def test_a_taken_port_is_a_warning(
    occupant: PortListener | None, level: CheckLevel, text: str
) -> None:
    result = check_port(4777, occupant)
    assert (result.name, result.level) == ("port 4777", level)
    assert result.text.startswith(text)


def test_whoever_listens_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
        port = server.getsockname()[1]
        occupant = find_listener("127.0.0.1", port)
        assert occupant is not None
        assert occupant.llm_proxy_mode == ""
        if Path("/proc/net/tcp").exists():
            assert occupant.process_label.endswith(f"(process {os.getpid()})")
    assert find_listener("127.0.0.1", port) is None


async def test_an_llm_proxy_on_the_port_is_recognised(tmp_path: Path) -> None:
    async with running_server("replay", folder=tmp_path) as running:
        port = int(running.url.rpartition(":")[2])
        occupant = find_listener("127.0.0.1", port)
    assert occupant is not None
    assert occupant.llm_proxy_mode == "replay"


@each_row(
    ("environ", "level", "message"),
    [
        ({}, OK, "no proxy variable is set"),
        ({"HTTP_PROXY": ""}, OK, "no proxy variable is set"),
        ({"HTTPS_PROXY": "http://p"}, OK, "no proxy variable is set"),
        ({"HTTP_PROXY": "http://p"}, WARNING, "export NO_PROXY=127.0.0.1,localhost no_proxy="),
        ({"http_proxy": "http://p"}, WARNING, "go through the proxy set in http_proxy; "),
        ({"ALL_PROXY": "socks5://p", "http_proxy": "p"}, WARNING, "ALL_PROXY and http_proxy"),
        ({"HTTP_PROXY": "p", "NO_PROXY": "a.b"}, WARNING, "NO_PROXY=a.b,127.0.0.1,localhost "),
        ({"HTTP_PROXY": "p", "NO_PROXY": "a.b, 127.0.0.1"}, OK, "not for 127.0.0.1"),
        ({"HTTP_PROXY": "p", "no_proxy": "127.0.0.1:4777"}, OK, "not for 127.0.0.1"),
        ({"HTTP_PROXY": "p", "NO_PROXY": "127.0.0.0/8"}, OK, "not for 127.0.0.1"),
        ({"HTTP_PROXY": "p", "NO_PROXY": "*"}, OK, "not for 127.0.0.1"),
        ({"HTTP_PROXY": "p", "NO_PROXY": "10.0.0.0/8,[::1"}, WARNING, "go through the proxy"),
    ],
)
def test_a_proxy_before_loopback_is_a_warning_with_the_line_to_add(
    environ: dict[str, str], level: CheckLevel, message: str
) -> None:
    result = check_proxy_variables(environ)
    assert result.level is level
    assert message in result.text


@each_row(
    ("value", "occupant", "level", "message"),
    [
        (
            "https://api.example/v1",
            None,
            OK,
            "clients in this shell send requests to https://api.example/v1; ",
        ),
        (
            " HTTPS://api.example/v1 ",
            None,
            OK,
            "clients in this shell send requests to https://api.example/v1; ",
        ),
        ("https://me:pass@api.example/v1?k=1", None, WARNING, "correct or unset OPENAI_BASE_URL"),
        (
            "http://127.0.0.1:4777/v1",
            None,
            WARNING,
            "no server listens at http://127.0.0.1:4777/v1; start llm-proxy",
        ),
        (
            "http://localhost:4777/v1",
            PortListener("replay"),
            OK,
            "the default address of llm-proxy",
        ),
        ("127.0.0.1:4777", None, WARNING, "'127.0.0.1:4777' is not an http:// or https:// URL; "),
        (
            "http://127.0.0.1:8000",
            None,
            OK,
            "with -- COMMAND, record and auto forward requests to that URL",
        ),
        ("http://[::1", None, WARNING, ", or set --upstream openai=URL"),
        ("http://", None, WARNING, "is not an http:// or https:// URL"),
        ("http://a:b", None, WARNING, "is not an http:// or https:// URL"),
    ],
)
def test_a_base_url_shows_where_clients_send_requests(
    value: str, occupant: PortListener | None, level: CheckLevel, message: str
) -> None:
    [result] = check_base_urls({"OPENAI_BASE_URL": value}, 4777, occupant)
    assert (result.name, result.level) == ("OPENAI_BASE_URL", level)
    assert message in result.text
    assert "pass" not in result.text


@pytest.mark.parametrize(
    ("value", "level"), [("http://b/v1", OK), ("nonsense", WARNING)], ids=["a URL", "none"]
)
def test_of_two_variables_for_one_provider_the_one_that_counts_is_named(
    value: str, level: CheckLevel
) -> None:
    environ = {"OPENAI_BASE_URL": "http://a/v1", "OPENAI_API_BASE": value}
    first, second = check_base_urls(environ, 4777, None)
    assert "forward requests to that URL" in first.text
    assert (second.name, second.level) == ("OPENAI_API_BASE", level)
    assert "use OPENAI_BASE_URL instead" in second.text
    assert "--upstream" not in second.text


@each_row("value", ["box", "box:1", ":1", "[::1]"])
def test_the_spellings_of_ollama_are_no_mistake(value: str) -> None:
    [result] = check_base_urls({"OLLAMA_HOST": value}, 4777, None)
    assert result.level is OK


def test_a_variable_that_no_option_reads_is_a_warning() -> None:
    assert list(check_own_variables({"LLM_PROXY_STRICT": "1", "OTHER": ""})) == [
        CheckResult("settings", OK, "no unknown LLM_PROXY_ variable is set")
    ]
    assert list(check_own_variables({"LLM_PROXY_STRICKT": "1"})) == [
        CheckResult(
            "LLM_PROXY_STRICKT",
            WARNING,
            "unknown environment variable; did you mean 'LLM_PROXY_STRICT'?",
        )
    ]


def test_no_base_url_means_that_clients_use_the_providers() -> None:
    [result] = check_base_urls({"PATH": "/bin"}, 4777, None)
    assert result.level is OK
