"""`llm-proxy explain`: what a key is made from, and what answers, or why nothing does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sample_cassettes
from cli_process import Ran, run
from raw_http import post
from stored_cassettes import chat, key_of, put, says

ID = "b8a1f8f4-6f3c-4a11-9f0e-0123456789ab"
OTHER = "11111111-2222-3333-4444-555555555555"
BODY: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": "hi"}],
}


def given(folder: Path, document: Any, name: str = "request.json") -> str:
    """A file that says a request."""
    (folder / name).write_text(json.dumps(document))
    return name


async def explained(folder: Path, *arguments: str) -> Ran:
    return await run("explain", *arguments, folder=folder)


async def document(folder: Path, *arguments: str) -> Any:
    return json.loads((await explained(folder, *arguments, "--json")).out)


async def test_a_request_that_is_answered_names_its_takes_and_its_key(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("one"), says("two"))
    file = given(tmp_path, BODY)

    ran = await explained(tmp_path, file)

    name = f"cassettes/openai-chat/m/{key_of(chat())[:16]}"
    assert (ran.code, ran.out.splitlines()) == (
        0,
        [
            "request   POST /v1/chat/completions (m), session default",
            "dialect   openai-chat, provider openai",
            "body      json, 4 values; key rules 2",
            "rules     none: every value counts",
            f"key       {key_of(chat())}",
            "answers   session default: 2 takes",
            f"  {name}-1.jsonl",
            f"  {name}-2.jsonl",
        ],
    )
    assert "explained for POST /v1/chat/completions; --path says another" in ran.err


async def test_a_request_that_is_missed_says_all_that_differs_and_what_helps(
    tmp_path: Path,
) -> None:
    put(tmp_path, chat(), says("one"))
    file = given(tmp_path, BODY | {"temperature": 0.5, "user": "u" * 3000})

    ran = await explained(tmp_path, file)

    assert ran.code == 1
    assert "$.temperature: 0.5, not in the cassette" in ran.out
    assert f'$.user: "{"u" * 3000}", not in the cassette' in ran.out
    assert "record it with llm-proxy record, or it answers with: --normalise" in ran.out
    advice = ran.out.splitlines()[-1].rpartition("answers with: ")[2]
    assert advice == "--normalise 'ignore=$.temperature' --normalise 'ignore=$.user'"


async def test_the_rules_that_it_names_make_it_answer(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("one"))
    file = given(tmp_path, BODY | {"temperature": 0.5})
    assert (await explained(tmp_path, file)).code == 1

    ran = await explained(tmp_path, file, "--normalise", "ignore=$.temperature")

    assert ran.code == 0
    assert "rule      ignore@1=$.temperature changes 1 value" in ran.out
    assert "  $.temperature: 0.5 → does not count" in ran.out


async def test_what_a_rule_replaces_is_shown_with_its_name(tmp_path: Path) -> None:
    body = BODY | {"metadata": {"a": ID, "b": f"again {ID}", "c": OTHER}}
    told = await document(tmp_path, given(tmp_path, body), "--normalise", "uuids")

    assert told["rules"] == [
        {
            "rule": "uuids@1",
            "changed": [
                {"path": "$.metadata.a", "before": f'"{ID}"', "after": '"<uuid-1>"'},
                {"path": "$.metadata.b", "before": f'"again {ID}"', "after": '"again <uuid-1>"'},
                {"path": "$.metadata.c", "before": f'"{OTHER}"', "after": '"<uuid-2>"'},
            ],
            "more": 0,
            "names": {"<uuid-1>": ID, "<uuid-2>": OTHER},
        }
    ]
    assert told["values"]["$.metadata.a"] == '"<uuid-1>"'


async def test_the_document_tells_the_miss_as_the_page_of_misses_does(tmp_path: Path) -> None:
    [path] = put(tmp_path, chat("recorded"), says("one"))
    told = await document(tmp_path, given(tmp_path, BODY))

    assert (told["explain"], told["answers"], told["nearest"]) == (1, [], None)
    assert told["miss"]["why"] == "differs"
    nearest = told["miss"]["nearest"]
    assert nearest["file"] == str(path.relative_to(tmp_path))
    assert nearest["differences"] == [
        {
            "path": "$.messages[0].content",
            "asked": '"hi"',
            "stored": '"recorded"',
            "diff": "",
            "rule": "ignore=$.messages[0].content",
            "caution": "what is asked would not count: record it instead",
        }
    ]


async def test_a_cassette_stands_for_its_request(tmp_path: Path) -> None:
    path = sample_cassettes.in_session(tmp_path, "tests")
    ran = await explained(tmp_path, path.name)
    assert ran.code == 0
    assert "session tests: 1 take" in ran.out
    assert (await explained(tmp_path, path.name, "--session", "default")).code == 1


async def test_a_whole_request_may_be_given(tmp_path: Path) -> None:
    put(tmp_path, post("/v1/messages", b'{"a":1}', "anthropic-version: 1"), says("x"))
    whole = {
        "method": "post",
        "path": "/v1/messages",
        "headers": {"anthropic-version": "1"},
        "body": {"a": 1},
    }
    ran = await explained(tmp_path, given(tmp_path, whole), "--allow-partial")
    assert "request   POST /v1/messages, session default" in ran.out
    assert "dialect   anthropic, provider anthropic" in ran.out
    assert ran.code == 0


async def test_the_path_is_found_by_what_the_library_has(tmp_path: Path) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    put(tmp_path, post("/api/chat", json.dumps(body | {"seed": 1}).encode()), says("x"))
    told = await document(tmp_path, given(tmp_path, body))
    assert told["asked"]["path"] == "/api/chat"


@pytest.mark.parametrize(
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
    told = await document(tmp_path, given(tmp_path, body))
    assert path in told["asked"]["path"]
    assert told["miss"]["why"] == "empty"


async def test_the_nearest_answers_where_it_may(tmp_path: Path) -> None:
    [path] = put(tmp_path, chat(), says("one"))
    file = given(tmp_path, BODY | {"temperature": 0.5})
    ran = await explained(tmp_path, file, "--match", "nearest:0.5")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[-2:] == ["nearest   answers, 88 % alike", f"  {path.relative_to(tmp_path)}"]


@pytest.mark.parametrize(
    ("content", "arguments", "complaint"),
    [
        ("[1]", (), "request.json holds no JSON object: give the body of a request"),
        ("{", (), "request.json is no JSON: "),
        ('{"a": 1}', (), "asks for a turn in no dialect that is known: say its path"),
        ('{"path": "x", "body": {}}', (), "path must be a text that begins with /"),
        ('{"path": "/x", "headers": 1}', (), "headers must be an object of texts"),
        ("{}", ("--path", "/x", "--header", "x"), "--header: write NAME: VALUE"),
        ("{}", ("--path", "/x", "--normalise", "uuid"), "did you mean uuids?"),
    ],
)
async def test_what_is_no_request_is_told(
    tmp_path: Path, content: str, arguments: tuple[str, ...], complaint: str
) -> None:
    (tmp_path / "request.json").write_text(content)
    ran = await explained(tmp_path, "request.json", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err


async def test_a_name_of_nothing_is_told(tmp_path: Path) -> None:
    sample_cassettes.complete(tmp_path)
    ran = await explained(tmp_path, "nothing.json")
    assert ran.code == 2
    assert ran.complaint == (
        "llm-proxy: there is no file nothing.json, and no cassette of that name in cassettes: "
        "give a file with the JSON body of a request, - for stdin, or how a cassette's name begins"
    )
    empty = await explained(tmp_path, "nothing.json", "--cassettes", "none")
    assert "there is no file nothing.json, and no cassette of that name in none" in empty.err


async def test_nothing_on_stdin_is_said(tmp_path: Path) -> None:
    ran = await explained(tmp_path, "-")

    assert ran.code == 2
    assert ran.complaint.startswith("llm-proxy: there is nothing on stdin: pass a request, such as")
