"""Ollama encoding, compared with recorded lines, the official SDK, and every recorded answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import ollama
import pytest

import corpus
from case_tables import each_row
from dialect_manners import ENCODE_CONTEXT, SPLIT_CONTEXT, json_request
from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.ollama.dialect import Ollama
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

DIALECT = Ollama()
CONTEXT = replace(ENCODE_CONTEXT, split_text=lambda text: [text], created_unix_s=1_795_255_200)
DURATIONS = {
    "total_duration": 500000000,
    "load_duration": 10000000,
    "prompt_eval_duration": 90000000,
    "eval_duration": 300000000,
}
DONE_FIELDS = {
    "done": True,
    "done_reason": "stop",
    **DURATIONS,
    "prompt_eval_count": 9,
    "eval_count": 5,
}
ENDED_TURN = Turn(
    (),
    FinishReason.STOP,
    "stop",
    Usage(9, 5),
    model="qwen3",
    metadata=tuple(DURATIONS.items()),
)
ROME = ToolCall("call_a", "get_weather", '{"city":"Rome"}')
OSLO = ToolCall("call_b", "get_weather", '{"city":"Oslo"}')


def ollama_request(path: str = "/api/chat", **body: Any) -> Request:
    return json_request(path, **{"model": "qwen3", **body})


def response_documents(response: DialectResponse) -> list[Any]:
    """The documents of a response."""
    return [json.loads(message) for message in response.framed_messages]


def encode_documents(turn: Turn, path: str = "/api/chat", **body: Any) -> list[Any]:
    return response_documents(
        DIALECT.encode_response(ollama_request(path, **body), [turn], CONTEXT)
    )


def line(number: int, message: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    """A line as a server writes it."""
    envelope = {"model": "qwen3", "created_at": f"2026-11-21T10:00:00.{number:09}Z"}
    message_field = (
        {} if message is None else {"message": {"role": "assistant", "content": "", **message}}
    )
    return {**envelope, **message_field, **fields}


def call(index: int, tool_call: ToolCall) -> dict[str, Any]:
    arguments = json.loads(tool_call.arguments)
    return {
        "id": tool_call.id,
        "function": {"index": index, "name": tool_call.name, "arguments": arguments},
    }


GREETING = (Reasoning("Hm."), Text("Hello"))
IMAGES = (Media("image/*", base64="AAAA"), Media("image/*", base64="BBBB"))
CALLING = replace(ENDED_TURN, parts=(ROME, OSLO), finish=FinishReason.TOOL_CALLS)
CUT_AT_LIMIT = replace(CALLING, finish=FinishReason.LENGTH, finish_raw="length")


@each_row(
    ("path", "stream", "turn", "documents"),
    [
        pytest.param(
            "/api/chat", True, replace(ENDED_TURN, parts=GREETING),
            [
                line(1, {"thinking": "Hm."}, done=False),
                line(2, {"content": "Hel"}, done=False),
                line(3, {"content": "lo"}, done=False),
                line(4, {}, **DONE_FIELDS),
            ],
            id="a chat, line by line",
        ),
        pytest.param(
            "/api/chat", True, CALLING,
            [
                line(1, {"tool_calls": [call(0, ROME)]}, done=False),
                line(2, {"tool_calls": [call(1, OSLO)]}, done=False),
                line(3, {}, **DONE_FIELDS),
            ],
            id="calls, each whole in a line of its own",
        ),
        pytest.param(
            "/api/chat", False, CALLING,
            [line(0, {"tool_calls": [call(0, ROME), call(1, OSLO)]}, **DONE_FIELDS)],
            id="calls in a document",
        ),
        pytest.param(
            "/api/chat", False, CUT_AT_LIMIT,
            [
                line(0, {"tool_calls": [call(0, ROME), call(1, OSLO)]},
                     **DONE_FIELDS | {"done_reason": "length"})
            ],
            id="calls that were cut short",
        ),
        pytest.param(
            "/api/generate", True, replace(ENDED_TURN, parts=(*GREETING, *IMAGES[:1])),
            [
                line(1, None, response="", thinking="Hm.", done=False),
                line(2, None, response="Hel", done=False),
                line(3, None, response="lo", done=False),
                line(4, None, response="", image="AAAA", done=False),
                line(5, None, response="", **DONE_FIELDS),
            ],
            id="a completion, line by line",
        ),
        pytest.param(
            "/api/generate", False, replace(ENDED_TURN, parts=(*GREETING, *IMAGES[:1])),
            [line(0, None, response="Hello", thinking="Hm.", image="AAAA", **DONE_FIELDS)],
            id="a completion in a document",
        ),
        pytest.param(
            "/api/chat", False, replace(ENDED_TURN, parts=(*GREETING, *IMAGES)),
            [
                line(0, {"content": "Hello", "thinking": "Hm.", "images": ["AAAA", "BBBB"]},
                     **DONE_FIELDS)
            ],
            id="a chat in a document",
        ),
    ],
)  # fmt: skip
def test_turns_and_documents_convert_in_both_directions(
    path: str, stream: bool, turn: Turn, documents: list[Any]
) -> None:
    context = replace(CONTEXT, split_text=SPLIT_CONTEXT.split_text)
    response = DIALECT.encode_response(ollama_request(path, stream=stream), [turn], context)

    assert response_documents(response) == documents
    assert DIALECT.decode_response(response) == (turn,)


def test_a_request_without_stream_gets_a_stream() -> None:
    response = DIALECT.encode_response(ollama_request(), [ENDED_TURN], CONTEXT)

    assert response.codec_name == "ndjson"
    assert response.head.headers == (("Content-Type", "application/x-ndjson"),)
    assert response.framed_messages[-1].endswith(b"}\n")


def test_no_line_holds_a_character_that_python_treats_as_a_line_end() -> None:
    turn = Turn((Text("a\u2028b\u0085c"), ToolCall("", "f", '{"a":"\u2029"}')))

    for message in DIALECT.encode_response(ollama_request(), [turn], CONTEXT).framed_messages:
        assert len(message.decode().splitlines()) == 1


def test_an_error_amid_a_stream_is_its_last_line() -> None:
    failure = Failure("model runner has unexpectedly stopped", "server_error", "502")
    turn = Turn((Text("Hel"),), failure=failure, usage=Usage(1, 2), model="qwen3")

    assert encode_documents(turn) == [
        line(1, {"content": "Hel"}, done=False),
        {"error": "model runner has unexpectedly stopped", "status": 502},
    ]
    assert encode_documents(Turn((), failure=Failure("busy", code="busy"))) == [{"error": "busy"}]


def test_the_remote_model_is_in_every_line() -> None:
    remote_metadata = (("remote_model", "qwen3:480b"), ("remote_host", "https://ollama.example"))
    turn = replace(ENDED_TURN, parts=(Text("a"), ROME), metadata=remote_metadata)

    assert all(remote_metadata[0][1] == item["remote_model"] for item in encode_documents(turn))


def test_durations_are_made_up_if_the_turn_has_none() -> None:
    [*_, end] = encode_documents(Turn((Text("Hello"),), usage=Usage(9, 5)))

    assert end["prompt_eval_duration"] == 9_000_000
    assert end["eval_duration"] == 50_000_000
    assert end["total_duration"] == 60_000_000
    [*_, end] = encode_documents(Turn((), usage=None, metadata=(("eval_duration", 7),)))
    assert (end["eval_count"], end["eval_duration"], end["total_duration"]) == (0, 7, 2_000_007)


@each_row(
    ("turn", "path", "stream", "error"),
    [
        (Turn((ToolCall("", "f", "[1]"),)), "/api/chat", True, "the arguments of f are not"),
        (Turn((ToolCall("", "f", '{"a":'),)), "/api/chat", False, "the arguments of f are not"),
        (Turn((Media("audio/wav", base64="AAAA"),)), "/api/chat", True, "media"),
        (Turn((Media("image/png", url="https://a.example"),)), "/api/chat", True, "media"),
        (Turn((Media("image/png", base64="AA"),) * 2), "/api/generate", False, "one image"),
        (Turn((Text("Hello"),)), "/api/pull", True, "cannot generate a response for /api/pull"),
    ],
    ids=["a list", "broken JSON", "a sound", "an address", "two images", "a transfer"],
)
def test_what_is_not_representable_is_refused(
    turn: Turn, path: str, stream: bool, error: str
) -> None:
    with pytest.raises(NotRepresentable, match=error):
        DIALECT.encode_response(ollama_request(path, stream=stream), [turn], CONTEXT)


def test_what_is_not_representable_is_dropped_and_listed_as_a_loss() -> None:
    parts: tuple[Part, ...] = (
        Reasoning("Hm.", signature="c2VhbA=="),
        ToolCall("s_1", "web_search", "{}"),
        ToolResult("s_1", "found"),
        Refusal("No."),
    )
    turn = Turn(parts, FinishReason.REFUSAL, usage=Usage(1, 2, cache_read=3))

    converted = DIALECT.representable_turns(ollama_request(), [turn], CONTEXT)

    assert converted.turns[0].parts == (Reasoning("Hm."), Text("No."))
    assert converted.losses == (
        "signature of reasoning",
        "calls and results of the provider's own tools",
        "refusal (sent as text)",
        "finish reason refusal (sent as stop, which means stop)",
        "usage cache_read",
    )


@each_row("status", [400, 401, 403, 404, 429, 500, 503, 529])
def test_an_error_has_a_message_and_no_headers_but_retry_after(status: int) -> None:
    response = DIALECT.error_response(status, Failure("", "", ""), CONTEXT, retry_after=1.2)

    [body] = response_documents(response)
    assert list(body) == ["error"]
    assert response.head.headers == (("Content-Type", "application/json"), ("Retry-After", "2"))
    client = _client(lambda _: response)
    with pytest.raises(ollama.ResponseError) as raised:
        client.chat(model="qwen3", messages=[])
    assert (raised.value.status_code, raised.value.error) == (status, body["error"])


@each_row("status", [402, 408, 413, 418, 422])
def test_a_client_error_status_has_the_message_of_400(status: int) -> None:
    error_responses = [
        DIALECT.error_response(item, Failure(""), CONTEXT) for item in (status, 400, 500)
    ]

    message, message_400, message_500 = (
        response_documents(item)[0]["error"] for item in error_responses
    )
    assert message == message_400 != message_500


def test_an_error_in_place_of_an_answer_has_the_status_of_its_code() -> None:
    turn = Turn((Text("Hel"),), failure=Failure("slow down", code="429"))

    response = DIALECT.encode_response(ollama_request(stream=False), [turn], CONTEXT)

    assert response.head.status == 429
    assert DIALECT.decode_response(response) == (Turn((), failure=Failure("slow down")),)
    turn_without_status = replace(turn, failure=Failure("slow down", code="slow"))
    assert (
        DIALECT.encode_response(
            ollama_request(stream=False), [turn_without_status], CONTEXT
        ).head.status
        == 500
    )


def _client(response_for: Callable[[Request], DialectResponse]) -> Any:
    """The official client, with this function as its server."""

    def handle(sdk_request: httpx.Request) -> httpx.Response:
        response = response_for(
            Request(sdk_request.method, sdk_request.url.path, "", (), sdk_request.read())
        )
        body = b"".join(response.framed_messages)
        return httpx.Response(response.head.status, content=body)

    return ollama.Client(host="http://127.0.0.1", transport=httpx.MockTransport(handle))


def _client_of(turn: Turn) -> Any:
    return _client(lambda request: DIALECT.encode_response(request, [turn], ENCODE_CONTEXT))


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_the_sdk_receives_a_completion(stream: bool) -> None:
    turn = Turn((Reasoning("Hm."), Text("Grüße 🌊\u2028")), usage=Usage(9, 5))

    answer = _client_of(turn).generate(model="qwen3", prompt="Hi", stream=stream)

    lines = list(answer) if stream else [answer]
    assert "".join(item.thinking or "" for item in lines) == "Hm."
    assert "".join(item.response for item in lines) == "Grüße 🌊\u2028"
    assert (lines[-1].done, lines[-1].eval_count) == (True, 5)


def test_the_sdk_raises_an_error_amid_a_stream() -> None:
    turn = Turn((Text("Hello"),), failure=Failure("the runner is gone"))
    chunks: list[Any] = []

    with pytest.raises(ollama.ResponseError, match="the runner is gone"):
        chunks.extend(_client_of(turn).chat(model="qwen3", messages=[], stream=True))
    assert [item.message.content for item in chunks] == ["Hello"]


def _auxiliary_response(request: Request) -> DialectResponse:
    response = DIALECT.auxiliary_response(
        request, replace(ENCODE_CONTEXT, models=("qwen3", "ns/mine:8b"))
    )
    assert response is not None
    assert DIALECT.completeness(response).is_complete
    assert DIALECT.codec_name(request, response.head) == response.codec_name
    assert framing.split_messages(response.codec_name, b"".join(response.framed_messages)) == list(
        response.framed_messages
    )
    return response


def test_the_sdk_lists_the_models() -> None:
    client = _client(_auxiliary_response)

    assert [model.model for model in client.list().models] == ["qwen3:latest", "ns/mine:8b"]
    assert [model.model for model in client.ps().models] == ["qwen3:latest", "ns/mine:8b"]
    shown = client.show("ns/mine:8b")
    assert shown.details is not None
    assert shown.details.family == "mine"
    assert shown.capabilities == ["completion", "tools", "thinking", "embedding"]
    assert shown.modelinfo is not None
    assert shown.modelinfo["mine.context_length"]
    [version] = response_documents(_auxiliary_response(Request("GET", "/api/version", "", (), b"")))
    assert list(version) == ["version"]


@each_row("path", ["/api/pull", "/api/push", "/api/create"])
def test_a_transfer_streams_its_progress_up_to_success(path: str) -> None:
    *steps, last = response_documents(_auxiliary_response(ollama_request(path)))

    assert last == {"status": "success"}
    assert [step["status"] for step in steps]
    layers = [step for step in steps if "total" in step]
    assert [layer["completed"] for layer in layers] == sorted(
        layer["completed"] for layer in layers
    )
    assert all(layer["completed"] == layer["total"] for layer in layers[-1:])
    assert response_documents(_auxiliary_response(ollama_request(path, stream=False))) == [last]


def test_the_sdk_follows_the_transfers() -> None:
    client = _client(_auxiliary_response)

    assert [item.status for item in client.pull("other", stream=True)][-1] == "success"
    assert client.push("qwen3").status == "success"
    assert client.create("new", from_="qwen3").status == "success"
    assert client.copy("qwen3", "copied").status == "success"
    assert client.delete("qwen3:latest").status == "success"
    with pytest.raises(ollama.ResponseError, match="model 'none' not found") as raised:
        client.delete("none")
    assert raised.value.status_code == 404


@pytest.mark.parametrize("path", ["/api/show", "/api/embed"])
def test_a_request_for_no_model_is_a_mistake(path: str) -> None:
    response = _auxiliary_response(ollama_request(path, model=""))

    assert (response.head.status, response_documents(response)) == (
        400,
        [{"error": "model is required"}],
    )


def test_any_model_is_there_where_none_are_listed() -> None:
    response = DIALECT.auxiliary_response(
        ollama_request("/api/show", model="any"), replace(ENCODE_CONTEXT, models=())
    )

    assert response is not None
    assert response.head.status == 200


def test_the_sdk_gets_a_vector_for_each_text() -> None:
    client = _client(_auxiliary_response)

    answer = client.embed("qwen3", ["one", "two", "one"], dimensions=64)
    one, two, again = answer.embeddings
    assert one == again != two
    assert {len(embedding) for embedding in answer.embeddings} == {64}
    assert answer.prompt_eval_count == 3
    [alone] = client.embed("qwen3", "one").embeddings
    assert len(alone) == 768
    assert client.embeddings("qwen3", "one").embedding == alone
    assert list(client.embed("qwen3", []).embeddings) == []


@each_row(
    ("path", "body", "reason"),
    [
        ("/api/chat", {}, "load"),
        ("/api/chat", {"messages": [], "keep_alive": 0}, "unload"),
        ("/api/generate", {"prompt": ""}, "load"),
        ("/api/generate", {"keep_alive": "0", "stream": False}, "unload"),
    ],
)
def test_a_request_without_a_prompt_loads_or_unloads_the_model(
    path: str, body: dict[str, Any], reason: str
) -> None:
    response = _auxiliary_response(ollama_request(path, **body))

    [document] = response_documents(response)
    assert (document["done"], document["done_reason"]) == (True, reason)
    [turn] = DIALECT.decode_response(response)
    assert (turn.parts, turn.finish) == ((), FinishReason.OTHER)


@each_row(
    ("path", "body"),
    [
        ("/api/chat", {"messages": [{"role": "user", "content": "Hi"}]}),
        ("/api/generate", {"prompt": "Hi"}),
        ("/api/generate", {"images": ["AAAA"]}),
    ],
)
def test_a_request_with_a_prompt_asks_for_a_turn(path: str, body: dict[str, Any]) -> None:
    assert DIALECT.auxiliary_response(ollama_request(path, **body), ENCODE_CONTEXT) is None


def test_the_sample_request_asks_for_a_turn_of_the_model() -> None:
    for stream in (True, False):
        request = DIALECT.sample_request("qwen3", stream=stream)
        assert DIALECT.matches(request)
        assert (DIALECT.model(request), DIALECT.streams(request)) == ("qwen3", stream)
        assert DIALECT.auxiliary_response(request, ENCODE_CONTEXT) is None


CHANGED_ROWS = {"3a9cf9a787986f3c": "the count of a prompt that was cached, which is nought"}
"""Rows whose encoding adds something."""


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_recorded_answer_round_trips() -> None:
    rows = [row for row in corpus.rows() if row.wire.startswith("ollama.")]
    chat_rows = [row for row in rows if row.request.path != "/api/pull"]
    assert (len(rows), len(chat_rows)) == (17, 16)
    for row in chat_rows:
        codec = DIALECT.codec_name(row.request, row.head)
        turns = DIALECT.decode_response(
            DialectResponse(row.head, codec, framing.split_messages(codec, row.body))
        )
        converted = DIALECT.representable_turns(row.request, turns, ENCODE_CONTEXT)
        assert converted.losses == (), row.id
        assert (converted.turns == turns) is (row.id not in CHANGED_ROWS), row.id
        assert (
            DIALECT.decode_response(DIALECT.encode_response(row.request, turns, ENCODE_CONTEXT))
            == converted.turns
        ), row.id
        assert _recorded_fields(row, codec) <= _encoded_fields(row, codec, turns), row.id


def _recorded_fields(row: corpus.Row, codec: str) -> set[str]:
    """The fields of a recorded answer without `context`: only a real model knows its tokens."""
    lines = framing.split_messages(codec, row.body)
    return {name for item in lines for name in json.loads(item)} - {"context"}


def _encoded_fields(row: corpus.Row, codec: str, turns: tuple[Turn, ...]) -> set[str]:
    response = DIALECT.encode_response(row.request, turns, ENCODE_CONTEXT)
    assert response.codec_name == codec
    return {name for item in response_documents(response) for name in item}
