"""`llm-proxy chat`: prints the response to a prompt as it arrives."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from case_tables import each_row
from cli_process import run_command, running_command
from llm_proxy.shell.running.environment import child_environment
from scenario_server import (
    JsonObject,
    scenario_document,
    serve_scenarios,
    single_turn_scenario,
    text_turn,
    tool_call_turn,
)
from stub_upstream import Connection, fixed_length, upstream
from terminal import run_on_terminal
from test_cli_pipes import CLOSED_PIPE_EXIT_CODE, closed_pipe, run_with_stdout
from waiting import wait_until

PROMPT: Final = "refund"
"""The prompt that selects the scenario of a test."""
PROVIDERS: Final = {
    "openai": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "openai-completions": "/v1/completions",
    "anthropic": "/v1/messages",
    "gemini": "/v1/models/a-model:streamGenerateContent",
    "gemini-interactions": "/v1/interactions",
    "cohere": "/v2/chat",
    "bedrock": "/model/a-model/converse-stream",
    "mistral": "/v1/chat/completions",
    "groq": "/openai/v1/chat/completions",
    "deepseek": "/chat/completions",
    "openrouter": "/api/v1/chat/completions",
    "xai": "/v1/chat/completions",
    "vllm": "/v1/chat/completions",
    "llamacpp": "/v1/chat/completions",
    "ollama": "/api/chat",
    "local": "/api/chat",
}
"""The path of each provider's requests."""
NO_SERVER: Final = "http://127.0.0.1:1"


def variables(url: str) -> dict[str, str]:
    """The variables that make a server the one of every provider, as the proxy sets them."""
    return child_environment({}, url)


@each_row("provider", PROVIDERS)
async def test_the_response_of_every_provider_is_all_that_stdout_has(
    tmp_path: Path, provider: str
) -> None:
    scenario = single_turn_scenario("text", assistantText="Grüße,\n3 days.", reasoningContent="Hm.")
    async with serve_scenarios(tmp_path, scenario) as server:
        result = await run_command(
            *("chat", "-p", provider, "-m", "a-model", PROMPT),
            folder=tmp_path,
            env=variables(server.url),
        )
        [entry] = server.entries

    assert (result.exit_code, result.stdout, result.stderr) == (0, "Grüße,\n3 days.\n", "")
    assert entry.path == PROVIDERS[provider]
    assert entry.model == "a-model"


async def test_the_help_names_every_provider(tmp_path: Path) -> None:
    result = await run_command("chat", "--help", folder=tmp_path)
    text = " ".join(result.stdout.split()).replace("- ", "-")

    assert [name for name in PROVIDERS if f"{name}," not in text and f" {name} (" not in text] == []


async def test_without_options_the_provider_is_openai(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, scenario_document(text_turn("Hello.\n"))) as server:
        result = await run_command("chat", PROMPT, folder=tmp_path, env=variables(server.url))
        [entry] = server.entries

    assert (result.exit_code, result.stdout) == (0, "Hello.\n")
    assert (entry.path, entry.model) == ("/v1/chat/completions", "default")


@each_row(
    ("arguments", "env", "message"),
    [
        ([], {}, "the prompt on stdin is empty; pass PROMPT or text on stdin"),
        ([" \n"], {}, "PROMPT is empty; write the question after the options"),
        (["a", "b"], {}, "unexpected argument 'b'; see python -m llm_proxy chat --help"),
        (["-p", "antropic", "a"], {}, "unknown provider 'antropic'; did you mean 'anthropic'?"),
        (
            ["-p", "x", "a"],
            {},
            f"unknown provider 'x'; known: {', '.join(PROVIDERS)}",
        ),
        (
            ["a"],
            {"OPENAI_BASE_URL": "here"},
            (
                "OPENAI_BASE_URL: 'here' is not an http:// or https:// URL; correct or unset "
                "OPENAI_BASE_URL"
            ),
        ),
    ],
    ids=["no prompt", "empty", "two prompts", "misspelled", "unknown", "base URL"],
)
async def test_a_mistake_in_the_command_is_reported_in_one_line(
    tmp_path: Path, arguments: list[str], env: Mapping[str, str], message: str
) -> None:
    result = await run_command("chat", *arguments, folder=tmp_path, env=env)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"llm-proxy: error: {message}\n"


async def test_a_server_that_does_not_run_is_reported(tmp_path: Path) -> None:
    result = await run_command(
        *("chat", "-p", "local", PROMPT), folder=tmp_path, env=variables(NO_SERVER)
    )

    assert (result.exit_code, result.stdout, result.stderr) == (
        1,
        "",
        (
            f"llm-proxy: error: Failed to connect to local server at {NO_SERVER}: "
            "Connection refused\n"
        ),
    )


async def test_the_provider_s_reason_for_an_error_is_reported(tmp_path: Path) -> None:
    body = b'{"error": {"message": "Incorrect API key", "type": "invalid_request_error"}}'
    async with upstream(fixed_length(body, status="401 Unauthorized")) as server:
        result = await run_command("chat", PROMPT, folder=tmp_path, env=variables(server.url))

    assert (result.exit_code, result.stdout, result.stderr) == (
        1,
        "",
        "llm-proxy: error: HTTP 401: Unauthorized: Incorrect API key\n",
    )


async def test_a_retry_is_reported_before_its_response(tmp_path: Path) -> None:
    failure = {
        "failuresBeforeSuccess": 1,
        "failureStatus": "rate_limit",
        "failureMessage": "Slow down.",
        "failureRetryAfterMs": 10,
    }
    scenario = scenario_document(text_turn("Hello.", **failure))
    async with serve_scenarios(tmp_path, scenario) as server:
        result = await run_command("chat", PROMPT, folder=tmp_path, env=variables(server.url))

    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "Hello.\n",
        "llm-proxy: HTTP 429: Too Many Requests: Slow down.; retrying in 0.0 s\n",
    )


async def test_a_cut_stream_fails_after_the_text_that_arrived(tmp_path: Path) -> None:
    scenario = scenario_document(
        text_turn("One two three.", chunks={"by": "words"}), faults=["truncate,after=3"]
    )
    async with serve_scenarios(tmp_path, scenario) as server:
        result = await run_command("chat", PROMPT, folder=tmp_path, env=variables(server.url))

    assert (result.exit_code, result.stdout) == (1, "One two\n")
    assert result.stderr == (
        "llm-proxy: error: the response ended before it was complete: "
        "no [DONE], choice 0 unfinished\n"
    )


async def test_a_response_that_reaches_its_limit_is_reported(tmp_path: Path) -> None:
    scenario = single_turn_scenario("text", assistantText="One", finishReason="length")
    async with serve_scenarios(tmp_path, scenario) as server:
        result = await run_command("chat", PROMPT, folder=tmp_path, env=variables(server.url))

    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "One\n",
        "llm-proxy: the response was cut off at its token limit\n",
    )


TOO_LONG: Final = "error: Request exceeds token limit: 8193 > 8192 for model gpt-4"


@each_row(
    ("tokens", "options", "exit_code", "message"),
    [
        (7_800, [], 0, "7,800 of 8,192 tokens of gpt-4 are used"),
        (8_193, [], 1, f"{TOO_LONG}; shorten the prompt, or set --token-limit gpt-4=TOKENS"),
        (8_193, ["--token-limit", "gpt-4=9000"], 0, "8,193 of 9,000 tokens of gpt-4 are used"),
        (
            1,
            ["--token-limit", "gpt-4"],
            2,
            "error: --token-limit: expected MODEL=TOKENS with at least 1 token, got 'gpt-4'",
        ),
    ],
    ids=["nearly too long", "too long", "extended", "invalid"],
)
async def test_a_prompt_near_the_limit_of_its_model_is_reported(
    tmp_path: Path, tokens: int, options: list[str], exit_code: int, message: str
) -> None:
    scenario = scenario_document(text_turn(), match={"model": "*"})
    async with serve_scenarios(tmp_path, scenario) as server:
        result = await run_command(
            *("chat", "-m", "gpt-4", *options, "word" * tokens),
            folder=tmp_path,
            env=variables(server.url),
        )

    assert (result.exit_code, result.stderr) == (exit_code, f"llm-proxy: {message}\n")


async def test_the_settings_file_extends_the_token_limits(tmp_path: Path) -> None:
    (tmp_path / "llm-proxy.toml").write_text('token-limit = ["gpt-4=9000"]\n')
    scenario = scenario_document(text_turn(), match={"model": "*"})
    async with serve_scenarios(tmp_path, scenario) as server:
        result = await run_command(
            *("chat", "-m", "gpt-4", "word" * 8_500), folder=tmp_path, env=variables(server.url)
        )

    assert result.stderr == "llm-proxy: 8,500 of 9,000 tokens of gpt-4 are used\n"


async def test_a_model_that_calls_a_tool_is_reported_after_one_request(tmp_path: Path) -> None:
    async with serve_scenarios(
        tmp_path, scenario_document(tool_call_turn("get_weather"))
    ) as server:
        result = await run_command("chat", PROMPT, folder=tmp_path, env=variables(server.url))
        assert len(server.entries) == 1

    assert (result.exit_code, result.stdout, result.stderr) == (
        1,
        "",
        (
            '→ get_weather {"city":"Rome"}\n'
            "llm-proxy: error: the model calls the tool 'get_weather', but chat offers no tools; "
            "set --tools\n"
        ),
    )


async def test_ctrl_c_ends_the_request_and_the_line(tmp_path: Path) -> None:
    closed = asyncio.Event()

    async def one_piece(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(
            b'data: {"choices": [{"index": 0, "delta": {"content": "One"}}]}\n\n'
        )
        await connection.reader.read()
        closed.set()

    async with (
        upstream(one_piece) as server,
        running_command("chat", PROMPT, folder=tmp_path, env=variables(server.url)) as running,
    ):
        assert running.process.stdout is not None
        assert await running.process.stdout.readexactly(3) == b"One"
        running.send(signal.SIGINT)
        result = await running.wait_for_end()
        await wait_until(closed.is_set)

    assert (result.exit_code, result.stdout, result.stderr) == (130, "\n", "")


@each_row("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
async def test_a_closed_pipe_ends_the_command_silently(tmp_path: Path, unbuffered: str) -> None:
    async with serve_scenarios(tmp_path, scenario_document(text_turn())) as server:
        result = await asyncio.to_thread(
            run_with_stdout,
            closed_pipe(),
            *("chat", PROMPT),
            folder=tmp_path,
            unbuffered=unbuffered,
            env=variables(server.url),
        )

    assert result == (CLOSED_PIPE_EXIT_CODE, "")


HOSTILE_TEXT: Final = "Hi\x1b]0;owned\x07\u202e!\nBye\r"


async def test_control_characters_reach_a_pipe_as_they_are(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, scenario_document(text_turn(HOSTILE_TEXT))) as server:
        result = await run_command("chat", PROMPT, folder=tmp_path, env=variables(server.url))

    assert (result.exit_code, result.stdout) == (0, f"{HOSTILE_TEXT}\n")


async def chat_on_terminal(folder: Path, scenario: JsonObject) -> tuple[int, str]:
    """The exit code and the output of a chat on a terminal."""
    async with serve_scenarios(folder, scenario) as server:
        return await asyncio.to_thread(
            run_on_terminal, "chat", PROMPT, folder=folder, env=variables(server.url)
        )


async def test_control_characters_are_escaped_on_a_terminal(tmp_path: Path) -> None:
    code, output = await chat_on_terminal(tmp_path, scenario_document(text_turn(HOSTILE_TEXT)))

    assert code == 0
    assert output == "Hi\\x1b]0;owned\\x07\\u202e!\r\nBye\\r\r\n"


async def test_reasoning_is_dim_on_a_terminal_with_lines_of_its_own(tmp_path: Path) -> None:
    scenario = single_turn_scenario("text", assistantText="3 days.", reasoningContent="Hm\x1b[1m.")
    # The dialect of the default provider has no reasoning.
    async with serve_scenarios(tmp_path, scenario) as server:
        code, output = await asyncio.to_thread(
            run_on_terminal,
            *("chat", "-p", "local", PROMPT),
            folder=tmp_path,
            env=variables(server.url),
        )

    assert code == 0
    plain = output.replace("\x1b[2m", "").replace("\x1b[0m", "")
    assert plain == "Hm\\x1b[1m.\r\n3 days.\r\n"
    assert output.startswith("\x1b[2m")
    assert output.endswith("3 days.\r\n")


async def test_an_encoding_without_the_characters_of_the_response_escapes_them(
    tmp_path: Path,
) -> None:
    async with serve_scenarios(tmp_path, scenario_document(text_turn("Grüße"))) as server:
        result = await run_command(
            *("chat", PROMPT),
            folder=tmp_path,
            env=variables(server.url) | {"PYTHONIOENCODING": "ascii"},
        )

    assert (result.exit_code, result.stdout) == (0, "Gr\\xfc\\xdfe\n")


@each_row("provider", PROVIDERS)
async def test_a_recorded_chat_is_replayed_without_a_miss(tmp_path: Path, provider: str) -> None:
    command = (sys.executable, "-m", "llm_proxy", "chat", "-p", provider, PROMPT)
    async with serve_scenarios(
        tmp_path, scenario_document(text_turn("One two three.", chunks={"by": "words"}))
    ) as server:
        recorded = await run_command(
            *("record", "--upstream", f"default={server.url}", "--", *command), folder=tmp_path
        )
    replayed = await run_command("replay", "--strict", "--", *command, folder=tmp_path)

    assert (recorded.exit_code, recorded.stdout) == (0, "One two three.\n"), recorded.stderr
    assert (replayed.exit_code, replayed.stdout) == (0, "One two three.\n"), replayed.stderr
    assert replayed.last_error_line == ("llm-proxy: replayed 1 response from 1 cassette, 0 misses")


async def test_control_characters_in_an_error_are_escaped(tmp_path: Path) -> None:
    body = b'{"error": {"message": "\\u001b]0;title\\u0007 \\u202e"}}'
    async with upstream(fixed_length(body, status="401 Unauthorized")) as server:
        result = await run_command("chat", PROMPT, folder=tmp_path, env=variables(server.url))

    assert result.stderr == (
        "llm-proxy: error: HTTP 401: Unauthorized: \\x1b]0;title\\x07 \\u202e\n"
    )


async def test_a_response_without_text_fails_with_its_reason(tmp_path: Path) -> None:
    body = b'{"choices": [{"index": 0, "message": {}, "finish_reason": "stop"}]}'
    async with upstream(fixed_length(body)) as server:
        result = await run_command("chat", PROMPT, folder=tmp_path, env=variables(server.url))

    assert (result.exit_code, result.stdout, result.stderr) == (
        1,
        "",
        "llm-proxy: error: the response has no text (finish reason: stop)\n",
    )


async def test_upstreams_in_the_settings_do_not_bypass_the_proxy(tmp_path: Path) -> None:
    command = ("--", sys.executable, "-m", "llm_proxy", "chat", PROMPT)
    settings = tmp_path / "llm-proxy.toml"
    async with serve_scenarios(tmp_path, scenario_document(text_turn())) as server:
        settings.write_text(f'upstream = ["openai={server.url}", "custom={NO_SERVER}"]\n')
        direct = await run_command("chat", PROMPT, folder=tmp_path)
        recorded = await run_command("record", *command, folder=tmp_path)
    replayed = await run_command("replay", "--strict", *command, folder=tmp_path)

    assert (direct.exit_code, direct.stdout) == (0, "Hello.\n"), direct.stderr
    assert recorded.last_error_line == "llm-proxy: recorded 1 exchange, 1 complete"
    assert (replayed.exit_code, replayed.stdout) == (0, "Hello.\n"), replayed.stderr
