"""`llm-proxy explain`: how a key is computed, and which cassette answers or why none does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import sample_cassettes
from case_tables import each_row
from cli_process import CommandResult, run_command
from raw_http import build_http_request
from stored_cassettes import key_of_request, raw_chat_request, text_response, write_cassettes

ID = "b8a1f8f4-6f3c-4a11-9f0e-0123456789ab"
OTHER = "11111111-2222-3333-4444-555555555555"
BODY: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": "hi"}],
}


def write_request(folder: Path, document: Any, name: str = "request.json") -> str:
    """Write a request to a JSON file; returns its name."""
    (folder / name).write_text(json.dumps(document))
    return name


async def run_explain(folder: Path, *arguments: str) -> CommandResult:
    return await run_command("explain", *arguments, folder=folder)


async def explain_json(folder: Path, *arguments: str) -> Any:
    return json.loads((await run_explain(folder, *arguments, "--json")).stdout)


async def test_a_request_that_is_answered_names_its_takes_and_its_key(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("one"), text_response("two"))
    file = write_request(tmp_path, BODY)

    result = await run_explain(tmp_path, file)

    name = f"cassettes/openai-chat/m/{key_of_request(raw_chat_request())[:16]}"
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [
            "request   POST /v1/chat/completions (m), session default",
            "dialect   openai-chat, provider openai",
            "body      json, 4 values; key rules 2",
            "rules     none: every value is part of the key",
            f"key       {key_of_request(raw_chat_request())}",
            "takes     session default: 2 takes",
            f"  {name}-1.jsonl",
            f"  {name}-2.jsonl",
        ],
    )
    assert (
        "path guessed from the body: POST /v1/chat/completions; if this path is wrong, set --path"
        in result.stderr
    )


async def test_a_miss_lists_all_differences_and_the_rules_that_help(
    tmp_path: Path,
) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("one"))
    file = write_request(tmp_path, BODY | {"temperature": 0.5, "user": "u" * 3000})

    result = await run_explain(tmp_path, file)

    assert result.exit_code == 1
    assert "$.temperature: request has 0.5, cassette has no value" in result.stdout
    assert f'$.user: request has "{"u" * 3000}", cassette has no value' in result.stdout
    assert result.stdout.splitlines()[-1] == (
        "advice    record the request with llm-proxy record, or add these options to "
        "match the nearest cassette: --normalise 'ignore=$.temperature' --normalise 'ignore=$.user'"
    )


async def test_the_rules_that_it_names_make_it_answer(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("one"))
    file = write_request(tmp_path, BODY | {"temperature": 0.5})
    assert (await run_explain(tmp_path, file)).exit_code == 1

    result = await run_explain(tmp_path, file, "--normalise", "ignore=$.temperature")

    assert result.exit_code == 0
    assert "rule      ignore@1=$.temperature changes 1 value" in result.stdout
    assert "  $.temperature: 0.5 → ignored" in result.stdout


async def test_what_a_rule_replaces_is_shown_with_its_name(tmp_path: Path) -> None:
    body = BODY | {"metadata": {"a": ID, "b": f"again {ID}", "c": OTHER}}
    explanation = await explain_json(
        tmp_path, write_request(tmp_path, body), "--normalise", "uuids"
    )

    assert explanation["rules"] == [
        {
            "rule": "uuids@1",
            "changed": [
                {"path": "$.metadata.a", "before": f'"{ID}"', "after": '"<uuid-1>"'},
                {"path": "$.metadata.b", "before": f'"again {ID}"', "after": '"again <uuid-1>"'},
                {"path": "$.metadata.c", "before": f'"{OTHER}"', "after": '"<uuid-2>"'},
            ],
            "more": 0,
            "placeholders": {"<uuid-1>": ID, "<uuid-2>": OTHER},
        }
    ]
    assert explanation["values"]["$.metadata.a"] == '"<uuid-1>"'


async def test_the_json_describes_a_miss_as_the_misses_page_does(tmp_path: Path) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request("recorded"), text_response("one"))
    explanation = await explain_json(tmp_path, write_request(tmp_path, BODY))

    assert (explanation["explain"], explanation["takes"], explanation["nearest"]) == (1, [], None)
    assert explanation["miss"]["reason"] == "differs"
    nearest = explanation["miss"]["nearest"]
    assert nearest["file"] == str(path.relative_to(tmp_path))
    assert nearest["differences"] == [
        {
            "path": "$.messages[0].content",
            "requested": '"hi"',
            "stored": '"recorded"',
            "diff": "",
            "rule": "ignore=$.messages[0].content",
            "caution": "this rule would ignore the prompt itself; record the request instead",
        }
    ]


async def test_a_cassette_stands_for_its_request(tmp_path: Path) -> None:
    path = sample_cassettes.write_in_session(tmp_path, "tests")
    result = await run_explain(tmp_path, path.name)
    assert result.exit_code == 0
    assert "session tests: 1 take" in result.stdout
    assert (await run_explain(tmp_path, path.name, "--session", "default")).exit_code == 1


async def test_a_whole_request_may_be_given(tmp_path: Path) -> None:
    write_cassettes(
        tmp_path,
        build_http_request("/v1/messages", b'{"a":1}', "anthropic-version: 1"),
        text_response("x"),
    )
    full_request = {
        "method": "post",
        "path": "/v1/messages",
        "headers": {"anthropic-version": "1"},
        "body": {"a": 1},
    }
    result = await run_explain(tmp_path, write_request(tmp_path, full_request), "--allow-partial")
    assert "request   POST /v1/messages, session default" in result.stdout
    assert "dialect   anthropic, provider anthropic" in result.stdout
    assert result.exit_code == 0


async def test_the_path_is_found_by_what_the_library_has(tmp_path: Path) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    write_cassettes(
        tmp_path,
        build_http_request("/api/chat", json.dumps(body | {"seed": 1}).encode()),
        text_response("x"),
    )
    explanation = await explain_json(tmp_path, write_request(tmp_path, body))
    assert explanation["request"]["path"] == "/api/chat"


@each_row(
    ("body", "path"),
    [
        ({"model": "m", "input": "hi"}, "/v1/responses"),
        ({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}, "generateContent"),
        (BODY, "/v1/chat/completions"),
    ],
    ids=["responses", "gemini", "chat"],
)
async def test_without_a_library_the_path_is_found_by_the_shape(
    tmp_path: Path, body: Any, path: str
) -> None:
    explanation = await explain_json(tmp_path, write_request(tmp_path, body))
    assert path in explanation["request"]["path"]
    assert explanation["miss"]["reason"] == "empty"


async def test_the_nearest_answers_where_it_may(tmp_path: Path) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("one"))
    file = write_request(tmp_path, BODY | {"temperature": 0.5})
    result = await run_explain(tmp_path, file, "--match", "nearest:0.5")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[-2:] == ["nearest   replayed (88 % similar)", f"  {path.relative_to(tmp_path)}"]


@each_row(
    ("content", "arguments", "complaint"),
    [
        ("[1]", (), "request.json is not a JSON object; pass the body of a request"),
        ("{", (), "request.json is not valid JSON: "),
        (
            '{"a": 1}',
            (),
            "request.json: cannot guess the path from the body; set the path, for example",
        ),
        (
            '{"path": "x", "body": {}}',
            (),
            "path must be a string that starts with /; method and query must be strings",
        ),
        (
            '{"path": "/x", "headers": 1}',
            (),
            "headers must be an object with string values, or a list of [name, value] pairs",
        ),
        ("{}", ("--path", "/x", "--header", "x"), "--header: expected NAME: VALUE, such as"),
        ("{}", ("--path", "/x", "--normalise", "uuid"), "did you mean 'uuids'?"),
    ],
)
async def test_an_invalid_request_is_reported(
    tmp_path: Path, content: str, arguments: tuple[str, ...], complaint: str
) -> None:
    (tmp_path / "request.json").write_text(content)
    result = await run_explain(tmp_path, "request.json", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr


async def test_an_unknown_name_is_reported(tmp_path: Path) -> None:
    sample_cassettes.write_complete(tmp_path)
    result = await run_explain(tmp_path, "nothing.json")
    assert result.exit_code == 2
    assert result.last_error_line == (
        "llm-proxy: error: no such file: nothing.json, and no such cassette in ./cassettes; pass "
        "the path of a JSON file, - for stdin, or the first characters of a cassette name"
    )
    empty = await run_explain(tmp_path, "nothing.json", "--cassettes", "none")
    assert "no such file: nothing.json, and no such cassette in ./none; pass" in empty.stderr


async def test_empty_stdin_is_reported(tmp_path: Path) -> None:
    result = await run_explain(tmp_path, "-")

    assert result.exit_code == 2
    assert result.last_error_line.startswith(
        "llm-proxy: error: stdin is empty; pass a request, for example:"
    )
