"""`llm-proxy models`: lists, downloads, shows and deletes the models of a server."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import ollama
import pytest

from case_tables import each_row
from cli_process import CommandResult, run_command, running_command
from ollama_server import SMALL_MODEL, OllamaServer, Stop, description, ollama_server
from stub_upstream import Connection, Upstream, fixed_length, upstream
from terminal import CONTROLLING_TERMINAL, run_on_terminal

NAME: Final = "llama3.2"
WEIGHTS: Final = SMALL_MODEL[0].status
TEMPLATE: Final = SMALL_MODEL[1].status
LOST: Final = "POST /api/pull: the connection was lost"
CTRL_C: Final = "\x03"
HOSTILE: Final = "m\x1b]0;owned\x07\u202e"


async def models(folder: Path, url: str, *arguments: str) -> CommandResult:
    """Run a command of the group with this server."""
    return await run_command("models", *arguments, folder=folder, env={"OLLAMA_HOST": url})


# ls, show and rm


async def test_the_list_has_names_sizes_and_times(tmp_path: Path) -> None:
    async with ollama_server("llama3.2:latest", "qwen3:8b") as server:
        result = await models(tmp_path, server.url, "ls")
        of_local = await models(tmp_path, server.url, "ls", "--provider", "local")

    assert result == of_local
    assert (result.exit_code, result.stderr) == (0, "llm-proxy: 2 models, 4.0 GB\n")
    assert result.stdout.splitlines() == [
        "MODEL              SIZE  MODIFIED (UTC)",
        "llama3.2:latest  2.0 GB  2025-08-20 13:47",
        "qwen3:8b         2.0 GB  2025-08-20 13:47",
    ]


async def test_the_list_as_json_is_one_document(tmp_path: Path) -> None:
    async with ollama_server("qwen3:8b") as server:
        result = await models(tmp_path, server.url, "ls", "--json")

    [model] = json.loads(result.stdout)["models"]
    assert (model["name"], model["size"]) == ("qwen3:8b", 2_000_001_500)
    assert (result.exit_code, result.stderr) == (0, "")


async def test_a_server_without_models_has_an_empty_list(tmp_path: Path) -> None:
    async with ollama_server() as server:
        result = await models(tmp_path, server.url, "ls")

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "llm-proxy: 0 models, 0 B\n"


async def test_values_that_the_server_omits_are_left_out(tmp_path: Path) -> None:
    body = b'{"models": [{"name": "a", "modified_at": "yesterday"}, {"name": "b"}]}'
    async with upstream(fixed_length(body), fixed_length(b'{"license": ""}')) as server:
        listed = await models(tmp_path, server.url, "ls")
        shown = await models(tmp_path, server.url, "show", "a")

    assert listed.stdout.splitlines()[1:] == ["a            yesterday", "b"]
    assert (shown.exit_code, shown.stdout) == (0, "a\n")


async def test_show_prints_the_properties_of_a_model(tmp_path: Path) -> None:
    async with ollama_server("qwen3:8b") as server:
        result = await models(tmp_path, server.url, "show", "qwen3:8b")

    assert (result.exit_code, result.stderr) == (0, "")
    assert (
        result.stdout
        == """\
qwen3:8b
  family            llama
  parameters        3.2B
  quantisation      Q4_K_M
  context length    131072
  embedding length  3072
  capabilities      completion, tools
  options           stop           "<|im_end|>"
                    temperature    0.6
  template          {{ .System }}
                    {{ .Prompt }}
  license           Apache License
  modified          2025-08-20 13:47 UTC
"""
    )


async def test_show_as_json_is_the_response_of_the_server(tmp_path: Path) -> None:
    async with ollama_server("qwen3:8b") as server:
        result = await models(tmp_path, server.url, "show", "qwen3:8b", "--json")

    assert json.loads(result.stdout) == description("qwen3:8b")


async def test_rm_deletes_models(tmp_path: Path) -> None:
    async with ollama_server("llama3.2:latest", "qwen3:8b", "phi4:14b") as server:
        result = await models(tmp_path, server.url, "rm", NAME, "phi4:14b")

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "llm-proxy: deleted llama3.2\nllm-proxy: deleted phi4:14b\n"
    assert [*server.models] == ["qwen3:8b"]


@each_row("command", ["show", "rm"])
@each_row(
    ("known", "hint"),
    [
        (["llama3.2:latest", "qwen3:8b"], "did you mean 'llama3.2:latest'?"),
        (["qwen3:8b", "phi4:14b"], "known: qwen3:8b, phi4:14b"),
        ([], "run llm-proxy models pull to download a model"),
    ],
    ids=["misspelled", "another", "none stored"],
)
async def test_an_unknown_model_is_reported_with_the_known_ones(
    tmp_path: Path, command: str, known: Sequence[str], hint: str
) -> None:
    async with ollama_server(*known) as server:
        result = await models(tmp_path, server.url, command, "lama3.2")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"llm-proxy: error: unknown model 'lama3.2'; {hint}\n"


# Mistakes


@each_row(
    ("arguments", "message"),
    [
        (
            ["ls", "-p", "openai"],
            "openai does not manage models; set --provider to ollama or local",
        ),
        (["ls", "-p", "olama"], "unknown provider 'olama'; did you mean 'ollama'?"),
        (["pull", "m", "-p", "x"], "unknown provider 'x'; known: ollama, local"),
        (["pull"], "missing argument MODEL; see python -m llm_proxy models pull --help"),
        (["rm"], "missing argument MODEL...; see python -m llm_proxy models rm --help"),
        (["lst"], "unknown command 'lst'; did you mean 'ls'?"),
    ],
    ids=["provider without models", "misspelled", "unknown", "no model", "no models", "command"],
)
async def test_a_mistake_in_the_command_is_reported_in_one_line(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    result = await run_command("models", *arguments, folder=tmp_path)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"llm-proxy: error: {message}\n"


async def test_the_group_alone_prints_its_help(tmp_path: Path) -> None:
    result = await run_command("models", folder=tmp_path)

    assert "llm-proxy models pull llama3.2" in result.stdout + result.stderr


@each_row("arguments", [["ls"], ["pull", "m"], ["show", "m"], ["rm", "m"]])
async def test_a_server_that_does_not_run_is_reported_with_how_to_start_it(
    tmp_path: Path, arguments: list[str], unreachable_url: str
) -> None:
    result = await models(tmp_path, unreachable_url, *arguments)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"llm-proxy: error: Failed to connect to ollama at {unreachable_url}: Connection refused; "
        "start the server with `ollama serve`, or set OLLAMA_HOST to its address\n"
    )


# pull


async def test_a_download_is_reported_in_lines(tmp_path: Path) -> None:
    async with ollama_server() as server:
        result = await models(tmp_path, server.url, "pull", NAME)

    assert (result.exit_code, result.stdout) == (0, "")
    shares = [f"{share} %" for share in range(0, 101, 10)]
    assert result.stderr.replace("llm-proxy: ", "").splitlines() == [
        "pulling manifest",
        *(f"{WEIGHTS}: {share} of 2.0 GB" for share in shares),
        *(f"{TEMPLATE}: {share} of 1.5 kB" for share in shares),
        "verifying sha256 digest",
        "writing manifest",
        "success",
        "downloaded llama3.2",
    ]
    assert [*server.models] == ["llama3.2:latest"]


async def test_a_download_as_json_is_the_events_of_the_server(tmp_path: Path) -> None:
    weights = SMALL_MODEL[0]
    async with ollama_server(stops=[(0.05, "close")]) as server:
        result = await models(tmp_path, server.url, "pull", NAME, "--json")

    events: list[dict[str, Any]] = [json.loads(line) for line in result.stdout.splitlines()]
    layer = {"status": WEIGHTS, "digest": weights.digest, "total": weights.size}
    assert (result.exit_code, result.stderr) == (0, "")
    assert events[:3] == [
        {"status": "pulling manifest"},
        {**layer, "completed": 0},
        {**layer, "completed": 100_000_000},
    ]
    wait_s = events[3].pop("wait_s")
    assert 0 < wait_s < 1
    assert events[3:6] == [
        {"status": "retrying", "error": LOST},
        {"status": "pulling manifest"},
        {**layer, "completed": 100_000_000},
    ]
    assert events[-1] == {"status": "success"}


async def test_an_error_of_the_server_ends_the_download(tmp_path: Path) -> None:
    async with ollama_server(stops=[(0.05, "error")]) as server:
        failed = await models(tmp_path, server.url, "pull", NAME)
        unknown = await models(tmp_path, server.url, "pull", "nothing", "--json")

    assert (failed.exit_code, unknown.exit_code) == (1, 1)
    assert failed.last_error_line == ("llm-proxy: error: POST /api/pull: max retries exceeded: EOF")
    assert unknown.stdout == '{"status":"pulling manifest"}\n'
    assert unknown.stderr == (
        "llm-proxy: error: POST /api/pull: pull model manifest: file does not exist\n"
    )
    assert len(server.requests) == 2


@each_row("stop", ["close", "reset", "end"])
async def test_a_connection_that_is_lost_is_resumed(tmp_path: Path, stop: Stop) -> None:
    async with ollama_server(stops=[(0.3, stop)]) as server:
        result = await models(tmp_path, server.url, "pull", NAME)

    assert result.exit_code == 0
    reason = f"the download ended after the status '{WEIGHTS}'" if stop == "end" else LOST[16:]
    [note] = re.findall(r"llm-proxy: POST /api/pull: (.*); resuming in 0\.[345] s\n", result.stderr)
    assert note == reason
    assert result.stderr.count(": 30 % of 2.0 GB") == 1
    assert len(server.requests) == 2


async def test_the_provider_local_does_not_resume(tmp_path: Path) -> None:
    async with ollama_server(stops=[(0.3, "reset")]) as server:
        result = await models(tmp_path, server.url, "pull", NAME, "-p", "local")

    assert (result.exit_code, result.last_error_line) == (1, f"llm-proxy: error: {LOST}")
    assert len(server.requests) == 1


@each_row("provider", [None, "local"])
async def test_a_signal_stops_a_download_and_the_next_command_resumes_it(
    tmp_path: Path, provider: str | None
) -> None:
    options = [] if provider is None else ["--provider", provider]
    async with (
        ollama_server(stops=[(0.4, "hold")]) as server,
        running_command(
            *("models", "pull", *options, NAME, "--json"),
            folder=tmp_path,
            env={"OLLAMA_HOST": server.url},
        ) as running,
    ):
        assert running.process.stdout is not None
        await running.process.stdout.readuntil(b'"completed":800000000}\n')
        running.send(signal.SIGINT)
        stopped = await running.wait_for_end()
        await server.wait_for_no_downloads()
        resumed = await models(tmp_path, server.url, "pull", *options, NAME)

    command = " ".join(["llm-proxy models pull", *options, NAME])
    assert stopped.exit_code == 130
    assert stopped.stderr == f"llm-proxy: stopped; to resume the download, run {command}\n"
    assert resumed.exit_code == 0
    assert resumed.stderr.splitlines()[1:3] == [
        f"llm-proxy: {WEIGHTS}: resuming at 800 MB of 2.0 GB",
        f"llm-proxy: {WEIGHTS}: 50 % of 2.0 GB",
    ]


# On a terminal


def visible(output: str) -> str:
    """The output to a terminal without escape sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output)


def printed_lines(output: str) -> list[str]:
    """The lines of an output, each as often as it was drawn."""
    return [line for line in re.split(r"[\r\n]", output) if line.strip()]


async def pull_on_terminal(
    folder: Path,
    server: OllamaServer | Upstream,
    *,
    columns: int = 100,
    ready: str = "\0",
    **options: Any,
) -> tuple[int, str]:
    """The exit code of a download on a terminal, and what it prints."""
    code, output = await asyncio.to_thread(
        run_on_terminal,
        *("models", "pull", NAME),
        folder=folder,
        columns=columns,
        env={"OLLAMA_HOST": server.url},
        **options,
    )
    return code, visible(output)


async def test_ctrl_c_leaves_the_bar_and_the_next_bar_begins_where_it_was(tmp_path: Path) -> None:
    async with ollama_server(stops=[(0.4, "hold"), (0.4, "hold")]) as server:
        server.report_gap_s = 0.02  # one after the other, as real ones
        stopped = await pull_on_terminal(
            tmp_path,
            server,
            preparation=CONTROLLING_TERMINAL,
            keys=[(" 40 %", CTRL_C)],
        )
        await server.wait_for_no_downloads()
        server.stops.clear()
        resumed = await pull_on_terminal(tmp_path, server)

    code, output = stopped
    assert code == 130
    assert "resuming at" not in output
    *_, bar, note = printed_lines(output)
    assert bar.startswith(WEIGHTS)
    assert " 40 % 0.8/2.0 GB" in bar
    assert note == "llm-proxy: stopped; to resume the download, run llm-proxy models pull llama3.2"

    code, output = resumed
    assert code == 0
    assert f"llm-proxy: {WEIGHTS}: resuming at 800 MB of 2.0 GB" in output
    percentages = [int(number) for number in re.findall(r"(\d+) %", output)]
    assert percentages[0] == 40
    *_, weights, template, note = printed_lines(output)
    assert weights.startswith(WEIGHTS)
    assert weights.rstrip().endswith("100 % 2.0/2.0 GB")
    assert template.startswith(TEMPLATE)
    assert template.rstrip().endswith("100 % 1.5/1.5 kB")
    assert note == "llm-proxy: downloaded llama3.2"


async def test_a_lost_connection_is_noted_above_the_bars(tmp_path: Path) -> None:
    async with ollama_server(stops=[(0.3, "reset")]) as server:
        code, output = await pull_on_terminal(tmp_path, server)

    assert code == 0
    [note] = [line for line in printed_lines(output) if "resuming in" in line]
    assert re.fullmatch(rf"llm-proxy: {LOST}; resuming in 0\.[345] s", note)


async def test_a_status_that_is_not_of_a_layer_is_shown_while_it_lasts(tmp_path: Path) -> None:
    async def verify(connection: Connection) -> None:
        await connection.begin(content_type="application/x-ndjson")
        await connection.chunk(b'{"status": "verifying sha256 digest"}\n')
        await connection.reader.read()

    async with upstream(verify) as server:
        code, output = await pull_on_terminal(
            tmp_path,
            server,
            preparation=CONTROLLING_TERMINAL,
            keys=[("verifying sha256 digest", CTRL_C)],
        )

    assert code == 130
    assert printed_lines(output)[-1].startswith("llm-proxy: stopped")


@each_row("columns", [40, 60, 80, 200])
async def test_bars_fit_the_terminal(tmp_path: Path, columns: int) -> None:
    async with ollama_server() as server:
        code, output = await pull_on_terminal(tmp_path, server, columns=columns)

    assert code == 0
    lines = printed_lines(output)
    # ^C needs two columns behind the bar.
    assert max(len(line) for line in lines if "━" in line) <= columns - 3
    assert all(len(line) <= columns for line in lines)


async def test_control_characters_of_the_server_are_escaped(tmp_path: Path) -> None:
    body = json.dumps({"status": HOSTILE}) + '\n{"error": "\\u001b]0;owned\\u0007"}\n'
    tags = json.dumps({"models": [{"name": HOSTILE}]}).encode()
    show = json.dumps({"template": HOSTILE, "details": {"family": HOSTILE}}).encode()
    async with upstream(
        fixed_length(body.encode(), "application/x-ndjson"), fixed_length(tags), fixed_length(show)
    ) as server:
        outputs = [
            await asyncio.to_thread(
                run_on_terminal,
                *("models", *arguments),
                folder=tmp_path,
                env={"OLLAMA_HOST": server.url},
            )
            for arguments in (["pull", NAME], ["ls"], ["show", HOSTILE])
        ]

    assert [code for code, _ in outputs] == [1, 0, 0]
    for _, output in outputs:
        assert not {"\x07", "\u202e"} & {*output}
        assert "\x1b]" not in output
        assert "\\x1b]0;owned" in output


# The official client, and recordings


async def test_the_requests_are_those_of_the_official_client(tmp_path: Path) -> None:
    """But for the name that document 002 sends, and a default that only the client sends."""
    async with ollama_server() as server:
        for arguments in (["pull", NAME], ["ls"], ["show", NAME], ["rm", NAME]):
            assert (await models(tmp_path, server.url, *arguments)).exit_code == 0
        requests = list(server.requests)
        server.downloaded.clear()
        async with ollama.AsyncClient(server.url) as client:
            reports = [report async for report in await client.pull(NAME, stream=True)]
            listed = await client.list()
            shown = await client.show(NAME)
            deleted = await client.delete(NAME)

    own_fields = [fields | {"name": fields["model"]} for _, fields in server.requests[4:] if fields]
    own_fields[0].pop("insecure")
    assert [line for line, _ in requests] == [line for line, _ in server.requests[4:]]
    assert [fields for _, fields in requests if fields] == own_fields
    assert reports[-1].status == "success"
    assert [model.model for model in listed.models] == ["llama3.2:latest"]
    assert shown.details is not None
    assert shown.details.quantization_level == "Q4_K_M"
    assert deleted.status == "success"
    assert not server.models


async def test_the_official_client_resumes_what_a_command_began(tmp_path: Path) -> None:
    async with ollama_server(stops=[(0.4, "error")]) as server:
        assert (await models(tmp_path, server.url, "pull", NAME)).exit_code == 1
        async with ollama.AsyncClient(server.url) as client:
            reports = [report async for report in await client.pull(NAME, stream=True)]
            assert (await client.pull(NAME)).status == "success"
            with pytest.raises(ollama.ResponseError, match="not found"):
                await client.show("nothing")

    assert reports[1].completed == 800_000_000


async def test_a_recorded_download_is_replayed_without_a_miss(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "llm_proxy", "models")
    results = {}
    async with ollama_server("qwen3:8b", stops=[(0.4, "reset")]) as server:
        for arguments in (["pull", NAME], ["ls"], ["show", NAME], ["rm", NAME]):
            results[arguments[0]] = await run_command(
                *("record", "--upstream", f"ollama={server.url}", "--", *command, *arguments),
                folder=tmp_path,
            )
    assert "recorded 2 exchanges, 1 complete" in results["pull"].stderr
    for name, arguments in {"pull": [NAME], "ls": [], "show": [NAME], "rm": [NAME]}.items():
        replayed = await run_command(
            *("replay", "--strict", "--pace", "instant", "--", *command, name, *arguments),
            folder=tmp_path,
        )

        assert replayed.exit_code == 0, replayed.stderr
        assert replayed.stdout == results[name].stdout
        assert "replayed 1 response from 1 cassette, 0 misses" in replayed.stderr
        if name == "pull":
            assert f"{WEIGHTS}: resuming at 800 MB of 2.0 GB" in replayed.stderr
