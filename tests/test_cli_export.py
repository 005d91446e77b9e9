"""`llm-proxy export`: what a cassette holds, told again in another dialect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from cli_process import run
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.exchange import Ending, ResponseHead
from llm_proxy.turns import Finish, Reasoning, Text, ToolCall, Turn, Usage
from raw_http import post
from stored_cassettes import DONE, Answer, chat, event, key_of, put, says

KEY = key_of(chat("hi"))
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


def recorded(folder: Path, *events: bytes) -> None:
    put(folder, chat("hi"), Answer(tuple((1.0, item) for item in (*events, DONE))))


def read(name: str, told: str, *, stream: bool) -> Turn:
    """What the dialect reads of what was exported."""
    dialect = dialects.dialect_named(name)
    request = dialects.chat_dialects()[name].sample_request("m", stream=stream)
    head = ResponseHead(200, "OK", (), "chunked")
    codec = dialect.codec(request, head)
    [turn] = dialect.decode(
        DialectResponse(head, codec, framing.split_messages(codec, told.encode()))
    )
    return turn


TEXTUAL = sorted(set(dialects.chat_dialects()) - {"bedrock", "openai-completions"})
"""The dialects that have words for a call, and are text on the wire."""


@pytest.mark.parametrize("name", TEXTUAL)
@pytest.mark.parametrize("form", ["stream", "whole"])
async def test_what_was_said_is_told_again_in_any_dialect(
    tmp_path: Path, name: str, form: str
) -> None:
    recorded(tmp_path, REASONING, event("I look. "), CALL, END)

    whole = ["--whole"] if form == "whole" else []
    ran = await run("export", KEY[:8], "--as", name, *whole, folder=tmp_path)

    assert ran.code == 0, ran.err
    turn = read(name, ran.out, stream=form == "stream")
    assert turn.text == "I look. "
    [call] = [part for part in turn.parts if isinstance(part, ToolCall)]
    assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Bonn"})
    assert turn.finish is Finish.TOOL_CALLS
    assert f"told again as {name}: not a replay" in ran.err


async def test_what_gets_lost_is_named(tmp_path: Path) -> None:
    recorded(tmp_path, REASONING, event("Yes."), END)

    ran = await run("export", KEY[:8], "--as", "openai-completions", folder=tmp_path)

    lost = (
        "metadata system_fingerprint, reasoning, finish tool_calls (told as stop, which means stop)"
    )
    assert ran.err.endswith(f"left out: {lost}\n")


async def test_its_own_dialect_loses_nothing(tmp_path: Path) -> None:
    recorded(tmp_path, REASONING, event("Yes."), END)

    ran = await run("export", KEY[:8], "--as", "openai-chat", folder=tmp_path)

    turn = read("openai-chat", ran.out, stream=True)
    assert turn.parts == (Reasoning("Let me see."), Text("Yes."))
    assert (turn.id, turn.metadata) == ("chatcmpl-7", (("system_fingerprint", "fp_1"),))
    assert ran.err.endswith("told again as openai-chat: not a replay\n")


async def test_a_member_of_the_family_speaks_in_its_own_way(tmp_path: Path) -> None:
    recorded(tmp_path, REASONING, event("Yes."), END)
    asked = ("export", KEY[:8], "--as", "openai-chat")

    ran = await run(*asked, "--provider", "mistral", "--model", "large", folder=tmp_path)

    assert '"thinking":[{"type":"text","text":"Let"}]' in ran.out
    assert '"model":"large"' in ran.out


COUNTED = (
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{'
    b'"prompt_tokens":1003,"completion_tokens":502,"total_tokens":1505,'
    b'"prompt_tokens_details":{"cached_tokens":1000},'
    b'"completion_tokens_details":{"reasoning_tokens":500}}}\n\n'
)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("openai-responses", Usage(1003, 502, 1505, cache_read=1000, cache_write=0, reasoning=500)),
        ("anthropic", Usage(3, 502, None, cache_read=1000, reasoning=500)),
        ("gemini", Usage(1003, 2, 1505, cache_read=1000, reasoning=500)),
    ],
)
async def test_the_same_tokens_are_counted_as_the_other_provider_counts_them(
    tmp_path: Path, name: str, counts: Usage
) -> None:
    recorded(tmp_path, event("Yes."), COUNTED)

    ran = await run("export", KEY[:8], "--as", name, folder=tmp_path)

    usage = read(name, ran.out, stream=True).usage
    assert usage == counts


async def test_head_and_body_are_what_would_be_sent(tmp_path: Path) -> None:
    recorded(tmp_path, event("Yes."))

    ran = await run("export", KEY[:8], "--as", "anthropic", "--whole", "--head", folder=tmp_path)

    head, _, body = ran.out.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
    assert json.loads(body)["content"] == [{"type": "text", "text": "Yes."}]


async def test_a_file_is_written_once_and_never_over_another(tmp_path: Path) -> None:
    recorded(tmp_path, event("Yes."))
    asked = ("export", KEY[:8], "--as", "ollama", "--output", "told.ndjson")

    first = await run(*asked, folder=tmp_path)
    again = await run(*asked, folder=tmp_path)

    assert (first.code, first.out) == (0, "")
    assert '"done":true' in (tmp_path / "told.ndjson").read_text()
    assert (again.code, again.complaint) == (
        2,
        "llm-proxy: told.ndjson is there already: name another file",
    )


async def test_a_recorded_error_is_told_as_the_other_provider_would(tmp_path: Path) -> None:
    body = b'{"error":{"message":"Slow down","type":"requests","code":"rate_limit_exceeded"}}'
    head = ResponseHead(
        429, "Too Many", (("Content-Type", "application/json"),), "length", len(body)
    )
    put(tmp_path, chat("hi"), Answer(((1.0, body),), head=head))

    ran = await run("export", KEY[:8], "--as", "anthropic", "--head", folder=tmp_path)

    assert ran.out.startswith("HTTP/1.1 429 Too Many Requests\r\n")
    assert json.loads(ran.out.partition("\r\n\r\n")[2])["error"] == {
        "type": "rate_limit_error",
        "message": "Slow down",
    }
    assert ran.err.endswith("not a replay; left out: its own type of error\n")


async def test_headers_of_an_error_that_stay_behind_are_named(tmp_path: Path) -> None:
    fields = (("Content-Type", "application/json"), ("X-Ratelimit-Limit-Requests", "60"))
    body = b'{"error":{"message":"Slow down"}}'
    head = ResponseHead(429, "Too Many", fields, "length", len(body))
    put(tmp_path, chat("hi"), Answer(((1.0, body),), head=head))

    ran = await run("export", KEY[:8], "--as", "anthropic", folder=tmp_path)

    assert ran.err.endswith("not a replay; left out: the other headers of its error\n")


async def test_what_was_said_before_an_error_has_no_place_in_a_document(tmp_path: Path) -> None:
    error = b'data: {"error":{"message":"Gone"}}\n\n'
    put(tmp_path, chat("hi"), Answer(((1.0, event("Half")), (2.0, error))))

    ran = await run("export", KEY[:8], "--as", "openai-chat", "--whole", folder=tmp_path)

    assert json.loads(ran.out)["error"]["message"] == "Gone"
    assert "left out: what was said before it failed" in ran.err


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(((1.0, event("Half")),), Ending.RST), "told again it would seem whole"),
        (Answer(((1.0, CALL), (2.0, DONE))), "openai-completions has no word for a tool call"),
    ],
    ids=["partial", "a call"],
)
async def test_what_would_be_another_answer_is_refused(
    tmp_path: Path, answer: Answer, why: str
) -> None:
    put(tmp_path, chat("hi"), answer)

    ran = await run("export", KEY[:8], "--as", "openai-completions", folder=tmp_path)

    assert (ran.code, ran.out) == (1, "")
    assert why in ran.complaint


async def test_a_dialect_that_nobody_speaks_is_refused_with_those_that_are(tmp_path: Path) -> None:
    put(tmp_path, chat("hi"), says("Yes."))

    ran = await run("export", KEY[:8], "--as", "opaque", folder=tmp_path)

    assert ran.code == 2
    assert "'opaque' is not one of openai-chat, " in ran.complaint


def response(folder: Path, *items: Mapping[str, object]) -> None:
    """A recorded answer of OpenAI's responses."""
    body = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5"}
    document = json.dumps({**body, "output": items, "usage": None}).encode()
    head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "length", len(document))
    put(
        folder,
        post("/v1/responses", b'{"model":"gpt-5","input":"hi"}'),
        Answer(((1.0, document),), head=head),
    )


SAID = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "It rains.", "annotations": []}]}  # fmt: skip


@pytest.mark.parametrize("name", ["openai-chat", "anthropic", "gemini", "ollama"])
async def test_what_a_provider_ran_itself_is_no_call_for_the_client(
    tmp_path: Path, name: str
) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed",
              "action": {"type": "search", "query": "weather"}}  # fmt: skip
    response(tmp_path, search, SAID)

    ran = await run("export", "openai-responses", "--as", name, folder=tmp_path)

    turn = read(name, ran.out, stream=True)
    assert (turn.parts, turn.finish) == ((Text("It rains."),), Finish.STOP)
    assert "what the provider's own tools did" in ran.err


async def test_a_turn_that_waits_for_a_tool_of_its_own_dialect_is_refused(tmp_path: Path) -> None:
    shell = {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "status": "completed",
             "action": {"type": "exec", "command": ["ls"], "env": {}}}  # fmt: skip
    response(tmp_path, SAID, shell)

    ran = await run("export", "openai-responses", "--as", "anthropic", folder=tmp_path)

    assert (ran.code, ran.out) == (1, "")
    assert "it waits for a tool that only its own dialect has: local_shell_call" in ran.complaint


async def test_plain_text_for_a_tool_is_told_as_an_object(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n"
    response(
        tmp_path,
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "apply_patch",
         "input": patch, "status": "completed"},
    )  # fmt: skip

    ran = await run("export", "openai-responses", "--as", "anthropic", folder=tmp_path)

    [call] = read("anthropic", ran.out, stream=True).parts
    assert isinstance(call, ToolCall)
    assert (call.name, json.loads(call.arguments)) == ("apply_patch", {"input": patch})


async def test_seals_and_ids_of_a_provider_stay_behind_and_are_named(tmp_path: Path) -> None:
    body = json.dumps({
        "id": "msg_recorded", "type": "message", "role": "assistant", "model": "claude",
        "content": [{"type": "thinking", "thinking": "Hm.", "signature": "c2VhbA=="},
                    {"type": "text", "text": "Yes."}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 2},
    }).encode()  # fmt: skip
    head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "length", len(body))
    put(tmp_path, post("/v1/messages", b'{"model":"claude"}'), Answer(((1.0, body),), head=head))

    ran = await run("export", "anthropic", "--as", "openai-chat", folder=tmp_path)

    assert "msg_recorded" not in ran.out
    assert "c2VhbA==" not in ran.out
    assert "left out: the seal of its reasoning" in ran.err
    assert read("openai-chat", ran.out, stream=True).parts == (Reasoning("Hm."), Text("Yes."))


async def test_two_takes_of_one_request_are_told_under_ids_of_their_own(tmp_path: Path) -> None:
    put(tmp_path, chat("hi"), says("One."), says("Two."))

    one, two = [
        read("anthropic", ran.out, stream=True)
        for ran in [
            await run("export", f"{KEY[:16]}-{item}", "--as", "anthropic", folder=tmp_path)
            for item in (1, 2)
        ]
    ]

    assert (one.text, two.text) == ("One.", "Two.")
    assert one.id != two.id


async def test_the_model_asked_for_stands_in_for_one_that_is_not_named(tmp_path: Path) -> None:
    recorded(tmp_path, event("Yes."))  # whose chunks name none

    ran = await run("export", KEY[:8], "--as", "anthropic", folder=tmp_path)

    assert read("anthropic", ran.out, stream=True).model == "m"


async def test_a_member_that_is_not_known_is_refused(tmp_path: Path) -> None:
    recorded(tmp_path, event("Yes."))
    asked = ("export", KEY[:8], "--as", "openai-chat", "--provider", "opnerouter")

    ran = await run(*asked, folder=tmp_path)

    assert ran.code == 2
    assert "'opnerouter' is not one of azure, " in ran.complaint


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            ("--as", "gemini", "--provider", "groq"),
            "--provider chooses among those who speak openai-chat, openai-completions, op",
        ),
        (("--as", "gemini", "--model", "\udcff"), "--model must be printable"),
    ],
    ids=["provider", "model"],
)
async def test_what_could_not_be_told_as_asked_is_refused(
    tmp_path: Path, options: tuple[str, ...], why: str
) -> None:
    put(tmp_path, chat("hi"), says("Yes."))

    ran = await run("export", KEY[:8], *options, folder=tmp_path)

    assert (ran.code, ran.out) == (2, "")
    assert why in ran.complaint
