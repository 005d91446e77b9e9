"""`llm-proxy export`: encodes the response of a cassette in another dialect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from case_tables import each_row
from cli_process import run_command
from dialect_manners import DIALECTS_WITHOUT_CALLS
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.exchange import Ending, ResponseHead
from llm_proxy.turns import FinishReason, Reasoning, Text, ToolCall, Turn, Usage
from raw_http import build_http_request
from stored_cassettes import (
    DONE_EVENT,
    StoredResponse,
    chat_event,
    key_of_request,
    raw_chat_request,
    text_response,
    write_cassettes,
)

KEY = key_of_request(raw_chat_request("hi"))
REASONING = b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"Let me see."}}]}\n\n'
CALL = (
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":'
    b'{"name":"weather","arguments":"{\\"city\\":\\"Bonn\\"}"}}]}}]}\n\n'
)
END = (
    b'data: {"id":"chatcmpl-7","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],'
    b'"usage":{"prompt_tokens":12,"completion_tokens":5,"total_tokens":17},'
    b'"system_fingerprint":"fp_1"}\n\n'
)


def write_stream(folder: Path, *events: bytes) -> None:
    write_cassettes(
        folder,
        raw_chat_request("hi"),
        StoredResponse(tuple((1.0, item) for item in (*events, DONE_EVENT))),
    )


def decode_export(name: str, exported: str, *, stream: bool) -> Turn:
    """The turn that the dialect decodes from an export."""
    dialect = dialects.dialect_named(name)
    request = dialects.chat_dialects()[name].sample_request("m", stream=stream)
    head = ResponseHead(200, "OK", (), "chunked")
    codec = dialect.codec_name(request, head)
    [turn] = dialect.decode_response(
        DialectResponse(head, codec, framing.split_messages(codec, exported.encode()))
    )
    return turn


TEXT_DIALECTS = sorted(set(dialects.chat_dialects()) - {"bedrock"} - DIALECTS_WITHOUT_CALLS)
"""The dialects that support tool calls and are text on the wire."""


@each_row("name", TEXT_DIALECTS)
@each_row("form", ["stream", "whole"])
async def test_a_turn_can_be_exported_to_any_dialect(tmp_path: Path, name: str, form: str) -> None:
    write_stream(tmp_path, REASONING, chat_event("I look. "), CALL, END)

    options = ["--whole"] if form == "whole" else []
    result = await run_command("export", KEY[:8], "--as", name, *options, folder=tmp_path)

    assert result.exit_code == 0, result.stderr
    turn = decode_export(name, result.stdout, stream=form == "stream")
    assert turn.text == "I look. "
    [call] = [part for part in turn.parts if isinstance(part, ToolCall)]
    assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Bonn"})
    assert turn.finish is FinishReason.TOOL_CALLS
    assert f"converted to {name}; the bytes differ from the recording" in result.stderr


async def test_what_gets_lost_is_named(tmp_path: Path) -> None:
    write_stream(tmp_path, REASONING, chat_event("Yes."), END)

    result = await run_command("export", KEY[:8], "--as", "openai-completions", folder=tmp_path)

    lost = (
        "metadata system_fingerprint, reasoning, "
        "finish reason tool_calls (sent as stop, which means stop)"
    )
    assert result.stderr.endswith(f"not converted: {lost}\n")


async def test_its_own_dialect_loses_nothing(tmp_path: Path) -> None:
    write_stream(tmp_path, REASONING, chat_event("Yes."), END)

    result = await run_command("export", KEY[:8], "--as", "openai-chat", folder=tmp_path)

    turn = decode_export("openai-chat", result.stdout, stream=True)
    assert turn.parts == (Reasoning("Let me see."), Text("Yes."))
    assert (turn.id, turn.metadata) == ("chatcmpl-7", (("system_fingerprint", "fp_1"),))
    assert result.stderr.endswith("converted to openai-chat; the bytes differ from the recording\n")


async def test_a_provider_variant_is_exported_in_its_own_format(tmp_path: Path) -> None:
    write_stream(tmp_path, REASONING, chat_event("Yes."), END)
    arguments = ("export", KEY[:8], "--as", "openai-chat")

    result = await run_command(
        *arguments, "--provider", "mistral", "--model", "large", folder=tmp_path
    )

    assert '"thinking":[{"type":"text","text":"Let"}]' in result.stdout
    assert '"model":"large"' in result.stdout


USAGE_EVENT = (
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{'
    b'"prompt_tokens":1003,"completion_tokens":502,"total_tokens":1505,'
    b'"prompt_tokens_details":{"cached_tokens":1000},'
    b'"completion_tokens_details":{"reasoning_tokens":500}}}\n\n'
)


@each_row(
    ("name", "expected_usage"),
    [
        ("openai-responses", Usage(1003, 502, 1505, cache_read=1000, cache_write=0, reasoning=500)),
        ("anthropic", Usage(3, 502, None, cache_read=1000, reasoning=500)),
        ("gemini", Usage(1003, 2, 1505, cache_read=1000, reasoning=500)),
    ],
)
async def test_the_same_tokens_are_counted_as_the_other_provider_counts_them(
    tmp_path: Path, name: str, expected_usage: Usage
) -> None:
    write_stream(tmp_path, chat_event("Yes."), USAGE_EVENT)

    result = await run_command("export", KEY[:8], "--as", name, folder=tmp_path)

    usage = decode_export(name, result.stdout, stream=True).usage
    assert usage == expected_usage


async def test_head_and_body_are_what_would_be_sent(tmp_path: Path) -> None:
    write_stream(tmp_path, chat_event("Yes."))

    result = await run_command(
        "export", KEY[:8], "--as", "anthropic", "--whole", "--head", folder=tmp_path
    )

    head, _, body = result.stdout.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
    assert json.loads(body)["content"] == [{"type": "text", "text": "Yes."}]


async def test_a_file_is_written_once_and_never_over_another(tmp_path: Path) -> None:
    write_stream(tmp_path, chat_event("Yes."))
    arguments = ("export", KEY[:8], "--as", "ollama", "--output", "chat.ndjson")

    first = await run_command(*arguments, folder=tmp_path)
    again = await run_command(*arguments, folder=tmp_path)

    assert (first.exit_code, first.stdout) == (0, "")
    assert '"done":true' in (tmp_path / "chat.ndjson").read_text()
    assert (again.exit_code, again.last_error_line) == (
        2,
        "llm-proxy: error: chat.ndjson already exists; choose another file",
    )


async def test_a_recorded_error_is_exported_in_the_other_providers_format(tmp_path: Path) -> None:
    body = b'{"error":{"message":"Slow down","type":"requests","code":"rate_limit_exceeded"}}'
    head = ResponseHead(
        429, "Too Many", (("Content-Type", "application/json"),), "length", len(body)
    )
    write_cassettes(tmp_path, raw_chat_request("hi"), StoredResponse(((1.0, body),), head=head))

    result = await run_command("export", KEY[:8], "--as", "anthropic", "--head", folder=tmp_path)

    assert result.stdout.startswith("HTTP/1.1 429 Too Many Requests\r\n")
    assert json.loads(result.stdout.partition("\r\n\r\n")[2])["error"] == {
        "type": "rate_limit_error",
        "message": "Slow down",
    }
    assert result.stderr.endswith(
        "the bytes differ from the recording; not converted: the error type\n"
    )


async def test_omitted_headers_of_an_error_are_reported(tmp_path: Path) -> None:
    headers = (("Content-Type", "application/json"), ("X-Ratelimit-Limit-Requests", "60"))
    body = b'{"error":{"message":"Slow down"}}'
    head = ResponseHead(429, "Too Many", headers, "length", len(body))
    write_cassettes(tmp_path, raw_chat_request("hi"), StoredResponse(((1.0, body),), head=head))

    result = await run_command("export", KEY[:8], "--as", "anthropic", folder=tmp_path)

    assert result.stderr.endswith(
        "the bytes differ from the recording; not converted: "
        "provider-specific headers of the error\n"
    )


async def test_text_before_an_error_is_left_out_of_a_document(tmp_path: Path) -> None:
    error = b'data: {"error":{"message":"Gone"}}\n\n'
    write_cassettes(
        tmp_path, raw_chat_request("hi"), StoredResponse(((1.0, chat_event("Half")), (2.0, error)))
    )

    result = await run_command("export", KEY[:8], "--as", "openai-chat", "--whole", folder=tmp_path)

    assert json.loads(result.stdout)["error"]["message"] == "Gone"
    assert "not converted: the content before the error" in result.stderr


@pytest.mark.parametrize(
    ("stored_response", "reason"),
    [
        (
            StoredResponse(((1.0, chat_event("Half")),), Ending.RST),
            "--as converts only complete responses",
        ),
        (
            StoredResponse(((1.0, CALL), (2.0, DONE_EVENT))),
            "openai-completions cannot represent a tool call",
        ),
    ],
    ids=["partial", "a call"],
)
async def test_an_export_that_would_change_the_response_is_refused(
    tmp_path: Path, stored_response: StoredResponse, reason: str
) -> None:
    write_cassettes(tmp_path, raw_chat_request("hi"), stored_response)

    result = await run_command("export", KEY[:8], "--as", "openai-completions", folder=tmp_path)

    assert (result.exit_code, result.stdout) == (1, "")
    assert reason in result.last_error_line


async def test_an_unsupported_dialect_is_refused_with_the_supported_ones(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request("hi"), text_response("Yes."))

    result = await run_command("export", KEY[:8], "--as", "opaque", folder=tmp_path)

    assert result.exit_code == 2
    assert "'opaque' is not one of openai-chat, " in result.last_error_line


def write_responses_cassette(folder: Path, *items: Mapping[str, object]) -> None:
    """Write a cassette with a response of OpenAI's Responses API."""
    body = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5"}
    document = json.dumps({**body, "output": items, "usage": None}).encode()
    head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "length", len(document))
    write_cassettes(
        folder,
        build_http_request("/v1/responses", b'{"model":"gpt-5","input":"hi"}'),
        StoredResponse(((1.0, document),), head=head),
    )


MESSAGE_ITEM = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "It rains.", "annotations": []}]}  # fmt: skip


@each_row("name", ["openai-chat", "anthropic", "gemini", "ollama"])
async def test_what_a_provider_ran_itself_is_no_call_for_the_client(
    tmp_path: Path, name: str
) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed",
              "action": {"type": "search", "query": "weather"}}  # fmt: skip
    write_responses_cassette(tmp_path, search, MESSAGE_ITEM)

    result = await run_command("export", "openai-responses", "--as", name, folder=tmp_path)

    turn = decode_export(name, result.stdout, stream=True)
    assert (turn.parts, turn.finish) == ((Text("It rains."),), FinishReason.STOP)
    assert "calls and results of the provider's own tools" in result.stderr


async def test_a_turn_that_waits_for_a_tool_of_its_own_dialect_is_refused(tmp_path: Path) -> None:
    shell = {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "status": "completed",
             "action": {"type": "exec", "command": ["ls"], "env": {}}}  # fmt: skip
    write_responses_cassette(tmp_path, MESSAGE_ITEM, shell)

    result = await run_command("export", "openai-responses", "--as", "anthropic", folder=tmp_path)

    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        "the response contains tool calls that only the recorded dialect supports: local_shell_call"
        in result.last_error_line
    )


async def test_plain_text_for_a_tool_is_exported_as_an_object(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n"
    write_responses_cassette(
        tmp_path,
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "apply_patch",
         "input": patch, "status": "completed"},
    )  # fmt: skip

    result = await run_command("export", "openai-responses", "--as", "anthropic", folder=tmp_path)

    [call] = decode_export("anthropic", result.stdout, stream=True).parts
    assert isinstance(call, ToolCall)
    assert (call.name, json.loads(call.arguments)) == ("apply_patch", {"input": patch})


async def test_signatures_and_ids_of_a_provider_are_left_out_and_reported(tmp_path: Path) -> None:
    body = json.dumps({
        "id": "msg_recorded", "type": "message", "role": "assistant", "model": "claude",
        "content": [{"type": "thinking", "thinking": "Hm.", "signature": "c2VhbA=="},
                    {"type": "text", "text": "Yes."}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 2},
    }).encode()  # fmt: skip
    head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "length", len(body))
    write_cassettes(
        tmp_path,
        build_http_request("/v1/messages", b'{"model":"claude"}'),
        StoredResponse(((1.0, body),), head=head),
    )

    result = await run_command("export", "anthropic", "--as", "openai-chat", folder=tmp_path)

    assert "msg_recorded" not in result.stdout
    assert "c2VhbA==" not in result.stdout
    assert "not converted: reasoning signatures" in result.stderr
    assert decode_export("openai-chat", result.stdout, stream=True).parts == (
        Reasoning("Hm."),
        Text("Yes."),
    )


async def test_two_takes_of_one_request_are_exported_with_different_ids(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request("hi"), text_response("One."), text_response("Two."))

    one, two = [
        decode_export("anthropic", result.stdout, stream=True)
        for result in [
            await run_command("export", f"{KEY[:16]}-{take}", "--as", "anthropic", folder=tmp_path)
            for take in (1, 2)
        ]
    ]

    assert (one.text, two.text) == ("One.", "Two.")
    assert one.id != two.id


async def test_the_requested_model_stands_in_for_one_that_is_not_named(tmp_path: Path) -> None:
    write_stream(tmp_path, chat_event("Yes."))  # its chunks name no model

    result = await run_command("export", KEY[:8], "--as", "anthropic", folder=tmp_path)

    assert decode_export("anthropic", result.stdout, stream=True).model == "m"


async def test_an_unknown_provider_is_refused(tmp_path: Path) -> None:
    write_stream(tmp_path, chat_event("Yes."))
    arguments = ("export", KEY[:8], "--as", "openai-chat", "--provider", "opnerouter")

    result = await run_command(*arguments, folder=tmp_path)

    assert result.exit_code == 2
    assert "'opnerouter' is not one of azure, " in result.last_error_line


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            ("--as", "gemini", "--provider", "groq"),
            "--as gemini does not support --provider; use --provider with --as openai-chat",
        ),
        (
            ("--as", "gemini", "--model", "\udcff"),
            "--model: the name contains unprintable characters",
        ),
    ],
    ids=["provider", "model"],
)
async def test_options_that_cannot_be_honoured_are_refused(
    tmp_path: Path, options: tuple[str, ...], reason: str
) -> None:
    write_cassettes(tmp_path, raw_chat_request("hi"), text_response("Yes."))

    result = await run_command("export", KEY[:8], *options, folder=tmp_path)

    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in result.last_error_line
