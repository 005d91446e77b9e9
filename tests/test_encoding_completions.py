from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import httpx2
import openai
import pytest

import corpus
from dialect_manners import ENCODE_CONTEXT, json_request
from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.openai.completions import OpenAICompletions
from llm_proxy.errors import NotRepresentable
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Metadata,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Turn,
    Usage,
)

DIALECT: Final = OpenAICompletions()
HELLO: Final = Turn((Text("Hello there"),), FinishReason.STOP, usage=Usage(1, 2, 3))
USAGE: Final[dict[str, Any]] = {"stream_options": {"include_usage": True}}


def encode_response(*turns: Turn, provider: str = "", **body: Any) -> DialectResponse:
    request = json_request("/v1/completions", model="davinci", **body)
    return DIALECT.encode_response(
        request, turns, EncodeContext("test", 1_700_000_000, provider=provider)
    )


def chunks(response: DialectResponse) -> list[dict[str, Any]]:
    """The chunks before the `[DONE]`."""
    *payloads, last = [parse_event(message).data or b"" for message in response.framed_messages]
    assert last == b"[DONE]"
    return [json.loads(item) for item in payloads]


def test_a_text_is_streamed_as_openai_does() -> None:
    first, second, last = chunks(encode_response(HELLO, stream=True))

    assert first == {
        "id": first["id"],
        "object": "text_completion",
        "created": 1_700_000_000,
        "model": "davinci",
        "choices": [{"text": "Hello", "index": 0, "logprobs": None, "finish_reason": None}],
    }
    assert second["choices"][0]["text"] == " there"
    assert last["choices"] == [{"text": "", "index": 0, "logprobs": None, "finish_reason": "stop"}]
    assert {first["id"], second["id"], last["id"]} == {first["id"]}


def test_usage_is_sent_if_requested() -> None:
    *others, last = chunks(encode_response(HELLO, stream=True, **USAGE))

    counts = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    assert (last["choices"], last["usage"]) == ([], counts)
    assert {chunk["usage"] for chunk in others} == {None}
    assert chunks(encode_response(HELLO, stream=True, provider="deepseek"))[-1]["usage"] == counts


def test_choices_are_interleaved() -> None:
    all_chunks = chunks(encode_response(HELLO, Turn((Text("Good night to you"),)), stream=True))

    choices = [item["choices"][0] for item in all_chunks]
    assert [item["index"] for item in choices] == [0, 1, 0, 1, 1, 1, 0, 1]
    assert [item["finish_reason"] for item in choices] == [None] * 6 + ["stop"] * 2


def test_choices_can_come_one_after_the_other_and_finish_once_as_the_first() -> None:
    request = json_request("/v1/completions", model="davinci", stream=True)
    turns = (HELLO, Turn(()), Turn((Text("Good night"),)))
    response = DIALECT.encode_response(
        request, turns, replace(ENCODE_CONTEXT, choices_are_successive=True)
    )

    choices = [chunk["choices"][0] for chunk in chunks(response)]
    assert [(item["index"], item["text"]) for item in choices] == [
        (0, "Hello"), (0, " there"), (1, ""), (2, "Good"), (2, " night"), (0, ""),
    ]  # fmt: skip
    assert [item["finish_reason"] for item in choices] == [None] * 5 + ["stop"]
    assert [item.text for item in DIALECT.decode_response(response)] == [
        "Hello there",
        "",
        "Good night",
    ]


def test_logprobs_are_in_the_last_chunk() -> None:
    logprobs: Metadata = (("logprobs", {"tokens": ["Hi"], "token_logprobs": [-0.5]}),)
    *_, last = chunks(encode_response(Turn((Text("Hi"),), metadata=logprobs), stream=True))

    assert last["choices"][0]["logprobs"] == dict(logprobs)["logprobs"]


def test_a_document_holds_all_choices_and_their_usage() -> None:
    document = json.loads(encode_response(HELLO, HELLO).framed_messages[0])

    assert [(choice["index"], choice["text"]) for choice in document["choices"]] == [
        (0, "Hello there"),
        (1, "Hello there"),
    ]
    assert document["usage"]["total_tokens"] == 3


def test_a_call_is_refused_and_other_parts_become_text_or_nothing() -> None:
    request = json_request("/v1/completions", model="davinci")
    with pytest.raises(NotRepresentable, match="openai-completions has no word for a tool call"):
        DIALECT.representable_turns(request, [Turn((ToolCall("a", "f", "{}"),))], ENCODE_CONTEXT)

    converted = DIALECT.representable_turns(
        request, [Turn((Reasoning("Hm."), Refusal("No.")))], ENCODE_CONTEXT
    )
    assert converted.turns[0].parts == (Text("No."),)
    assert converted.losses == ("reasoning", "that a refusal is one")


def test_an_error_amid_a_stream_ends_it() -> None:
    failing = Turn((Text("Hel"),), failure=Failure("Oh no", "server_error"))
    response = encode_response(failing, stream=True)

    assert b"".join(response.framed_messages).endswith(
        b'data: {"error":{"message":"Oh no","type":"server_error","param":null,"code":null}}\n\n'
    )
    assert encode_response(failing).head.status == 500


def _client(response: DialectResponse) -> openai.OpenAI:
    def handle(_: httpx2.Request) -> httpx2.Response:
        body = b"".join(response.framed_messages)
        return httpx2.Response(response.head.status, headers=[*response.head.headers], content=body)

    return openai.OpenAI(
        api_key="none",
        base_url="http://127.0.0.1/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(handle)),
    )


def test_the_sdk_raises_the_error_amid_a_stream() -> None:
    response = encode_response(Turn((Text("Hel"),), failure=Failure("Oh no")), stream=True)
    with _client(response) as client:
        stream = client.completions.create(model="m", prompt="p", stream=True)
        with pytest.raises(openai.APIError, match="Oh no"):
            list(stream)


needs_corpus = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_answer_round_trips() -> None:
    count = 0
    for row in corpus.rows():
        if not row.wire.startswith("openai.completions") or row.status != 200:
            continue
        codec = DIALECT.codec_name(row.request, row.head)
        if row.fidelity == "payload-lines":
            lines = [
                b"data: " + splitline + b"\n\n"
                for splitline in row.body.splitlines()
                if splitline.strip()
            ]
            response = DialectResponse(row.head, "sse", lines)
        else:
            response = DialectResponse(row.head, codec, framing.split_messages(codec, row.body))
        turns = DIALECT.decode_response(response)
        usage = USAGE if turns[0].usage else {}
        stream = response.codec_name == "sse"
        request = json_request("/v1/completions", model="m", stream=stream, **usage)
        converted = DIALECT.representable_turns(request, turns, ENCODE_CONTEXT)
        decoded = DIALECT.decode_response(DIALECT.encode_response(request, turns, ENCODE_CONTEXT))

        assert converted.losses == (), row.id
        assert decoded == converted.turns, row.id
        assert [(item.text, item.metadata) for item in decoded] == [
            (turn.text, turn.metadata) for turn in turns
        ]
        count += 1
    assert count == 45
