"""`llm-proxy chat`: what it sends (prompts, files, scripts, tools), and the events as NDJSON."""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from case_tables import each_row
from cli_process import CommandResult, run_command
from scenario_server import scenario_document, serve_scenarios, text_turn, tool_call_turn
from stub_upstream import fixed_length, upstream
from test_cli_chat import NO_SERVER, variables

ANSWER: Final = fixed_length(
    b'{"choices": [{"index": 0, "message": {"content": "Yes."}, "finish_reason": "stop"}]}'
)
TOOLS: Final = """
def get_weather(city: str = "Oslo") -> str:
    '''Return the weather.'''
    return f"Rain in {city}"

def fail() -> None:
    print("called")
    raise RuntimeError("offline")

both = [get_weather, fail]
number = 3

def count() -> int:
    return 2**70

unnamed = lambda x: x
"""


def with_stdin(content: bytes, folder: Path) -> str:
    """Statements that make this the stdin of a command."""
    (folder / "stdin").write_bytes(content)
    return "import os\nos.dup2(os.open('stdin', os.O_RDONLY), 0)"


async def requests_of(
    folder: Path, *arguments: str, stdin: bytes = b""
) -> tuple[CommandResult, list[Any]]:
    """The result of a chat whose responses are all `Yes.`, and the bodies of its requests."""
    async with upstream(ANSWER) as server:
        result = await run_command(
            *("chat", *arguments),
            folder=folder,
            env=variables(server.url),
            preparation=with_stdin(stdin, folder),
        )
    return result, [orjson.loads(body) for _, body in server.requests]


async def test_without_a_prompt_stdin_is_the_prompt(tmp_path: Path) -> None:
    result, [request] = await requests_of(tmp_path, stdin="Grüße?\n".encode())

    assert (result.exit_code, result.stdout, result.stderr) == (0, "Yes.\n", "")
    assert request["messages"] == [{"role": "user", "content": "Grüße?\n"}]


async def test_files_and_stdin_are_sent_with_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes")
    (tmp_path / "cat.png").write_bytes(b"\x89PNG")

    result, [request] = await requests_of(
        tmp_path, "-f", "notes.md", "-f", "cat.png", "-f", "-", "Compare.", stdin=b"a diff"
    )

    assert result.exit_code == 0, result.stderr
    [text, image] = request["messages"][0]["content"]
    assert text["text"] == "Compare.\n\nnotes.md:\n# Notes\n\nstdin:\na diff"
    encoded = base64.b64encode(b"\x89PNG").decode()
    assert image["image_url"] == {"url": f"data:image/png;base64,{encoded}"}


async def test_a_file_alone_is_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "question.txt").write_text("Why?")

    result, [request] = await requests_of(tmp_path, "-f", "question.txt", stdin=b"not read")

    assert result.exit_code == 0, result.stderr
    assert request["messages"] == [{"role": "user", "content": "question.txt:\nWhy?"}]


async def test_options_are_fields_of_the_request(tmp_path: Path) -> None:
    result, [request] = await requests_of(
        *(tmp_path, "-s", "Be brief.", "-o", "temperature=0", "-o", "max_tokens=9"),
        *("-o", 'stop_sequences=["END"]', "-o", "user=u", "-o", 'metadata={"a": 1}', "Hello?"),
    )

    assert result.exit_code == 0, result.stderr
    assert request["messages"][0] == {"role": "system", "content": "Be brief."}
    names = ("temperature", "max_completion_tokens", "stop", "user", "metadata")
    assert [request[name] for name in names] == [0, 9, ["END"], "u", {"a": 1}]


SCRIPTS: Final = {
    "questions.txt": "First?\n\n  Second?  \n",
    "questions.yaml": "- First?\n- Second?\n",
    "object.yaml": "messages: [First?, Second?]\n",
    "questions.json": '["First?", "Second?"]',
}


@each_row("name", SCRIPTS)
async def test_the_messages_of_a_script_are_one_conversation(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(SCRIPTS[name])

    result, requests = await requests_of(tmp_path, "--script", name)

    assert (result.exit_code, result.stdout) == (0, "Yes.\nYes.\n")
    assert result.stderr == "> First?\n> Second?\n"
    assert requests[1]["messages"] == [
        {"role": "user", "content": "First?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Second?"},
    ]


async def test_a_message_of_several_lines_is_shown_on_several(tmp_path: Path) -> None:
    (tmp_path / "questions.yaml").write_text("- |-\n  One\x85\n  two\n".replace("\x85", ""))

    result, [request] = await requests_of(tmp_path, "--script", "questions.yaml")

    assert result.stderr == "> One\ntwo\n"
    assert request["messages"][0]["content"] == "One\ntwo"


async def test_a_script_ends_at_the_message_that_fails(tmp_path: Path) -> None:
    (tmp_path / "questions.txt").write_text("First?\nSecond?\nThird?\n")
    refused = fixed_length(b'{"error": {"message": "no"}}', status="400 Bad Request")
    async with upstream(ANSWER, refused) as server:
        result = await run_command(
            "chat", "--script", "questions.txt", folder=tmp_path, env=variables(server.url)
        )

    assert (result.exit_code, result.stdout, len(server.requests)) == (1, "Yes.\n", 2)
    assert result.last_error_line == ("llm-proxy: error: message 2 of 3: HTTP 400: Bad Request: no")


MISTAKES: Final[dict[str, tuple[Sequence[str], str]]] = {
    "a script and a prompt": (
        ("--script", "empty.txt", "Hello?"),
        "--script: cannot be combined with PROMPT or --file",
    ),
    "a script without messages": (
        ("--script", "empty.txt"),
        "empty.txt: no messages; write each message on a line of its own",
    ),
    "no file": (("-f", "no.txt", "Hello?"), "cannot read no.txt: No such file or directory"),
    "a binary file": (
        ("-f", "binary", "Hello?"),
        (
            "binary: byte 1 is not valid UTF-8; files other than .png, .jpg, .jpeg, .gif, .webp, "
            ".pdf, .wav, .mp3, .mp4 must be text"
        ),
    ),
    "an option without a value": (
        ("-o", "seed", "Hello?"),
        "-o: expected NAME=VALUE, such as temperature=0, got 'seed'",
    ),
    "an option of the wrong type": (
        ("-o", "seed=x", "Hello?"),
        "-o: seed: expected an integer, got 'x'",
    ),
    "no colon in a tool": (
        ("--tools", "my_tools", "Hello?"),
        "--tools my_tools: expected MODULE:NAME, such as tools:get_weather",
    ),
    "no such tool": (
        ("--tools", "my_tools:nothing", "Hello?"),
        "--tools my_tools:nothing: module my_tools has no nothing",
    ),
    "a tool that is no function": (
        ("--tools", "my_tools:number", "Hello?"),
        "--tools my_tools:number: expected a function, a Tool, or a list of them, got int",
    ),
    "an upstream of an unknown provider": (
        ("--upstream", "opnai=http://127.0.0.1:9", "Hello?"),
        "--upstream: unknown provider 'opnai'; did you mean 'openai'?",
    ),
    "tools that exit": (
        ("--tools", "exits:tool", "Hello?"),
        "--tools exits:tool: cannot import exits: 5",
    ),
    "a provider without its settings": (
        ("-p", "bedrock", "--upstream", "bedrock=https://127.0.0.2.example", "Hello?"),
        "no AWS region; set AWS_REGION",
    ),
    "a tool without a name": (
        ("--tools", "my_tools:unnamed", "Hello?"),
        (
            "--tools: tool '<lambda>': a name has 1 to 128 letters, digits, '_', '-' and '.'; "
            "set name"
        ),
    ),
}


@each_row("name", MISTAKES)
async def test_a_mistake_is_reported_before_anything_is_sent(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "binary").write_bytes(b"a\xff")
    (tmp_path / "exits.py").write_text("raise SystemExit(5)")
    (tmp_path / "my_tools.py").write_text(TOOLS)
    arguments, message = MISTAKES[name]

    result = await run_command("chat", *arguments, folder=tmp_path, env=variables(NO_SERVER))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"llm-proxy: error: {message}\n"


async def test_an_invalid_script_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "questions.yaml").write_text("- First?\n- 3\n- !!binary eA==\n")

    result = await run_command(
        "chat", "--script", "questions.yaml", folder=tmp_path, env=variables(NO_SERVER)
    )

    assert result.exit_code == 2
    assert result.stderr.startswith("llm-proxy: error: questions.yaml:2:3: $[1]: expected text")
    assert "; questions.yaml:3:3: $[2]: " in result.stderr


async def test_a_public_provider_without_a_key_gets_no_request(tmp_path: Path) -> None:
    result = await run_command("chat", "-p", "anthropic", "Hello?", folder=tmp_path)

    assert (result.exit_code, result.stdout, result.stderr) == (
        2,
        "",
        (
            "llm-proxy: error: ANTHROPIC_API_KEY is not set; set ANTHROPIC_API_KEY, or --upstream "
            "for a server without keys\n"
        ),
    )


async def test_an_upstream_replaces_the_base_url_of_the_environment(tmp_path: Path) -> None:
    async with upstream(ANSWER) as server:
        result = await run_command(
            *("chat", "--upstream", f"openai={server.url}", "Hello?"),
            folder=tmp_path,
            env=variables(NO_SERVER),
        )

    assert (result.exit_code, result.stdout) == (0, "Yes.\n"), result.stderr
    assert server.requests[0][0].startswith(b"POST /v1/chat/completions ")


async def test_a_tool_that_the_model_calls_runs(tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(f'print("imported")\n{TOOLS}')
    scenario = scenario_document(
        tool_call_turn("get_weather", "fail"), text_turn("It rains.", turn=2)
    )
    async with serve_scenarios(tmp_path, scenario) as server:
        result = await run_command(
            *("chat", "--tools", "my_tools:both", "refund"),
            folder=tmp_path,
            env=variables(server.url),
        )

    assert (result.exit_code, result.stdout) == (0, "It rains.\n"), result.stderr
    assert result.stderr.splitlines() == [
        "imported",
        '→ get_weather {"city":"Rome"}',
        '→ fail {"city":"Rome"}',
        '← get_weather "Rain in Rome"',
        ('← fail {"error":"Tool execution failed: Object contains unknown field `city`"}'),
    ]


async def test_a_tool_of_a_response_that_the_provider_stops_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(TOOLS)
    call = {"function": {"name": "count", "arguments": "{}"}, "id": "c", "type": "function"}
    choice = {"message": {"tool_calls": [call]}, "finish_reason": "content_filter"}
    async with upstream(fixed_length(orjson.dumps({"choices": [choice]}))) as server:
        result = await run_command(
            *("chat", "--tools", "my_tools:count", "Hello?"),
            folder=tmp_path,
            env=variables(server.url),
        )

    assert (result.exit_code, result.stdout, len(server.requests)) == (1, "", 1)
    assert result.stderr.splitlines() == [
        "→ count {}",
        "llm-proxy: error: the provider stopped the response (content_filter)",
    ]


async def test_what_a_tool_prints_is_not_in_the_events(tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(
        "import subprocess, sys\n"
        "def shout(city: str) -> int:\n"
        "    print('printed')\n"
        "    return subprocess.run([sys.executable, '-c', 'print(123)']).returncode\n"
    )
    scenario = scenario_document(tool_call_turn("shout"), text_turn("Done.", turn=2))
    async with serve_scenarios(tmp_path, scenario) as server:
        result = await run_command(
            *("chat", "--json", "--tools", "my_tools:shout", "refund"),
            folder=tmp_path,
            env=variables(server.url),
        )

    assert all(orjson.loads(line)["event"] for line in result.stdout.splitlines())
    assert (result.exit_code, result.stderr.splitlines()) == (0, ["printed", "123"])


@each_row(
    "reason, exit_code, message",
    [
        ("content_filter", 1, "error: the provider stopped the response (content_filter)"),
        ("length", 0, "the response was cut off at its token limit"),
    ],
)
async def test_a_response_that_the_provider_stops_is_no_success(
    tmp_path: Path, reason: str, exit_code: int, message: str
) -> None:
    choice = {"message": {"content": "Half a"}, "finish_reason": reason}
    body = orjson.dumps({"choices": [choice]})
    async with upstream(fixed_length(body)) as server:
        result = await run_command("chat", "Hello?", folder=tmp_path, env=variables(server.url))

    assert (result.exit_code, result.stdout) == (exit_code, "Half a\n")
    assert result.stderr == f"llm-proxy: {message}\n"


async def test_a_model_that_calls_tools_without_end_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(TOOLS)
    turns = [tool_call_turn("get_weather", turn=number) for number in (1, 2, 3)]
    async with serve_scenarios(tmp_path, scenario_document(*turns)) as server:
        result = await run_command(
            *("chat", "--tools", "my_tools:get_weather", "--max-turns", "2", "refund"),
            folder=tmp_path,
            env=variables(server.url),
        )
        assert len(server.entries) == 2

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.last_error_line == (
        "llm-proxy: error: no final response after 2 turns; raise --max-turns"
    )


@each_row("flags, last_line", [((), "← count 1180591620717411303424"), (("--json",), "")])
async def test_values_that_only_python_has_are_printed(
    tmp_path: Path, flags: tuple[str, ...], last_line: str
) -> None:
    (tmp_path / "my_tools.py").write_text(TOOLS)
    call = {"function": {"name": "count", "arguments": "{}"}, "id": "c", "type": "function"}
    calls = {"message": {"tool_calls": [call]}, "finish_reason": "tool_calls", "index": 0}
    text = b'{"choices": [{"message": {"content": "a\\ud800"}, "finish_reason": "stop"}]}'
    async with upstream(
        fixed_length(orjson.dumps({"choices": [calls]})), fixed_length(text)
    ) as server:
        result = await run_command(
            *("chat", "--tools", "my_tools:count", *flags, "Hello?"),
            folder=tmp_path,
            env=variables(server.url),
        )

    assert result.exit_code == 0, result.stderr
    assert result.last_error_line == last_line


async def test_with_react_a_tool_is_called_in_text(tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(TOOLS)
    call = 'Thought: look.\nAction: get_weather\nAction Input: {"city": "Rome"}'
    scenario = scenario_document(text_turn(call), text_turn("Final Answer: Rain.", turn=2))
    async with serve_scenarios(tmp_path, scenario) as server:
        result = await run_command(
            *("chat", "--react", "--tools", "my_tools:get_weather", "refund"),
            folder=tmp_path,
            env=variables(server.url),
        )

    assert (result.exit_code, result.stdout.strip()) == (0, "Rain."), result.stderr
    assert '← get_weather "Rain in Rome"' in result.stderr


async def test_the_events_are_json_lines(tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(TOOLS)
    failure = {"failuresBeforeSuccess": 1, "failureStatus": "rate_limit", "failureMessage": "Slow."}
    scenario = scenario_document(
        tool_call_turn("get_weather", **failure, failureRetryAfterMs=10),
        text_turn("It\x1b[2J rains.", turn=2),
    )
    async with serve_scenarios(tmp_path, scenario) as server:
        result = await run_command(
            *("chat", "-p", "local", "--json", "--tools", "my_tools:get_weather", "refund"),
            folder=tmp_path,
            env=variables(server.url),
        )

    assert result.exit_code == 1, result.stdout  # `local` retries nothing
    assert [orjson.loads(line)["event"] for line in result.stdout.splitlines()] == [
        "error",
        "turn_complete",
        "finish",
    ]
    async with serve_scenarios(tmp_path, scenario) as server:
        result = await run_command(
            *("chat", "-p", "anthropic", "--json", "--tools", "my_tools:get_weather", "refund"),
            folder=tmp_path,
            env=variables(server.url),
        )

    events = [orjson.loads(line) for line in result.stdout.splitlines()]
    assert (result.exit_code, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    [retry, call, tool_result, *_] = events
    assert retry["event"] == "retry"
    assert retry["error"]["code"] == "429"
    assert call == {
        "event": "tool_call",
        "id": call["id"],
        "name": "get_weather",
        "arguments": {"city": "Rome"},
    }
    assert tool_result == {
        "event": "tool_result",
        "id": call["id"],
        "name": "get_weather",
        "result": "Rain in Rome",
        "failed": False,
    }
    texts = [event["text"] for event in events if event["event"] == "text"]
    assert "".join(texts) == "It\x1b[2J rains."
    assert [event["reason"] for event in events if event["event"] == "turn_complete"] == [
        "tool",
        "stop",
    ]
    assert events[-1] == {"event": "finish", "reason": "complete"}


async def test_a_recorded_script_becomes_a_scenario_that_plays_the_same(tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(TOOLS)
    (tmp_path / "questions.yaml").write_text("- Is it raining?\n- And tomorrow?\n")
    script = ("chat", "-m", "m", "--tools", "my_tools:get_weather", "--script", "questions.yaml")
    command = ("--", sys.executable, "-m", "llm_proxy", *script)
    scenario = scenario_document(
        tool_call_turn("get_weather"),
        text_turn("It rains.", turn=2),
        text_turn("Sunshine.", turn=3),
        match={"model": "m"},
    )
    async with serve_scenarios(tmp_path, scenario) as server:
        recorded = await run_command(
            "record", "--upstream", f"default={server.url}", *command, folder=tmp_path
        )
    cassettes = [str(path) for path in (tmp_path / "cassettes").rglob("*.jsonl")]
    written = await run_command(
        "scenario", "from", *cassettes, "--output", "own.yaml", folder=tmp_path
    )
    played = await run_command("simulate", "--scenarios", "own.yaml", *command, folder=tmp_path)

    assert (recorded.exit_code, recorded.stdout) == (0, "It rains.\nSunshine.\n")
    assert (written.exit_code, len(cassettes)) == (0, 3), written.stderr
    assert (played.exit_code, played.stdout) == (0, recorded.stdout), played.stderr
