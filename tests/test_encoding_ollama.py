"""What Ollama's dialect tells, held against real lines, the official SDK, and every real answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import ollama
import pytest

import conformance_cases
import corpus
from dialect_manners import DELIVERY, asking
from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.ollama.dialect import Ollama
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.turns import (
    Failure,
    Finish,
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
TOLD = replace(DELIVERY, split_text=lambda text: [text], created=1_795_255_200)
DURATIONS = {
    "total_duration": 500000000,
    "load_duration": 10000000,
    "prompt_eval_duration": 90000000,
    "eval_duration": 300000000,
}
DONE = {"done": True, "done_reason": "stop", **DURATIONS, "prompt_eval_count": 9, "eval_count": 5}
ENDED = Turn(
    (),
    Finish.STOP,
    "stop",
    Usage(9, 5),
    model="qwen3",
    metadata=tuple(DURATIONS.items()),
)
ROME = ToolCall("call_a", "get_weather", '{"city":"Rome"}')
OSLO = ToolCall("call_b", "get_weather", '{"city":"Oslo"}')


def asked(path: str = "/api/chat", **body: Any) -> Request:
    return asking(path, **{"model": "qwen3", **body})


def said(response: DialectResponse) -> list[Any]:
    """The documents of an answer."""
    return [json.loads(message) for message in response.messages]


def told(turn: Turn, path: str = "/api/chat", **body: Any) -> list[Any]:
    return said(DIALECT.encode(asked(path, **body), [turn], TOLD))


def line(at: int, message: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    """A line as a server writes it."""
    moment = {"model": "qwen3", "created_at": f"2026-11-21T10:00:00.{at:09}Z"}
    said = {} if message is None else {"message": {"role": "assistant", "content": "", **message}}
    return {**moment, **said, **fields}


def test_a_chat_is_told_line_by_line_as_a_server_does() -> None:
    turn = replace(ENDED, parts=(Reasoning("I should greet."), Text("Hello")))

    assert told(turn) == [
        line(1, {"thinking": "I should greet."}, done=False),
        line(2, {"content": "Hello"}, done=False),
        line(3, {}, **DONE),
    ]


def test_calls_come_whole_each_in_a_line_of_its_own() -> None:
    turn = replace(ENDED, parts=(ROME, OSLO), finish=Finish.TOOL_CALLS)
    calls = [
        {"id": it.id, "function": {"index": at, "name": it.name, "arguments": {"city": city}}}
        for at, (it, city) in enumerate([(ROME, "Rome"), (OSLO, "Oslo")])
    ]

    assert told(turn) == [
        line(1, {"tool_calls": calls[:1]}, done=False),
        line(2, {"tool_calls": calls[1:]}, done=False),
        line(3, {}, **DONE),
    ]
    assert told(turn, stream=False) == [line(0, {"tool_calls": calls}, **DONE)]


def test_a_completion_says_it_beside_response() -> None:
    turn = replace(ENDED, parts=(Reasoning("Hm."), Text("Hello"), Media("image/*", base64="AAAA")))

    assert told(turn, "/api/generate") == [
        line(1, None, response="", thinking="Hm.", done=False),
        line(2, None, response="Hello", done=False),
        line(3, None, response="", image="AAAA", done=False),
        line(4, None, response="", **DONE),
    ]
    whole = {"response": "Hello", "thinking": "Hm.", "image": "AAAA"}
    assert told(turn, "/api/generate", stream=False) == [line(0, None, **whole, **DONE)]


def test_a_chat_that_does_not_stream_is_one_document() -> None:
    drawn = (Media("image/*", base64="AAAA"), Media("image/*", base64="BBBB"))
    turn = replace(ENDED, parts=(Reasoning("Hm."), Text("Hello"), *drawn))
    message = {"content": "Hello", "thinking": "Hm.", "images": ["AAAA", "BBBB"]}

    assert told(turn, stream=False) == [line(0, message, **DONE)]


def test_a_request_that_says_nothing_of_streams_gets_one() -> None:
    response = DIALECT.encode(asked(), [ENDED], TOLD)

    assert response.codec == "ndjson"
    assert response.head.headers == (("Content-Type", "application/x-ndjson"),)
    assert response.messages[-1].endswith(b"}\n")


def test_no_line_holds_what_python_takes_for_the_end_of_one() -> None:
    turn = Turn((Text("a\u2028b\u0085c"), ToolCall("", "f", '{"a":"\u2029"}')))

    for message in DIALECT.encode(asked(), [turn], TOLD).messages:
        assert len(message.decode().splitlines()) == 1


def test_an_error_amid_a_stream_is_its_last_line() -> None:
    failure = Failure("model runner has unexpectedly stopped", "server_error", "502")
    turn = Turn((Text("Hel"),), failure=failure, usage=Usage(1, 2), model="qwen3")

    assert told(turn) == [
        line(1, {"content": "Hel"}, done=False),
        {"error": "model runner has unexpectedly stopped", "status": 502},
    ]
    assert told(Turn((), failure=Failure("busy", code="busy"))) == [{"error": "busy"}]


def test_where_a_model_ran_stands_in_every_line() -> None:
    place = (("remote_model", "qwen3:480b"), ("remote_host", "https://ollama.example"))
    turn = replace(ENDED, parts=(Text("a"), ROME), metadata=place)

    assert all(place[0][1] == item["remote_model"] for item in told(turn))


def test_a_turn_that_does_not_say_how_long_it_took_took_some_time() -> None:
    [*_, end] = told(Turn((Text("Hello"),), usage=Usage(9, 5)))

    assert end["prompt_eval_duration"] == 9_000_000
    assert end["eval_duration"] == 50_000_000
    assert end["total_duration"] == 60_000_000
    [*_, end] = told(Turn((), usage=None, metadata=(("eval_duration", 7),)))
    assert (end["eval_count"], end["eval_duration"], end["total_duration"]) == (0, 7, 2_000_007)


@pytest.mark.parametrize(
    ("turn", "path", "stream", "why"),
    [
        (Turn((ToolCall("", "f", "[1]"),)), "/api/chat", True, "the arguments of a call"),
        (Turn((ToolCall("", "f", '{"a":'),)), "/api/chat", False, "the arguments of a call"),
        (Turn((Media("audio/wav", base64="AAAA"),)), "/api/chat", True, "media"),
        (Turn((Media("image/png", url="https://a.example"),)), "/api/chat", True, "media"),
        (Turn((Media("image/png", base64="AA"),) * 2), "/api/generate", False, "one image"),
        (Turn((Text("Hello"),)), "/api/pull", True, "no turn on /api/pull"),
    ],
    ids=["a list", "broken JSON", "a sound", "an address", "two images", "a transfer"],
)
def test_what_would_be_another_answer_is_refused(
    turn: Turn, path: str, stream: bool, why: str
) -> None:
    with pytest.raises(NotRepresentable, match=why):
        DIALECT.encode(asked(path, stream=stream), [turn], TOLD)


def test_what_has_no_word_is_left_out_and_named() -> None:
    parts: tuple[Part, ...] = (
        Reasoning("Hm.", signature="c2VhbA=="),
        ToolCall("s_1", "web_search", "{}"),
        ToolResult("s_1", "found"),
        Refusal("No."),
    )
    turn = Turn(parts, Finish.REFUSAL, usage=Usage(1, 2, cache_read=3))

    fits = DIALECT.convert(asked(), [turn], TOLD)

    assert fits.turns[0].parts == (Reasoning("Hm."), Text("No."))
    assert fits.losses == (
        "signature of reasoning",
        "what the provider's own tools did",
        "that a refusal is one",
        "finish refusal (told as stop, which means stop)",
        "usage cache_read",
    )


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503, 529])
def test_a_status_has_words_and_no_headers_but_when_to_ask_again(status: int) -> None:
    response = DIALECT.error_response(status, Failure("", "", ""), TOLD, retry_after=1.2)

    [body] = said(response)
    assert list(body) == ["error"]
    assert response.head.headers == (("Content-Type", "application/json"), ("Retry-After", "2"))
    client = _client(lambda _: response)
    with pytest.raises(ollama.ResponseError) as raised:
        client.chat(model="qwen3", messages=[])
    assert (raised.value.status_code, raised.value.error) == (status, body["error"])


@pytest.mark.parametrize("status", [402, 408, 413, 418, 422])
def test_a_status_that_is_the_clients_fault_is_not_the_servers(status: int) -> None:
    refused = [DIALECT.error_response(item, Failure(""), TOLD) for item in (status, 400, 500)]

    words, of_client, of_server = (said(item)[0]["error"] for item in refused)
    assert words == of_client != of_server


def test_an_error_in_place_of_an_answer_has_the_status_of_its_code() -> None:
    turn = Turn((Text("Hel"),), failure=Failure("slow down", code="429"))

    response = DIALECT.encode(asked(stream=False), [turn], TOLD)

    assert response.head.status == 429
    assert DIALECT.decode(response) == (Turn((), failure=Failure("slow down")),)
    other = replace(turn, failure=Failure("slow down", code="slow"))
    assert DIALECT.encode(asked(stream=False), [other], TOLD).head.status == 500


def _client(answer: Callable[[Request], DialectResponse]) -> Any:
    """The official client of somebody who answers each request so."""

    def respond(it: httpx.Request) -> httpx.Response:
        response = answer(Request(it.method, it.url.path, "", (), it.read()))
        body = b"".join(response.messages)
        return httpx.Response(response.head.status, content=body)

    return ollama.Client(host="http://127.0.0.1", transport=httpx.MockTransport(respond))


def _asking(turn: Turn) -> Any:
    return _client(lambda request: DIALECT.encode(request, [turn], DELIVERY))


CASES = [
    pytest.param(case.turn, id=case.name) for case in conformance_cases.CASES if case.status == 200
]


@pytest.mark.parametrize("turn", [case for case in CASES if case.id != "error-amid"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_the_sdk_hears_what_was_told(turn: Turn, stream: bool) -> None:
    answer = _asking(turn).chat(model="qwen3", messages=[], stream=stream)

    lines = list(answer) if stream else [answer]
    messages = [item.message for item in lines]
    assert "".join(message.content or "" for message in messages) == turn.text + "".join(
        part.text for part in turn.parts if isinstance(part, Refusal)
    )
    assert "".join(message.thinking or "" for message in messages) == "".join(
        part.text for part in turn.parts if isinstance(part, Reasoning)
    )
    calls = [call.function for message in messages for call in message.tool_calls or ()]
    assert [(item.name, item.arguments) for item in calls] == [
        (part.name, json.loads(part.arguments)) for part in turn.parts if isinstance(part, ToolCall)
    ]
    end, usage = lines[-1], turn.usage or Usage(0, 0)
    assert end.done
    assert end.done_reason == ("length" if turn.finish is Finish.LENGTH else "stop")
    assert (end.prompt_eval_count, end.eval_count) == (usage.input, usage.output)
    assert end.eval_duration


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_the_sdk_hears_a_completion(stream: bool) -> None:
    turn = Turn((Reasoning("Hm."), Text("Grüße 🌊\u2028")), usage=Usage(9, 5))

    answer = _asking(turn).generate(model="qwen3", prompt="Hi", stream=stream)

    lines = list(answer) if stream else [answer]
    assert "".join(item.thinking or "" for item in lines) == "Hm."
    assert "".join(item.response for item in lines) == "Grüße 🌊\u2028"
    assert (lines[-1].done, lines[-1].eval_count) == (True, 5)


def test_the_sdk_raises_an_error_amid_a_stream() -> None:
    turn = Turn((Text("Hello"),), failure=Failure("the runner is gone"))
    heard: list[Any] = []

    with pytest.raises(ollama.ResponseError, match="the runner is gone"):
        heard.extend(_asking(turn).chat(model="qwen3", messages=[], stream=True))
    assert [item.message.content for item in heard] == ["Hello"]


def _beside(request: Request) -> DialectResponse:
    response = DIALECT.auxiliary_response(
        request, replace(DELIVERY, models=("qwen3", "ns/mine:8b"))
    )
    assert response is not None
    assert DIALECT.completeness(response).is_complete
    assert DIALECT.codec(request, response.head) == response.codec
    assert framing.split_messages(response.codec, b"".join(response.messages)) == list(
        response.messages
    )
    return response


def test_the_sdk_is_told_the_models() -> None:
    client = _client(_beside)

    assert [model.model for model in client.list().models] == ["qwen3:latest", "ns/mine:8b"]
    assert [model.model for model in client.ps().models] == ["qwen3:latest", "ns/mine:8b"]
    shown = client.show("ns/mine:8b")
    assert shown.details is not None
    assert shown.details.family == "mine"
    assert shown.capabilities == ["completion", "tools", "thinking", "embedding"]
    assert shown.modelinfo is not None
    assert shown.modelinfo["mine.context_length"]
    [version] = said(_beside(Request("GET", "/api/version", "", (), b"")))
    assert list(version) == ["version"]


@pytest.mark.parametrize("path", ["/api/pull", "/api/push", "/api/create"])
def test_a_transfer_tells_its_progress_up_to_success(path: str) -> None:
    *steps, last = said(_beside(asked(path)))

    assert last == {"status": "success"}
    assert [step["status"] for step in steps]
    layers = [step for step in steps if "total" in step]
    assert [layer["completed"] for layer in layers] == sorted(
        layer["completed"] for layer in layers
    )
    assert all(layer["completed"] == layer["total"] for layer in layers[-1:])
    assert said(_beside(asked(path, stream=False))) == [last]


def test_the_sdk_follows_the_transfers() -> None:
    client = _client(_beside)

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
    response = _beside(asked(path, model=""))

    assert (response.head.status, said(response)) == (400, [{"error": "model is required"}])


def test_any_model_is_there_where_none_are_listed() -> None:
    response = DIALECT.auxiliary_response(
        asked("/api/show", model="any"), replace(DELIVERY, models=())
    )

    assert response is not None
    assert response.head.status == 200


def test_the_sdk_gets_a_vector_for_each_text() -> None:
    client = _client(_beside)

    answer = client.embed("qwen3", ["one", "two", "one"], dimensions=64)
    one, two, again = answer.embeddings
    assert one == again != two
    assert {len(embedding) for embedding in answer.embeddings} == {64}
    assert answer.prompt_eval_count == 3
    [alone] = client.embed("qwen3", "one").embeddings
    assert len(alone) == 768
    assert client.embeddings("qwen3", "one").embedding == alone
    assert list(client.embed("qwen3", []).embeddings) == []


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/api/chat", {}, "load"),
        ("/api/chat", {"messages": [], "keep_alive": 0}, "unload"),
        ("/api/generate", {"prompt": ""}, "load"),
        ("/api/generate", {"keep_alive": "0", "stream": False}, "unload"),
    ],
)
def test_who_says_nothing_asks_for_the_model_to_be_loaded(
    path: str, body: dict[str, Any], reason: str
) -> None:
    response = _beside(asked(path, **body))

    [told] = said(response)
    assert (told["done"], told["done_reason"]) == (True, reason)
    [turn] = DIALECT.decode(response)
    assert (turn.parts, turn.finish) == ((), Finish.OTHER)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/chat", {"messages": [{"role": "user", "content": "Hi"}]}),
        ("/api/generate", {"prompt": "Hi"}),
        ("/api/generate", {"images": ["AAAA"]}),
    ],
)
def test_who_says_something_asks_for_a_turn(path: str, body: dict[str, Any]) -> None:
    assert DIALECT.auxiliary_response(asked(path, **body), DELIVERY) is None


def test_the_typical_request_asks_for_a_turn_of_the_model() -> None:
    for stream in (True, False):
        request = DIALECT.sample_request("qwen3", stream=stream)
        assert DIALECT.matches(request)
        assert (DIALECT.model(request), DIALECT.streams(request)) == ("qwen3", stream)
        assert DIALECT.auxiliary_response(request, DELIVERY) is None


MADE = {"3a9cf9a787986f3c": "the count of a prompt that was cached, which is nought"}
"""Real answers that are told with something more."""


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_real_answer_is_told_again_as_it_was() -> None:
    found = [row for row in corpus.rows() if row.wire.startswith("ollama.")]
    told = [row for row in found if row.request.path != "/api/pull"]
    assert (len(found), len(told)) == (17, 16)
    for row in told:
        codec = DIALECT.codec(row.request, row.head)
        turns = DIALECT.decode(
            DialectResponse(row.head, codec, framing.split_messages(codec, row.body))
        )
        fits = DIALECT.convert(row.request, turns, DELIVERY)
        assert fits.losses == (), row.id
        assert (fits.turns == turns) is (row.id not in MADE), row.id
        assert DIALECT.decode(DIALECT.encode(row.request, turns, DELIVERY)) == fits.turns, row.id
        assert _keys(row, codec) <= _told_keys(row, codec, turns), row.id


def _keys(row: corpus.Row, codec: str) -> set[str]:
    """The fields of a real answer, but for the prompt in tokens, which nobody knows but it."""
    lines = framing.split_messages(codec, row.body)
    return {name for item in lines for name in json.loads(item)} - {"context"}


def _told_keys(row: corpus.Row, codec: str, turns: tuple[Turn, ...]) -> set[str]:
    response = DIALECT.encode(row.request, turns, DELIVERY)
    assert response.codec == codec
    return {name for item in said(response) for name in item}
