"""The command line in real processes: its output and its exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from case_tables import each_row
from cli_process import (
    CommandResult,
    environment,
    run_command,
    run_requests,
    running_command,
    running_server,
)
from in_process_proxy import load_cassettes
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.exchange import Ending
from llm_proxy.providers import API_KEY_VARIABLES, BASE_URL_VARIABLES, DUMMY_API_KEY
from llm_proxy.version import __version__
from raw_http import build_http_request, open_line, send_request
from spool_files import EVENTS, encode_body, encode_opening, write_spool
from stored_cassettes import (
    DONE_EVENT,
    chat_event,
    raw_chat_request,
    response_bodies,
    text_response,
    write_cassettes,
)
from stub_upstream import Connection, chunked, upstream
from terminal import CONTROLLING_TERMINAL, run_on_terminal
from waiting import wait_for_first_line, wait_until

HEALTH = build_http_request("/_proxy/health", b"", method="GET")
MODES = ("record", "replay", "auto", "simulate")
JOURNAL = build_http_request("/_proxy/journal", b"", method="GET")

CLIENT_SCRIPT = """
import http.client, json, os, sys
from urllib.parse import urlsplit
base = urlsplit(os.environ["OPENAI_BASE_URL"])
client = http.client.HTTPConnection(base.netloc)
message = {"role": "user", "content": sys.argv[1]}
body = {"model": "m", "stream": True, "messages": [message]}
headers = {"Content-Type": "application/json"}
client.request("POST", base.path + "/chat/completions", json.dumps(body), headers)
sys.stdout.buffer.write(client.getresponse().read())
sys.exit(int(sys.argv[2]))
"""
"""A client: sends its first argument, prints the response, exits with its second argument."""


def _client_command(content: str, code: int = 0) -> list[str]:
    return ["--", sys.executable, "-c", CLIENT_SCRIPT, content, str(code)]


def _python_command(script: str) -> list[str]:
    return ["--", sys.executable, "-c", script]


PRINTS_ENVIRONMENT = ["--", "env"]


def _printed_environment(result: CommandResult) -> dict[str, str]:
    lines = (line.partition("=") for line in result.stdout.splitlines())
    return {name: value for name, _, value in lines}


BLOCKS_INTERRUPTS = """
import os, signal, urllib.request
SIGINT = {signal.SIGINT}
signal.pthread_sigmask(signal.SIG_BLOCK, SIGINT)
def wait_for_proxy():
    urllib.request.urlopen(os.environ["LLM_PROXY_URL"] + "/_proxy/health").read()
wait_for_proxy()
"""
"""When the proxy answers, it knows of its child, and has handled the signals that came before."""
GETS_AN_INTERRUPT = f"""{BLOCKS_INTERRUPTS}
print("ready", flush=True)
print("interrupted" if signal.sigtimedwait(SIGINT, 20) else "not interrupted", flush=True)
"""
COUNTS_INTERRUPTS = f"""{BLOCKS_INTERRUPTS}
pid = os.fork()
if pid == 0: os._exit(0 if signal.sigtimedwait(SIGINT, 20) else 1)
os.setpgid(0, 0)
print("ready", flush=True)
by_terminal = os.waitpid(pid, 0)[1] == 0
wait_for_proxy()
by_proxy = bool(signal.sigpending() & SIGINT)
print("interrupted", by_terminal + by_proxy, flush=True)
"""
"""Counts interrupts.  Two that are pending would be one, so the process itself leaves the group of
the terminal, to receive those of the proxy alone, and a second process receives the terminal's."""


class TestChildProcess:
    async def _child_environment(self, folder: Path, mode: str, **env: str) -> dict[str, str]:
        result = await run_command(mode, *PRINTS_ENVIRONMENT, folder=folder, env=env)
        assert result.exit_code == 0, result.stderr
        return _printed_environment(result)

    async def test_its_environment_points_every_provider_at_the_proxy(self, tmp_path: Path) -> None:
        child = await self._child_environment(tmp_path, "replay", NO_PROXY="corp.example")
        url = child["LLM_PROXY_URL"]
        assert url.startswith("http://127.0.0.1:")
        assert {name: child[name] for name in BASE_URL_VARIABLES} == {
            name: url + variable.path for name, variable in BASE_URL_VARIABLES.items()
        }
        assert child["NO_PROXY"] == "corp.example,127.0.0.1,localhost"
        assert child["no_proxy"] == "127.0.0.1,localhost"

    async def test_a_replay_gives_it_dummy_keys_where_none_are_set(self, tmp_path: Path) -> None:
        child = await self._child_environment(tmp_path, "replay", OPENAI_API_KEY="its own")
        assert {name: child[name] for name in API_KEY_VARIABLES} == {
            **dict.fromkeys(API_KEY_VARIABLES, DUMMY_API_KEY),
            "OPENAI_API_KEY": "its own",
        }

    @pytest.mark.parametrize("mode", ["replay", "auto"])
    async def test_a_key_that_is_set_to_nothing_is_not_set(self, tmp_path: Path, mode: str) -> None:
        child = await self._child_environment(tmp_path, mode, OPENAI_API_KEY="")
        assert child["OPENAI_API_KEY"] == DUMMY_API_KEY

    async def test_record_gives_it_no_keys(self, tmp_path: Path) -> None:
        child = await self._child_environment(tmp_path, "record", OPENAI_API_KEY="its own")
        assert {name for name in API_KEY_VARIABLES if name in child} == {"OPENAI_API_KEY"}
        assert child["OPENAI_API_KEY"] == "its own"

    @each_row("variable", ["LLM_PROXY_UPSTREAM", "OPENAI_BASE_URL"])
    async def test_record_gives_it_a_dummy_key_for_a_local_provider(
        self, tmp_path: Path, variable: str
    ) -> None:
        with_key = CLIENT_SCRIPT.replace(
            '"application/json"}',
            '"application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}',
        )
        async with upstream(chunked([DONE_EVENT])) as provider:
            prefix, path = ("openai=", "") if variable == "LLM_PROXY_UPSTREAM" else ("", "/v1")
            env = {variable: f"{prefix}{provider.url}{path}"}
            command = [*_python_command(with_key), "hi", "0"]
            result = await run_command("record", *command, folder=tmp_path, env=env)
        assert result.stdout == DONE_EVENT.decode()
        [(head, _)] = provider.requests
        assert f"Authorization: Bearer {DUMMY_API_KEY}\r\n".encode() in head
        assert "warning" not in result.stderr

    @each_row(
        ("arguments", "unset"),
        [
            (["auto"], ["OPENAI_API_KEY"]),
            (["auto", "--on-miss", "passthrough"], ["OPENAI_API_KEY", "GROQ_API_KEY"]),
            (["auto"], []),
            (["auto"], ["AZURE_OPENAI_API_KEY"]),  # it has no public address
            (["auto", "--on-miss", "fail"], ["OPENAI_API_KEY"]),
            (["replay"], ["OPENAI_API_KEY"]),
            (["auto", "--upstream", "openai=http://127.0.0.1:1"], ["OPENAI_API_KEY"]),
            (["auto", "--upstream", "default=http://127.0.0.1:1"], ["OPENAI_API_KEY"]),
        ],
    )
    async def test_a_command_without_a_request_is_reported_with_the_keys_that_are_missing(
        self, tmp_path: Path, arguments: list[str], unset: list[str]
    ) -> None:
        env = {name: "its own" for name in API_KEY_VARIABLES if name not in unset}
        result = await run_command(*arguments, *PRINTS_ENVIRONMENT, folder=tmp_path, env=env)
        child = _printed_environment(result)
        assert {name for name in API_KEY_VARIABLES if child[name] == DUMMY_API_KEY} == set(unset)
        needs_keys = arguments[0] == "auto" and not {"fail", "--upstream"} & set(arguments)
        reported = [name for name in unset if name != "AZURE_OPENAI_API_KEY" and needs_keys]
        keys = f"; these API key variables are not set: {', '.join(reported)}" if reported else ""
        assert result.last_error_line == (
            "llm-proxy: warning: no request reached llm-proxy; check that the command reads "
            "OPENAI_BASE_URL, or the base-URL variable of its provider, and that no base URL is "
            f"fixed in its code{keys}"
        )

    @each_row(
        ("key", "options", "header", "query", "is_reported"),
        [
            ("", [], "Authorization: Bearer KEY", "", True),
            ("", [], "x-other: KEY", "", True),
            ("", [], "", "?a=1&key=KEY", True),
            ("its own", [], "Authorization: Bearer KEY", "", False),
            ("its own", [], "User-Agent: llm-proxy-replay-ci/1.0", "", False),
            ("", ["--upstream", "openai=http://127.0.0.1:1"], "x-api-key: KEY", "", False),
            ("", ["--upstream", "default=http://127.0.0.1:1"], "x-api-key: KEY", "", False),
        ],
    )
    async def test_a_dummy_key_is_reported_once_with_the_first_live_request(
        self, tmp_path: Path, key: str, options: list[str], header: str, query: str,
        is_reported: bool,
    ) -> None:  # fmt: skip
        with_key = (
            CLIENT_SCRIPT.replace(
                'client.request("POST", base.path + "/chat/completions"',
                'key = os.environ["OPENAI_API_KEY"]\n'
                f"name, _, value = {header!r}.replace('KEY', key).partition(': ')\n"
                "headers |= {name: value} if name else {}\n"
                f"query = {query!r}.replace('KEY', key)\n"
                'client.request("POST", base.path + "/chat/completions" + query',
            )
            .replace('headers = {"Content-Type": "application/json"}\n', "")
            .replace(
                "client = http", 'headers = {"Content-Type": "application/json"}\nclient = http'
            )
        )
        client = shlex.join((sys.executable, "-c", with_key))
        no_network = ("--upstream-proxy", "http://127.0.0.1:1")
        result = await run_command(
            "auto", *no_network, *options, "--", "sh", "-c", f"{client} a 0; {client} b 0",
            folder=tmp_path, env={"OPENAI_API_KEY": key},
        )  # fmt: skip
        warning = (
            "llm-proxy: warning: OPENAI_API_KEY is not set, so openai will respond "
            "with status 401; set OPENAI_API_KEY"
        )
        assert result.stdout.count('"type":"upstream_failed"') == 2
        assert [line for line in result.stderr.splitlines() if "is not set" in line] == (
            [warning] if is_reported else []
        )

    @each_row("code", [0, 1, 7, 255])
    async def test_its_exit_code_is_ours(self, tmp_path: Path, code: int) -> None:
        result = await run_command("replay", "--", "sh", "-c", f"exit {code}", folder=tmp_path)
        assert result.exit_code == code

    @each_row("name", ["KILL", "TERM", "SEGV"])
    async def test_death_by_a_signal_gives_the_exit_code_of_a_shell(
        self, tmp_path: Path, name: str
    ) -> None:
        result = await run_command("replay", "--", "sh", "-c", f"kill -{name} $$", folder=tmp_path)
        assert result.exit_code == 128 + signal.Signals[f"SIG{name}"]

    @each_row(
        ("command", "code", "message"),
        [
            ("no-such-command", 127, "no-such-command: command not found"),
            ("./no/such/file", 127, "./no/such/file: command not found"),
            ("./no-program", 126, "cannot run ./no-program: Permission denied"),
            (".", 126, "cannot run .: Permission denied"),
            (
                "./no-interpreter",
                126,
                (
                    "cannot run ./no-interpreter: Exec format error; if it is a script, start "
                    "its first line with #!, such as #!/bin/sh"
                ),
            ),
        ],
    )
    async def test_a_command_that_cannot_be_run_gives_the_exit_code_of_a_shell(
        self, tmp_path: Path, command: str, code: int, message: str
    ) -> None:
        (tmp_path / "no-program").write_text("just text")
        (tmp_path / "no-interpreter").write_text("echo hello\n")
        (tmp_path / "no-interpreter").chmod(0o700)
        result = await run_command("replay", "--", command, folder=tmp_path)
        assert (result.exit_code, result.last_error_line) == (code, f"llm-proxy: error: {message}")
        assert "Traceback" not in result.stderr

    async def test_its_arguments_and_its_output_are_its_own(self, tmp_path: Path) -> None:
        arguments = ["--pace", "instant", "--", "-x", "two words"]
        echo = [*_python_command("import sys; print(sys.argv[1:])"), *arguments]
        for command in (echo, echo[1:]):  # with the two dashes, and without
            result = await run_command("replay", *command, folder=tmp_path)
            assert (result.exit_code, result.stdout) == (0, f"{arguments}\n")

    @each_row("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    async def test_signals_reach_it(self, tmp_path: Path, number: signal.Signals) -> None:
        script = (
            "import signal, sys, pathlib\n"
            f"signal.pthread_sigmask(signal.SIG_BLOCK, [{number}])\n"  # a sleep would miss some
            f"pathlib.Path('ready {number}').write_text('\\n')\n"
            f"sys.exit(40 + signal.sigwait([{number}]))"
        )
        async with running_command("replay", *_python_command(script), folder=tmp_path) as running:
            await wait_for_first_line(tmp_path / f"ready {number}")
            running.send(number)
            assert (await running.wait_for_end()).exit_code == 40 + number

    @each_row(
        "redirect", ["", "os.dup2(null, 0)", "[os.dup2(null, fd) for fd in (0, 2)]"],
        ids=["all its own", "stdin is a file", "stdin and stderr are files"],
    )  # fmt: skip
    def test_ctrl_c_at_a_terminal_reaches_it_once(self, tmp_path: Path, redirect: str) -> None:
        code, output = run_on_terminal(
            "replay",
            *_python_command(COUNTS_INTERRUPTS),
            folder=tmp_path,
            preparation=(
                f"{CONTROLLING_TERMINAL}null = os.open('/dev/null', os.O_RDWR)\n{redirect}"
            ),
            once_ready=lambda terminal, _: os.write(terminal, b"\x03"),
        )
        assert "interrupted 1" in output
        assert code == 0

    def test_in_the_background_of_a_terminal_a_signal_is_passed_on(self, tmp_path: Path) -> None:
        # The terminal's session leader stays in the foreground; we are our own process group.
        background = (
            "pid = os.fork()\n"
            "if pid: os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
            "os.setpgid(0, 0)\n"
            "print('me', os.getpid(), flush=True)"
        )
        code, output = run_on_terminal(
            "replay",
            *_python_command(GETS_AN_INTERRUPT),
            folder=tmp_path,
            preparation=f"{CONTROLLING_TERMINAL}{background}",
            once_ready=lambda _, output: os.kill(int(output.split()[1]), signal.SIGINT),
        )
        assert "\ninterrupted" in output
        assert code == 0


class TestRecordAndReplay:
    async def test_an_application_gets_the_same_answer_from_the_cassette(
        self, tmp_path: Path
    ) -> None:
        [body] = response_bodies([text_response("hello")])
        async with upstream(chunked([body])) as provider:
            recorded = await run_command(
                "record",
                "--upstream",
                f"openai={provider.url}",
                *_client_command("hi"),
                folder=tmp_path,
            )
        replayed = await run_command("replay", "--strict", *_client_command("hi"), folder=tmp_path)
        assert recorded.stdout == replayed.stdout == body.decode()
        assert (recorded.exit_code, replayed.exit_code) == (0, 0)
        assert "recorded 1 exchange, 1 complete" in recorded.stderr

    async def test_the_address_in_the_environment_becomes_the_upstream(
        self, tmp_path: Path
    ) -> None:
        [body] = response_bodies([text_response("hello")])
        async with upstream(chunked([body])) as provider:
            env = {"OPENAI_BASE_URL": f"{provider.url}/v1"}
            result = await run_command("record", *_client_command("hi"), folder=tmp_path, env=env)
        assert (result.exit_code, result.stdout) == (0, body.decode())
        [(head, _)] = provider.requests
        assert head.startswith(b"POST /v1/chat/completions ")

    @each_row(
        ("name", "path"),
        [
            ("OPENAI_BASE_URL", "/v1"),
            ("OPENAI_BASE_URL", "/gateway/v1/"),
            ("OPENAI_BASE_URL", "/gateway"),
            ("OPENAI_BASE_URL", ""),
            ("OPENAI_API_BASE", "/gateway/v1/"),
            ("MISTRAL_BASE_URL", "/v1"),
            ("MISTRAL_BASE_URL", "/gateway"),
        ],
    )
    async def test_the_provider_gets_the_path_that_the_client_would_have_requested(
        self, tmp_path: Path, name: str, path: str
    ) -> None:
        client_command = _python_command(CLIENT_SCRIPT.replace("OPENAI_BASE_URL", name))
        async with upstream(chunked([DONE_EVENT])) as provider:
            env = {name: f" {provider.url.replace('http', 'HTTP')}{path}"}
            await run_command("record", *client_command, "hi", "0", folder=tmp_path, env=env)
        request_line = f"POST {path.rstrip('/')}/chat/completions HTTP/1.1\r\n"
        assert [head.startswith(request_line.encode()) for head, _ in provider.requests] == [True]

    @pytest.mark.parametrize("mode", ["record", "auto"])
    async def test_an_address_that_cannot_be_used_is_a_mistake(
        self, tmp_path: Path, mode: str
    ) -> None:
        env = {"OPENAI_BASE_URL": "gateway.example/v1?key=canary"}
        result = await run_command(mode, "--", "true", folder=tmp_path, env=env)
        assert (result.exit_code, result.stderr) == (
            2,
            (
                "llm-proxy: error: OPENAI_BASE_URL: 'gateway.example/v1' is not an http:// or "
                "https:// URL; correct or unset OPENAI_BASE_URL\n"
            ),
        )

    @each_row(
        ("arguments", "ci"),
        [
            ("record --upstream openai=HTTP://127.0.0.1:1", ""),
            ("record --upstream default=http://127.0.0.1:1", ""),
            ("replay", ""),
            ("auto", "true"),
            ("auto --on-miss fail", ""),
        ],
    )
    async def test_where_nobody_needs_the_address_it_may_be_anything(
        self, tmp_path: Path, arguments: str, ci: str
    ) -> None:
        env = {"OPENAI_BASE_URL": "nonsense", "CI": ci}
        result = await run_command(*arguments.split(), "--", "true", folder=tmp_path, env=env)
        assert (result.exit_code, "nonsense" in result.stderr) == (0, False)

    async def test_an_answer_from_disk_is_no_recording(self, tmp_path: Path) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("hello"))
        result = await run_command("auto", *_client_command("hi"), folder=tmp_path)
        assert (
            result.last_error_line
            == "llm-proxy: replayed 1 response from 1 cassette, recorded 0 exchanges, 0 misses "
            "(--again record)"
        )

    @each_row(
        ("strict", "code", "expected"),
        [(False, 0, 0), (True, 0, 1), (True, 7, 7), (False, 7, 7)],
        ids=["a miss", "strict", "strict, and it failed itself", "it failed itself"],
    )
    async def test_a_swallowed_miss_fails_a_strict_run(
        self, tmp_path: Path, strict: bool, code: int, expected: int
    ) -> None:
        options = ["--strict"] if strict else []
        result = await run_command(
            "replay", *options, *_client_command("never recorded", code), folder=tmp_path
        )
        assert result.exit_code == expected
        assert "no cassette matches POST /v1/chat/completions (m)" in result.stderr
        assert "llm-proxy: replayed 0 responses from 0 cassettes, 1 miss\n" in result.stderr

        assert ("llm-proxy: error: 1 request failed (--strict)\n" in result.stderr) is strict

    @pytest.mark.parametrize("no_color", ["", "1"])
    def test_labels_are_coloured_on_a_terminal(self, tmp_path: Path, no_color: str) -> None:
        _, output = run_on_terminal(
            "replay", *_client_command("never recorded"), folder=tmp_path,
            env={"NO_COLOR": no_color},
        )  # fmt: skip
        colours = {"warning": 33, "miss": 33}
        for label, code in colours.items():
            shown = label if no_color else f"\x1b[1;{code}m{label}\x1b[0m"
            assert f"llm-proxy: {shown}: " in output

    async def test_a_strict_run_without_a_miss_is_fine(self, tmp_path: Path) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("hello"))
        result = await run_command("replay", "--strict", *_client_command("hi"), folder=tmp_path)
        assert (result.exit_code, result.stdout) == (
            0,
            response_bodies([text_response("hello")])[0].decode(),
        )

    async def test_a_lost_recording_fails_the_run(self, tmp_path: Path) -> None:
        (tmp_path / "cassettes").mkdir()
        (tmp_path / "cassettes" / "openai-chat").write_text("a file where a folder should be")
        async with upstream(chunked([DONE_EVENT])) as provider:
            result = await run_command(
                "record",
                "--upstream",
                f"default={provider.url}",
                *_client_command("hi"),
                folder=tmp_path,
            )
        assert (result.exit_code, result.stdout) == (1, DONE_EVENT.decode())
        assert "1 recording lost\n" in result.stderr

    async def test_what_is_not_complete_is_named_once_and_counted_at_the_end(
        self, tmp_path: Path
    ) -> None:
        async def broken(connection: Connection) -> None:
            await connection.begin()
            await connection.chunk(chat_event("half"))
            connection.fin()

        client_command = shlex.join((sys.executable, "-c", CLIENT_SCRIPT))
        script = f"{client_command} 1 0; {client_command} 2 0; true"
        async with upstream(broken) as provider:
            options = ("--upstream", f"default={provider.url}", "--", "sh", "-c", script)
            result = await run_command("record", *options, folder=tmp_path)
        assert result.exit_code == 0
        files = [cassette.file for cassette in load_cassettes(tmp_path)]
        assert len(files) == 2
        for file in files:
            assert result.stderr.count(str(Path(file).relative_to(tmp_path))) == 1
        assert "recorded 2 exchanges, 0 complete\n" in result.stderr
        assert (
            "2 recordings incomplete; to list them, run llm-proxy ls --partial\n" in result.stderr
        )

    async def test_an_upstream_that_failed_is_counted_at_the_end(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            nowhere = f"http://127.0.0.1:{probe.getsockname()[1]}"
        result = await run_command(
            "record", "--upstream", f"default={nowhere}", *_client_command("hi"), folder=tmp_path
        )
        assert "upstream_failed" in result.stdout
        assert "1 request failed because of a provider or connection error\n" in result.stderr
        assert "lost" not in result.stderr

    async def test_what_a_stop_breaks_off_is_no_failure_of_the_upstream(
        self, tmp_path: Path
    ) -> None:
        async def silent(connection: Connection) -> None:
            await connection.reader.read()

        async with upstream(silent) as provider:
            options = ["--upstream", f"default={provider.url}"]
            async with running_server("record", *options, folder=tmp_path) as running:
                client = asyncio.create_task(send_request(running.url, raw_chat_request()))
                await wait_until(lambda: len(provider.requests) == 1)
                running.send(signal.SIGINT)
                await wait_until(lambda: _refuses_connections(running.url))
                running.send(signal.SIGINT)
                assert (await client).status == 502
                result = await running.wait_for_end()
        assert "recorded 0 exchanges" in result.stderr
        assert "the upstream failed" not in result.stderr
        assert "left" not in result.stderr

    async def test_a_client_that_leaves_before_a_response_is_reported_and_counted(
        self, tmp_path: Path
    ) -> None:
        async def silent(connection: Connection) -> None:
            await connection.reader.read()

        async with upstream(silent) as provider:
            options = ["--upstream", f"default={provider.url}"]
            async with running_server("record", *options, folder=tmp_path) as running:
                async with open_line(running.url) as client:
                    await client.send(raw_chat_request("hi", "Host: HOST"))
                    await wait_until(lambda: len(provider.requests) == 1)
                async with asyncio.timeout(20):
                    while b"client_gone" not in (await send_request(running.url, JOURNAL)).body:
                        pass
                running.send(signal.SIGINT)
                result = await running.wait_for_end()
        assert "POST /v1/chat/completions: client disconnected after " in result.stderr
        assert "1 client disconnected before a response\n" in result.stderr


class TestStartupWarnings:
    """A setting that is allowed but hardly intended gives a warning, and the run continues."""

    @pytest.mark.parametrize(
        ("folder_exists", "problem", "hint"),
        [
            (False, "does not exist", " or set --cassettes"),
            (True, "contains no cassettes", ""),
        ],
        ids=["no folder", "an empty folder"],
    )
    async def test_a_replay_of_nothing(
        self, tmp_path: Path, folder_exists: bool, problem: str, hint: str
    ) -> None:
        if folder_exists:
            (tmp_path / "tapes").mkdir()
        result = await run_command("replay", "--cassettes", "tapes", "--", "true", folder=tmp_path)
        assert result.exit_code == 0
        assert result.stderr.count(
            f"llm-proxy: warning: ./tapes {problem}, so every request is a miss; run llm-proxy "
            f"record{hint}\n"
        ) == 1  # fmt: skip

    async def test_a_replay_of_something(self, tmp_path: Path) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("hello"))
        result = await run_command("replay", "--", "true", folder=tmp_path)
        assert "contains no cassettes" not in result.stderr

    @each_row(
        ("name", "hint"),
        [
            ("openia", "did you mean 'openai'?"),
            ("OpenAI", "did you mean 'openai'?"),
            ("box", "known: bedrock, vertex, groq, "),
        ],
    )
    @each_row("mode", ["record", "auto"])
    async def test_an_upstream_of_a_provider_that_nobody_knows(
        self, tmp_path: Path, mode: str, name: str, hint: str
    ) -> None:
        pair = f"{name}=http://127.0.0.1:1"
        result = await run_command(mode, "--upstream", pair, "--", "true", folder=tmp_path)
        assert result.exit_code == 0
        assert (
            f"llm-proxy: warning: --upstream {pair}: unknown provider {name!r}, so only requests "
            f"to /~{name}/... use this address; {hint}"
        ) in result.stderr

    @each_row("command", ["record", "replay", "auto", "simulate", "chaos"])
    async def test_a_variable_that_no_option_reads(self, tmp_path: Path, command: str) -> None:
        env = {"LLM_PROXY_PASE": "4x", "LLM_PROXY_XYZZY": "", "LLM_PROXY_URL": "", "LLM_PROXY": ""}
        result = await run_command(command, "--", "true", folder=tmp_path, env=env)
        assert [line for line in result.stderr.splitlines() if "variable;" in line] == [
            (
                "llm-proxy: warning: LLM_PROXY_PASE: unknown environment variable; did you mean "
                "'LLM_PROXY_PACE'?"
            ),
            (
                "llm-proxy: warning: LLM_PROXY_XYZZY: unknown environment variable; unset the "
                "variable; for a list of options, run llm-proxy COMMAND --help"
            ),
        ]

    @pytest.mark.parametrize("mode", MODES)
    async def test_recordings_that_a_crash_interrupted(self, tmp_path: Path, mode: str) -> None:
        opening = encode_opening(tmp_path)
        write_spool(tmp_path, opening + encode_body(*EVENTS))
        write_spool(tmp_path, encode_opening(tmp_path / "other"), name="2")  # another library's
        options = ["--spool", "spool"] if mode in {"record", "auto"} else []
        result = await run_command(mode, *options, "--", "true", folder=tmp_path)
        warning = (
            "llm-proxy: warning: 1 interrupted recording of ./cassettes can be recovered; run "
            "llm-proxy recover --cassettes cassettes --spool spool\n"
        )
        assert (warning in result.stderr) is bool(options)

    @each_row("name", ["openai", "mistral", "default"])
    async def test_an_upstream_of_one_that_is_known(self, tmp_path: Path, name: str) -> None:
        pair = f"{name}=http://127.0.0.1:1"
        result = await run_command("record", "--upstream", pair, "--", "true", folder=tmp_path)
        assert "unknown provider" not in result.stderr


@dataclass(frozen=True)
class Mistake:
    """A wrong command line or setting, and the expected parts of its error message."""

    arguments: tuple[str, ...]
    expected_texts: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


def _config(text: str, *texts: str, mode: str = "record") -> Mistake:
    return Mistake((mode, "--", "true"), ("llm-proxy.toml", *texts), files={"llm-proxy.toml": text})


MISTAKES = {
    "no such command": Mistake(("recrod",), ("'recrod'", "did you mean 'record'?")),
    "nothing like a command": Mistake(("xyzzy",), ("'xyzzy'", "for a list of commands, run")),
    "no such option": Mistake(
        ("replay", "--pase", "4x"), ("no option --pase", "did you mean --pace?")
    ),
    "silence that is no number": Mistake(("record", "--idle-timeout", "nan"), ("--idle-timeout",)),
    "no value": Mistake(("replay", "--pace"), ("--pace requires an argument",)),
    "no port": Mistake(("replay", "--port", "x"), ("--port: 'x' is not an integer",)),
    "port too large": Mistake(
        ("replay", "--port", "65536"), ("--port: '65536'", "from 0 to 65535")
    ),
    "no pace": Mistake(("replay", "--pace", "fast"), ("'fast'", "recorded, instant, a speed")),
    "no speed at all": Mistake(("replay", "--pace", "0x"), ("'0x' is not a valid pace",)),
    "upstream without a name": Mistake(
        ("record", "--upstream", "http://a"), ("--upstream", "expected NAME=URL")
    ),
    "upstream without a URL": Mistake(
        ("record", "--upstream", "openai=localhost:8000"),
        ("--upstream: openai: 'localhost:8000'", "http://"),
    ),
    "upstream with a key": Mistake(
        ("record", "--upstream", "openai=http://u:p@a"), ("without user",)
    ),
    "upstream proxy": Mistake(("auto", "--upstream-proxy", "a:1"), ("--upstream-proxy", "http://")),
    "no patience": Mistake(
        ("record", "--idle-timeout", "0"), ("--idle-timeout: '0'", "positive number of seconds")
    ),
    "no number": Mistake(
        ("record", "--idle-timeout", "soon"), ("--idle-timeout: 'soon'", "seconds")
    ),
    "no choice": Mistake(("replay", "--after-last", "stop"), ("'stop'", "repeat", "cycle", "fail")),
    "no address of ours": Mistake(
        ("replay", "--port", "0", "--host", "192.0.2.1"), ("192.0.2.1", "set --host to an address")
    ),
    "no address at all": Mistake(
        ("replay", "--host", "no.such.host.invalid"), ("--host no.such.host.invalid",)
    ),
    "port file nowhere": Mistake(
        ("replay", "--port", "0", "--port-file", "no/where"), ("--port-file no/where",)
    ),
    "cassettes is a file": Mistake(
        ("replay", "--cassettes", "file"),
        ("not a folder: file", "(set --cassettes)"),
        files={"file": ""},
    ),
    "spool is a file": Mistake(
        ("auto", "--port", "0", "--spool", "file"),
        ("cannot write to --spool file", "file is not a folder"),
        files={"file": ""},
    ),
    "two files for one take": Mistake(
        ("replay",),
        ("two files have the same key and take number 1", "delete or rename one of the two files"),
        files={f"cassettes/{name}/{'0' * 16}-1.jsonl": "" for name in "ab"},
    ),
    "variable": Mistake(
        ("replay",), ("LLM_PROXY_PORT: 'x' is not an integer",), env={"LLM_PROXY_PORT": "x"}
    ),
    "no such file": Mistake(("replay", "--config", "no.toml"), ("cannot read no.toml",)),
    "table header": _config("[tool.llm-proxy]\npace = '4x'", "remove the table header"),
    "unknown setting": _config(
        "cassetes = 'x'", "unknown setting 'cassetes'; did you mean 'cassettes'?"
    ),
    "nothing like a setting": _config("xyzzy = 1", "unknown setting 'xyzzy'; known: "),
    "broken TOML": _config("pace =\nstrict = true", "is not valid TOML", "line 1"),
    "not text": _config("\x00", "is not valid TOML"),
    "setting of a wrong kind": _config("port = 'x'", "port: 'x'"),
    "setting that is a list": _config("host = ['a', 'b']", "host: expected one value, got a list"),
    "setting that is a date": _config("host = 2026-01-01", "host: expected a string, a number"),
    "setting that is no truth": _config("strict = 'maybe'", "strict: 'maybe'", mode="replay"),
    "setting that is no choice": _config("after_last = 'x'", "after_last: 'x'", mode="replay"),
    "upstream in a file": _config("[upstream]\nopenai = 'x'", "upstream: openai: 'x'"),
    "table that is none": Mistake(
        ("replay", "--config", "pyproject.toml"),
        ("pyproject.toml: tool.llm-proxy is not a table",),
        files={"pyproject.toml": "[tool]\nllm-proxy = 1"},
    ),
}


class TestMistakes:
    @each_row(("name", "mistake"), MISTAKES.items())
    async def test_a_mistake_is_reported_in_one_helpful_line(
        self, tmp_path: Path, name: str, mistake: Mistake
    ) -> None:
        folder = tmp_path / name
        folder.mkdir()
        for path, content in mistake.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        result = await run_command(*mistake.arguments, folder=folder, env=mistake.env)
        _assert_one_line(result)
        for text in mistake.expected_texts:
            if text != "llm-proxy.toml":
                assert text in result.stderr
        if "llm-proxy.toml" in mistake.expected_texts:
            assert "llm-proxy.toml" in result.stderr

    async def test_a_port_in_use(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            result = await run_command("replay", "--port", str(port), folder=tmp_path)
        _assert_one_line(result)
        assert f"port {port} on 127.0.0.1 is in use" in result.stderr
        assert "--port 0" in result.stderr

    async def test_an_upstream_that_is_the_proxy_itself(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        address = f"openai=http://localhost:{port}/v1"
        result = await run_command(
            "record", "--port", str(port), "--upstream", address, folder=tmp_path
        )
        _assert_one_line(result)
        assert f"--upstream {address}: this is the address of llm-proxy itself" in result.stderr

    async def test_a_folder_that_may_not_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "cassettes").mkdir(mode=0o000)
        result = await run_command(
            "replay", folder=tmp_path, preparation=_without_root_privileges()
        )
        (tmp_path / "cassettes").chmod(0o700)
        _assert_one_line(result)
        assert "cannot read cassettes: Permission denied" in result.stderr

    @each_row("option", ["--cassettes", "--spool"])
    @each_row("mode", ["record", "auto"])
    async def test_a_folder_that_may_not_be_written(
        self, tmp_path: Path, mode: str, option: str
    ) -> None:
        (tmp_path / "shut").mkdir(mode=0o555, exist_ok=True)
        arguments = ("--port", "0", option, "shut/below/it")
        result = await run_command(
            mode, *arguments, folder=tmp_path, preparation=_without_root_privileges()
        )
        _assert_one_line(result)
        assert f"cannot write to {option} shut/below/it: no permission to write to" in result.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == ["shut"]

    @pytest.mark.parametrize("option", ["--cassettes", "--spool"])
    async def test_a_folder_that_is_a_broken_link(self, tmp_path: Path, option: str) -> None:
        (tmp_path / "link").symlink_to("nowhere")
        result = await run_command("record", "--port", "0", option, "link/below", folder=tmp_path)
        _assert_one_line(result)
        assert (
            f"cannot write to {option} link/below: {tmp_path}/link is not a folder" in result.stderr
        )

    @pytest.mark.parametrize("arguments", [["replay"], ["auto", "--on-miss", "passthrough"]])
    async def test_a_folder_that_is_only_read_need_not_be_writable(
        self, tmp_path: Path, arguments: list[str]
    ) -> None:
        (tmp_path / "cassettes").mkdir(mode=0o555)
        result = await run_command(
            *arguments, "--", "true", folder=tmp_path, preparation=_without_root_privileges()
        )
        assert result.exit_code == 0

    async def test_the_folders_of_a_recording_are_not_made_before_there_is_one(
        self, tmp_path: Path
    ) -> None:
        result = await run_command("record", "--", "true", folder=tmp_path)
        assert result.exit_code == 0
        assert list(tmp_path.iterdir()) == []

    async def test_in_a_json_log_it_is_json_as_well(self, tmp_path: Path) -> None:
        result = await run_command(
            "replay", "--log-format", "json", "--", "no-such-command", folder=tmp_path
        )
        assert result.exit_code == 127
        last = json.loads(result.last_error_line)
        assert (last["level"], last["message"]) == (
            "error",
            "no-such-command: command not found",
        )


def _without_root_privileges() -> str:
    """Statements that take from a process what root may do with files (capabilities 1 and 2)."""
    if os.geteuid() != 0:
        return ""
    if sys.platform != "linux":
        pytest.skip("root reads everything, and has no capabilities here that could be dropped")
    return """
import ctypes
libc = ctypes.CDLL(None)
header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert libc.capget(header, sets) == 0
for effective_or_permitted in (0, 1): sets[effective_or_permitted] &= ~0b110
assert libc.capset(header, sets) == 0
"""


def _assert_one_line(result: CommandResult) -> None:
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("llm-proxy: ")
    assert result.stderr.count("\n") == 1


class TestSettings:
    async def test_a_flag_wins_over_the_environment_and_that_over_the_file(
        self, tmp_path: Path
    ) -> None:
        async def cassettes_folder(*arguments: str, **env: str) -> str:
            result = await run_command("replay", *arguments, "--", "true", folder=tmp_path, env=env)
            assert result.exit_code == 0, result.stderr
            return str(re.findall("cassettes in (.*)", result.stderr)[-1])

        assert await cassettes_folder() == "./cassettes"
        (tmp_path / "llm-proxy.toml").write_text("cassettes = 'of-the-file'\n")
        in_file = str(tmp_path / "of-the-file")
        assert await cassettes_folder() == in_file
        assert await cassettes_folder(LLM_PROXY_CASSETTES="of-the-variable") == "./of-the-variable"
        everywhere = await cassettes_folder(
            "--cassettes", "of-the-flag", LLM_PROXY_CASSETTES="other"
        )
        assert everywhere == "./of-the-flag"

    @each_row("place", ["flag", "variable", "file", "pyproject"])
    async def test_a_setting_works_from_every_place(self, tmp_path: Path, place: str) -> None:
        folder = tmp_path / place
        folder.mkdir()
        env = {"LLM_PROXY_STRICT": "true"} if place == "variable" else {}
        if place == "file":
            (folder / "llm-proxy.toml").write_text("strict = true\n")
        if place == "pyproject":
            (folder / "pyproject.toml").write_text("[tool.llm-proxy]\nstrict = true\n")
        options = ["--strict"] if place == "flag" else []
        result, _ = await run_requests(
            "replay", *options, folder=folder, env=env, requests=[raw_chat_request("missing")]
        )
        assert result.exit_code == 1

    async def test_the_nearest_file_counts_and_its_paths_are_its_own(self, tmp_path: Path) -> None:
        (tmp_path / "llm-proxy.toml").write_text("cassettes = 'tapes'\n")
        below = tmp_path / "a" / "b"
        below.mkdir(parents=True)
        (below / "pyproject.toml").write_text("[tool.other]\n")
        result = await run_command("replay", "--", "true", folder=below)
        assert f"cassettes in {tmp_path / 'tapes'}" in result.stderr

    @pytest.mark.parametrize("given", ["flag", "variable"])
    async def test_a_file_can_be_named(self, tmp_path: Path, given: str) -> None:
        config_file = tmp_path / "elsewhere" / "ci.toml"
        config_file.parent.mkdir()
        config_file.write_text("[upstream]\nopenai = 'nonsense'\n")
        options = ["--config", str(config_file)] if given == "flag" else []
        env = {"LLM_PROXY_CONFIG": str(config_file)} if given == "variable" else {}
        result = await run_command("record", *options, "--", "true", folder=tmp_path, env=env)
        assert (result.exit_code, "'nonsense'" in result.stderr) == (2, True)

    async def test_a_file_names_upstreams_in_a_table(self, tmp_path: Path) -> None:
        async with upstream(chunked([DONE_EVENT])) as provider:
            (tmp_path / "llm-proxy.toml").write_text(f'[upstream]\nopenai = "{provider.url}"\n')
            result = await run_command("record", *_client_command("hi"), folder=tmp_path)
        assert (result.exit_code, result.stdout) == (0, DONE_EVENT.decode())

    async def test_a_variable_names_several_upstreams(self, tmp_path: Path) -> None:
        async with upstream(chunked([DONE_EVENT])) as provider:
            env = {"LLM_PROXY_UPSTREAM": f"groq=http://127.0.0.1:1 openai={provider.url}"}
            result = await run_command("record", *_client_command("hi"), folder=tmp_path, env=env)
        assert (result.exit_code, result.stdout) == (0, DONE_EVENT.decode())


async def _served_mode(url: str) -> str:
    return str(json.loads((await send_request(url, HEALTH)).body)["mode"])


class TestModes:
    @each_row(
        ("vcr_mode", "mode"),
        [("none", "replay"), ("all", "record"), ("new_episodes", "auto"), ("once", "auto")],
    )
    async def test_the_mode_names_of_vcr_are_accepted(
        self, tmp_path: Path, vcr_mode: str, mode: str
    ) -> None:
        async with running_server(vcr_mode, folder=tmp_path) as running:
            assert await _served_mode(running.url) == mode

    @each_row(
        ("ci", "mode"), [("true", "replay"), ("1", "replay"), ("false", "auto"), ("", "auto")]
    )
    async def test_in_ci_auto_replays(self, tmp_path: Path, ci: str, mode: str) -> None:
        async with running_server("auto", folder=tmp_path, env={"CI": ci}) as running:
            assert await _served_mode(running.url) == mode

    async def test_in_ci_auto_records_nothing_and_says_so(self, tmp_path: Path) -> None:
        async with upstream(chunked([DONE_EVENT])) as provider:
            result = await run_command(
                "auto", "--upstream", f"default={provider.url}", *_client_command("hi"),
                folder=tmp_path, env={"CI": "true"},
            )  # fmt: skip
        message = "the environment variable CI is set, so auto only replays cassettes"
        assert message in result.stderr
        assert "cassette_not_found" in result.stdout
        assert provider.requests == []
        assert not (tmp_path / "cassettes").exists()

    @each_row(
        ("mode", "env", "config", "is_answered"),
        [
            ("replay", {"LLM_PROXY_ON_MISS": "record"}, "", True),
            ("replay", {}, "on-miss = 'passthrough'", True),
            ("replay", {"LLM_PROXY_ON_MISS": "fail"}, "", False),
            ("auto", {"CI": "1", "LLM_PROXY_ON_MISS": "record"}, "", True),
            ("auto", {"CI": "1"}, "", True),
            ("replay", {"LLM_PROXY_UPSTREAM": "garbage", "LLM_PROXY_IDLE_TIMEOUT": "x"}, "", True),
            ("replay", {}, "spool = 1\nidle-timeout = 'x'", True),
        ],
    )
    async def test_settings_for_other_commands_have_no_effect(
        self, tmp_path: Path, mode: str, env: dict[str, str], config: str, is_answered: bool
    ) -> None:
        (tmp_path / "llm-proxy.toml").write_text(config)
        result = await run_command(
            mode, "--mock", "{reply: Hello}", *_client_command("hi"), folder=tmp_path, env=env
        )
        assert ("Hello" in result.stdout) is is_answered, result.stderr
        assert result.exit_code == 0

    async def test_version(self, tmp_path: Path) -> None:
        result = await run_command("--version", folder=tmp_path)
        assert (result.exit_code, result.stdout, result.stderr) == (
            0,
            f"llm-proxy {__version__}\n",
            "",
        )

    @each_row("command", [(), ("record",), ("replay",), ("auto",)])
    async def test_help_teaches_with_examples(
        self, tmp_path: Path, command: tuple[str, ...]
    ) -> None:
        result = await run_command(*command, "--help", folder=tmp_path)
        assert (result.exit_code, result.stderr) == (0, "")
        name = command[0] if command else "record"
        assert f"\n    llm-proxy {name} -- " in result.stdout


class TestServing:
    async def test_the_port_stands_in_its_file_while_we_listen(self, tmp_path: Path) -> None:
        async with running_server("replay", folder=tmp_path) as running:
            port = (tmp_path / "port").read_text()
            assert running.url == f"http://127.0.0.1:{port.strip()}"
            assert (await send_request(running.url, HEALTH)).status == 200
            running.send(signal.SIGTERM)
            result = await running.wait_for_end()
        assert result.exit_code == 0
        assert not (tmp_path / "port").exists()
        assert result.stdout == ""
        assert f"export OPENAI_BASE_URL={running.url}/v1" in result.stderr

    async def test_whoever_reads_the_port_can_stop_it_at_once(self, tmp_path: Path) -> None:
        options = ("--port", "0", "--port-file", str(tmp_path / "port"))
        for _ in range(3):
            async with running_command("replay", *options, folder=tmp_path) as running:
                await wait_for_first_line(tmp_path / "port")
                running.send(signal.SIGTERM)
                result = await running.wait_for_end()
            assert result.exit_code == 0
            assert not (tmp_path / "port").exists()

    async def test_a_json_log_is_json_lines_on_stderr_and_nothing_on_stdout(
        self, tmp_path: Path
    ) -> None:
        options = ["--log-format", "json"]
        async with running_server("replay", *options, folder=tmp_path) as running:
            await send_request(running.url, raw_chat_request("one\\nmissing"))
            await send_request(running.url, b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
            async with open_line(running.url) as client:
                await client.send(b"garbage\r\n\r\n")
                await client.read_until_closed()
            running.send(signal.SIGINT)
            result = await running.wait_for_end()
        assert result.stdout == ""
        lines: list[dict[str, Any]] = [
            json.loads(splitline) for splitline in result.stderr.splitlines()
        ]
        assert all({"at", "level", "message"} <= set(item) for item in lines)
        warnings = [item["message"] for item in lines if item["level"] == "warning"]
        beginnings = [
            "./cassettes does not exist", "no cassette matches",
        ]  # fmt: skip
        assert [item["label"] for item in lines if "label" in item] == ["miss"]
        assert lines[-1]["message"] == (
            "replayed 0 responses from 0 cassettes, 1 miss, refused 1 request"
        )
        assert len(warnings) == len(beginnings)
        assert all(
            message.startswith(begin) for message, begin in zip(warnings, beginnings, strict=True)
        )

    @each_row("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    async def test_it_stops_at_once_when_nothing_runs(
        self, tmp_path: Path, number: signal.Signals
    ) -> None:
        loop = asyncio.get_running_loop()
        async with running_server("record", folder=tmp_path) as running:
            async with open_line(running.url) as used, open_line(running.url) as fresh:
                await used.send(HEALTH.replace(b"\r\n", b"\r\nHost: HOST\r\n", 1))
                assert (await used.read_response()).status == 200
                started_at = loop.time()
                running.send(number)
                result = await running.wait_for_end()
                duration_s = loop.time() - started_at
                assert await fresh.read_until_closed() == b""
        assert result.exit_code == 0
        assert duration_s < 20  # not the 30 s that a stop may take

    async def test_nohup_is_respected(self, tmp_path: Path) -> None:
        script = "import os, signal; os.kill(os.getppid(), signal.SIGHUP); print('alive')"
        result = await run_command(
            "replay",
            *_python_command(script),
            folder=tmp_path,
            preparation="import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)",
        )
        assert (result.exit_code, result.stdout) == (0, "alive\n")


class TestStoppingWhileItRecords:
    async def test_the_first_signal_lets_the_stream_end(self, tmp_path: Path) -> None:
        may_end = asyncio.Event()

        async def script(connection: Connection) -> None:
            await connection.begin()
            await connection.chunk(chat_event("first"))
            await may_end.wait()
            await connection.chunk(DONE_EVENT)
            await connection.finish()

        async with upstream(script) as provider:
            options = ["--upstream", f"default={provider.url}"]
            async with running_server("record", *options, folder=tmp_path) as running:
                client = asyncio.create_task(send_request(running.url, raw_chat_request()))
                await wait_until(lambda: len(provider.requests) == 1)
                running.send(signal.SIGINT)
                await wait_until(lambda: _refuses_connections(running.url))
                may_end.set()
                response = await client
                result = await running.wait_for_end()
        assert (result.exit_code, response.ending, response.body) == (
            0,
            "clean",
            chat_event("first") + DONE_EVENT,
        )
        [cassette] = load_cassettes(tmp_path)
        assert cassette_outcome(cassette).is_complete
        assert "waiting for 1 stream; press Ctrl-C again to stop immediately" in result.stderr
        assert "recorded 1 exchange, 1 complete" in result.stderr

    async def test_the_second_signal_stops_at_once_and_nothing_is_lost(
        self, tmp_path: Path
    ) -> None:
        async def script(connection: Connection) -> None:
            await connection.begin()
            await connection.chunk(chat_event("all that came"))
            await connection.reader.read()

        loop = asyncio.get_running_loop()
        async with upstream(script) as provider:
            options = ["--upstream", f"default={provider.url}"]
            async with running_server("record", *options, folder=tmp_path) as running:
                async with open_line(running.url, timeout_s=20) as client:
                    await client.send(raw_chat_request("hi", "Host: HOST"))
                    await client.reader.readuntil(b"came")
                    running.send(signal.SIGINT)
                    await wait_until(lambda: _refuses_connections(running.url))
                    started_at = loop.time()
                    running.send(signal.SIGINT)
                    result = await running.wait_for_end()
                    duration_s = loop.time() - started_at
                    rest = await client.read_until_closed()
        assert result.exit_code == 0
        assert duration_s < 20  # not the 30 s that a stop may take
        assert not rest.endswith(b"0\r\n\r\n")
        [cassette] = load_cassettes(tmp_path)
        assert (cassette.response_end.ending, cassette.response_body) == (
            Ending.KILLED,
            chat_event("all that came"),
        )
        assert "partial: llm-proxy was stopped" in result.stderr
        assert list((tmp_path / "state").rglob("*.spool")) == []


def _refuses_connections(url: str) -> bool:
    with socket.socket() as probe:
        host, _, port = url.removeprefix("http://").partition(":")
        return probe.connect_ex((host, int(port))) != 0


def test_a_child_of_these_tests_sees_nothing_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-machine")
    assert "OPENAI_API_KEY" not in environment(tmp_path)
