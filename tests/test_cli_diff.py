"""`llm-proxy diff`: compares two cassettes, or a cassette and a live response."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_process import run_command
from llm_proxy.exchange import ResponseHead
from raw_http import build_http_request
from stored_cassettes import (
    StoredResponse,
    chat_event,
    key_of_request,
    raw_chat_request,
    response_bodies,
    text_response,
    write_cassettes,
)
from stub_upstream import chunked, fixed_length, upstream

KEY = key_of_request(raw_chat_request())[:16]
QUERY = build_http_request(
    "/v1beta/models/m:generateContent?key=AIzaSyExampleExample", b'{"contents":[]}'
)


async def test_the_differences_of_two_takes_are_shown(tmp_path: Path) -> None:
    write_cassettes(
        tmp_path,
        raw_chat_request(),
        text_response("The red car is far away"),
        text_response("The green car is far away"),
    )

    result = await run_command("diff", f"{KEY}-1", f"{KEY}-2", folder=tmp_path)

    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert lines[:3] == [
        f"- cassettes/openai-chat/m/{KEY}-1.jsonl",
        f"+ cassettes/openai-chat/m/{KEY}-2.jsonl",
        "content   turns[0].parts[0].text  The red car is far away → The green car is far away",
    ]
    assert any("[-red-] {+green+} car" in line for line in lines)
    assert result.stderr == "llm-proxy: 4 significant differences\n"


async def test_takes_that_differ_only_in_timing_are_the_same(tmp_path: Path) -> None:
    write_cassettes(
        tmp_path, raw_chat_request(), text_response("Yes."), text_response("Yes.", gap=20)
    )

    result = await run_command("diff", f"{KEY}-1", f"{KEY}-2", folder=tmp_path)

    assert result.exit_code == 0
    assert "not significant:\ntime      first byte  0.00 ms → 20 ms\n" in result.stdout
    assert result.stderr == "llm-proxy: no significant differences\n"


async def test_rules_exclude_parts_of_a_request_from_the_comparison(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request("one"), text_response("Yes."))
    write_cassettes(tmp_path, raw_chat_request("two"), text_response("Yes."))
    keys = [key_of_request(raw_chat_request(content))[:16] for content in ("one", "two")]

    without_rules = await run_command("diff", *keys, folder=tmp_path)
    with_rules = await run_command(
        "diff", *keys, "--normalise", "ignore=$.messages[0].content", folder=tmp_path
    )

    assert (without_rules.exit_code, with_rules.exit_code) == (1, 0)
    assert 'request   $.messages[0].content  "one" → "two"\n' in without_rules.stdout


async def test_json_is_one_document(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("One"), text_response("Two"))

    result = await run_command("diff", f"{KEY}-1", f"{KEY}-2", "--json", folder=tmp_path)

    document = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (1, "")
    assert {name: document[name] for name in ("first", "strictness", "same")} == {
        "first": f"cassettes/openai-chat/m/{KEY}-1.jsonl",
        "strictness": "exact",
        "same": False,
    }
    assert document["differences"][0] == {
        "kind": "content",
        "path": "turns[0].parts[0].text",
        "first": "One",
        "second": "Two",
        "significant": True,
    }


@pytest.mark.parametrize("arguments", [(), ("dc8593", "--live")], ids=["none", "both"])
async def test_a_wrong_number_of_cassettes_is_refused(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    result = await run_command("diff", KEY, *arguments, folder=tmp_path)

    assert result.exit_code == 2
    assert result.last_error_line == (
        "llm-proxy: error: name two cassettes (llm-proxy diff A B), or one cassette and "
        "--live (llm-proxy diff A --live)"
    )


async def diff_live(
    folder: Path, *answers: StoredResponse, shape: bool = False
) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a diff with a provider that sends these responses."""
    async with upstream(*(chunked([body]) for body in response_bodies(answers))) as provider:
        options = ["--shape"] if shape else []
        result = await run_command(
            "diff", KEY, "--live", *options, "--upstream", f"openai={provider.url}", folder=folder
        )
        assert len(provider.requests) == 1
    return result.exit_code, result.stdout, result.stderr


class TestLive:
    async def test_another_text_of_the_same_shape_is_no_difference(self, tmp_path: Path) -> None:
        [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("Hello"))
        before = path.read_bytes()

        code, out, err = await diff_live(tmp_path, text_response("Good day"))

        assert code == 0, err
        assert "not significant:\ncontent   turns[0]" in out
        assert "+ the live response\n" in out
        assert path.read_bytes() == before
        assert [path.name for path in (tmp_path / "cassettes").rglob("*.jsonl")] == [path.name]

    async def test_a_new_field_is_drift(self, tmp_path: Path) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("Hello"))
        drifted_response = StoredResponse(
            ((1.0, chat_event("Hello").replace(b'"index"', b'"place":1,"index"')),)
        )

        code, out, _ = await diff_live(tmp_path, drifted_response, shape=True)

        assert code == 1
        assert "shape     body $.choices[*].place  + number\n" in out
        assert "turns" not in out

    async def test_the_request_goes_out_as_it_is_stored_with_the_key(self, tmp_path: Path) -> None:
        write_cassettes(
            tmp_path,
            raw_chat_request("hi", "OpenAI-Beta: a=b", "X-Other: c"),
            text_response("Hello"),
        )
        async with upstream(chunked(response_bodies([text_response("Hello")]))) as provider:
            await run_command(
                "diff", "openai-chat", "--live", folder=tmp_path,
                env={"OPENAI_API_KEY": "sk-of-test", "OPENAI_BASE_URL": f"{provider.url}/v1"},
            )  # fmt: skip
            [(head, body)] = provider.requests

        lines = head.decode().lower().split("\r\n")
        assert lines[0] == "post /v1/chat/completions http/1.1"
        assert {"authorization: bearer sk-of-test", "openai-beta: a=b"} <= set(lines)
        assert not any(line.startswith("x-other") for line in lines)
        assert body == raw_chat_request().partition(b"\r\n\r\n")[2]

    async def test_a_key_of_the_query_goes_out_as_a_header(self, tmp_path: Path) -> None:
        write_cassettes(tmp_path, QUERY, StoredResponse(((1.0, b"{}"),)))
        async with upstream(fixed_length(b"{}")) as provider:
            await run_command(
                "diff", "gemini", "--live", "--upstream", f"gemini={provider.url}",
                folder=tmp_path, env={"GOOGLE_API_KEY": "new-key"},
            )  # fmt: skip
            [(head, _)] = provider.requests

        assert head.startswith(b"POST /v1beta/models/m:generateContent HTTP/1.1\r\n")
        assert b"x-goog-api-key: new-key\r\n" in head

    async def test_a_public_provider_gets_no_request_without_a_key(self, tmp_path: Path) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("Hello"))

        result = await run_command("diff", KEY, "--live", folder=tmp_path)

        reason = "set OPENAI_API_KEY, or --upstream openai=URL"
        assert result.exit_code == 2
        assert result.last_error_line == f"llm-proxy: error: no API key for openai; {reason}"

    async def test_a_request_with_a_redacted_secret_is_not_sent(self, tmp_path: Path) -> None:
        secret = "sk-secret-secret"
        write_cassettes(
            tmp_path,
            raw_chat_request(f"my key is {secret}", f"Authorization: Bearer {secret}"),
            text_response("No"),
        )

        result = await run_command(
            "diff", "openai-chat", "--live", "--upstream", "default=http://127.0.0.1:9",
            folder=tmp_path,
        )  # fmt: skip

        assert result.exit_code == 1
        assert (
            ".jsonl:2: the recorded request contains [redacted] in place of a secret"
            in result.stderr
        )

    async def test_a_provider_that_is_gone_is_named(
        self, tmp_path: Path, unreachable_url: str
    ) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("Hello"))

        result = await run_command(
            "diff", KEY, "--live", "--upstream", f"default={unreachable_url}", folder=tmp_path
        )

        assert result.exit_code == 1
        assert unreachable_url in result.last_error_line


ANTHROPIC_RESPONSE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [{"type": "text", "text": "Good day"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}


def write_chat_cassette(folder: Path, **fields: object) -> str:
    """The key of a cassette of a chat without a stream, with these fields in its request."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    choice = {"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}
    response = json.dumps({"model": "m", "choices": [choice]}).encode()
    head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "length", len(response))
    request = build_http_request("/v1/chat/completions", json.dumps(body).encode())
    write_cassettes(folder, request, StoredResponse(((1.0, response),), head=head))
    return key_of_request(request)[:16]


class TestOtherProvider:
    async def test_the_request_is_converted_and_sent_with_the_key_of_its_target(
        self, tmp_path: Path
    ) -> None:
        key = write_chat_cassette(tmp_path, user="u", max_tokens=9)
        async with upstream(fixed_length(json.dumps(ANTHROPIC_RESPONSE).encode())) as provider:
            result = await run_command(
                "diff", key, "--live", "--as", "anthropic", "--model", "claude-x",
                folder=tmp_path,
                env={"ANTHROPIC_API_KEY": "sk-ant-test", "ANTHROPIC_BASE_URL": provider.url,
                     "OPENAI_API_KEY": "sk-of-openai"},
            )  # fmt: skip
            [(head, body)] = provider.requests

        lines = head.decode().lower().split("\r\n")
        assert lines[0] == "post /v1/messages http/1.1"
        assert {"x-api-key: sk-ant-test", "anthropic-version: 2023-06-01"} <= {*lines}
        assert "sk-of-openai" not in head.decode()
        assert json.loads(body) == {
            "model": "claude-x",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "hi"}],
        }
        assert result.exit_code == 0, result.stderr
        assert "content   turns[0].text  Hello → Good day\n" in result.stdout
        assert "event" not in result.stdout
        assert (
            f"{key}-1.jsonl converted to anthropic and sent to anthropic; not converted: $.user\n"
        ) in result.stderr

    async def test_json_lists_what_was_not_converted(self, tmp_path: Path) -> None:
        key = write_chat_cassette(tmp_path, user="u")
        async with upstream(fixed_length(json.dumps(ANTHROPIC_RESPONSE).encode())) as provider:
            result = await run_command(
                "diff", key, "--live", "--as", "anthropic", "--model", "x", "--json",
                "--upstream", f"anthropic={provider.url}", folder=tmp_path,
            )  # fmt: skip

        document = json.loads(result.stdout)
        assert (document["strictness"], document["same"]) == ("turns", True)
        assert document["not_converted"] == ["$.user"]

    async def test_what_the_target_lacks_is_refused_before_anything_is_sent(
        self, tmp_path: Path
    ) -> None:
        key = write_chat_cassette(tmp_path, seed=7)
        async with upstream() as provider:
            result = await run_command(
                "diff", key, "--live", "--as", "anthropic", "--model", "x",
                "--upstream", f"anthropic={provider.url}", folder=tmp_path,
            )  # fmt: skip
            assert provider.requests == []

        assert result.exit_code == 1
        assert result.last_error_line == (
            f"llm-proxy: error: cassettes/openai-chat/m/{key}-1.jsonl: anthropic cannot represent "
            "seed; no request was sent"
        )

    async def test_a_request_with_a_redacted_secret_is_not_converted(self, tmp_path: Path) -> None:
        secret = "sk-secret-secret"
        write_cassettes(
            tmp_path,
            raw_chat_request(f"my key is {secret}", f"Authorization: Bearer {secret}"),
            text_response("No"),
        )

        result = await run_command(
            "diff", "openai-chat", "--live", "--as", "ollama", "--model", "x",
            "--upstream", "default=http://127.0.0.1:9", folder=tmp_path,
        )  # fmt: skip

        assert "the recorded request contains [redacted] in place of a secret" in result.stderr

    async def test_invalid_options_are_refused(self, tmp_path: Path) -> None:
        key = write_chat_cassette(tmp_path)
        for options, problem in (
            (("--live", "--as", "anthropic"),
             "--as anthropic: the recorded model may not exist there; set --model NAME"),
            (("--live", "--model", "x"), "--model requires --as"),
            ((key, "--as", "anthropic", "--model", "x"), "--as requires --live"),
            (("--live", "--as", "anthropic", "--model", "x", "--shape"),
             "--shape compares responses of one dialect; omit --shape or --as"),
            (("--live", "--as", "anthropc", "--model", "x"),
             "--as: unknown dialect or provider 'anthropc'; did you mean 'anthropic'?"),
            (("--live", "--as", "mistral", "--model", "x"),
             "no API key for mistral; set MISTRAL_API_KEY, or --upstream mistral=URL"),
        ):  # fmt: skip
            result = await run_command("diff", key, *options, folder=tmp_path)

            assert (result.exit_code, result.last_error_line) == (
                2,
                f"llm-proxy: error: {problem}",
            )
