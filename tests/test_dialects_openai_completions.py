from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.openai.completions import OpenAICompletions
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.turns import Failure, FinishReason, Text, Turn, Usage

DIALECT = OpenAICompletions()

TEXT = b"""\
data: {"id":"cmpl-1","object":"text_completion","created":1700000000,\
"model":"gpt-3.5-turbo-instruct","choices":[{"text":"Hel","index":0,"logprobs":null,\
"finish_reason":null}]}

data: {"id":"cmpl-1","object":"text_completion","created":1700000000,\
"model":"gpt-3.5-turbo-instruct","choices":[{"text":"lo","index":0,"logprobs":null,\
"finish_reason":null}]}

data: {"id":"cmpl-1","object":"text_completion","created":1700000000,\
"model":"gpt-3.5-turbo-instruct","choices":[{"text":"","index":0,"logprobs":null,\
"finish_reason":"stop"}]}

data: {"id":"cmpl-1","object":"text_completion","created":1700000000,\
"model":"gpt-3.5-turbo-instruct","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,\
"total_tokens":3}}

data: [DONE]

"""
"""A minimal stream, with the usage that `include_usage` requests."""

WRITER_STREAM = b'data: {"value":"Hel"}\n\ndata: {"value":"lo"}\n\n'


def make_request(path: str = "/v1/completions", method: str = "POST", **body: object) -> Request:
    return Request(method, path, "", (), json.dumps(body).encode())


def head(status: int = 200, content_type: str = "text/event-stream") -> ResponseHead:
    headers = (("Content-Type", content_type),) if content_type else ()
    return ResponseHead(status, "", headers, "chunked")


def stream_response(body: bytes) -> DialectResponse:
    return DialectResponse(head(), "sse", framing.split_messages("sse", body))


def whole_response(body: bytes, status: int = 200) -> DialectResponse:
    return DialectResponse(
        head(status, "application/json"), "whole", framing.split_messages("whole", body)
    )


def text_chunk(text: str, finish: str | None = None, index: int = 0) -> bytes:
    choice = {"text": text, "index": index, "logprobs": None, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


@each_row(
    "path",
    [
        "/v1/completions",
        "/completions",
        "/beta/completions",
        "/openai/v1/completions",
        "/openai/deployments/davinci/completions",
        "/v1/engines/davinci/completions",
        "/inference/v1/completions",
    ],
)
def test_every_form_of_the_path_is_matched(path: str) -> None:
    assert DIALECT.matches(make_request(path))


@each_row(
    ("method", "path"),
    [
        pytest.param("GET", "/v1/completions", id="not a question"),
        pytest.param("POST", "/v1/chat/completions", id="a chat"),
        pytest.param("POST", "/openai/deployments/d/chat/completions", id="a chat on Azure"),
        pytest.param("POST", "/v1/fim/completions", id="Mistral's, which answers in messages"),
        pytest.param("POST", "/v1/agents/completions", id="Mistral's agents"),
        pytest.param("POST", "/v1/prompts/pp-1/completions", id="Portkey's prompts"),
        pytest.param("POST", "/v1/responses", id="responses"),
        pytest.param("POST", "/api/generate", id="Ollama's"),
        pytest.param("POST", "/v1/complete", id="Anthropic's"),
    ],
)
def test_other_requests_are_not_matched(method: str, path: str) -> None:
    assert not DIALECT.matches(make_request(path, method))


@each_row(
    ("request_", "model"),
    [
        pytest.param(make_request(model="davinci-002"), "davinci-002", id="in the body"),
        pytest.param(
            make_request("/openai/deployments/d%202/completions"), "d 2", id="Azure deployment"
        ),
        pytest.param(make_request(), "", id="none"),
    ],
)
def test_the_model_is_found(request_: Request, model: str) -> None:
    assert DIALECT.model(request_) == model


@each_row(("body", "streams"), [({"stream": True}, True), ({"stream": False}, False), ({}, False)])
def test_a_request_streams_only_when_it_says_so(body: dict[str, Any], streams: bool) -> None:
    assert DIALECT.streams(make_request(**body)) is streams


@each_row(
    ("response", "is_complete", "reason"),
    [
        pytest.param(stream_response(TEXT), True, "[DONE]", id="the usual end"),
        pytest.param(
            stream_response(text_chunk("a", "length")),
            True,
            "every choice finished",
            id="finished, no DONE",
        ),
        pytest.param(
            stream_response(text_chunk("a") + b'data: {"error":{"message":"Overloaded"}}\n\n'),
            True,
            "in-band error: Overloaded",
            id="an error in place of a chunk",
        ),
        pytest.param(
            stream_response(text_chunk("a", "stop") + text_chunk("b", index=1)),
            False,
            "no [DONE], choice 1 unfinished",
            id="one of two finished",
        ),
        pytest.param(stream_response(b""), False, "empty stream", id="nothing"),
        pytest.param(
            stream_response(WRITER_STREAM), False, "no [DONE], no choice", id="Writer says no end"
        ),
        pytest.param(whole_response(b'{"choices":[]}'), True, "JSON body", id="a document"),
        pytest.param(
            whole_response(b'{"choices":[{"te'), False, "body is not JSON", id="a cut document"
        ),
        pytest.param(
            whole_response(b"<html></html>", 502), True, "HTTP 502", id="a gateway's page"
        ),
    ],
)
def test_completeness_of_a_response(
    response: DialectResponse, is_complete: bool, reason: str
) -> None:
    completeness = DIALECT.completeness(response)
    assert (completeness.is_complete, completeness.reason) == (is_complete, reason)


@given(st.integers(0, len(TEXT) - 1))
def test_a_stream_cut_before_its_finish_is_incomplete(cut: int) -> None:
    finish_end = TEXT.index(b'"stop"}]}') + len(b'"stop"}]}')
    assert DIALECT.completeness(stream_response(TEXT[:cut])).is_complete is (cut >= finish_end)


def test_a_stream_becomes_a_turn() -> None:
    assert DIALECT.decode_response(stream_response(TEXT)) == (
        Turn(
            parts=(Text("Hello"),),
            finish=FinishReason.STOP,
            finish_raw="stop",
            usage=Usage(input=1, output=2, total=3),
            id="cmpl-1",
            model="gpt-3.5-turbo-instruct",
        ),
    )


def test_a_document_becomes_a_turn_for_each_choice_in_the_order_of_their_index() -> None:
    choices = [
        {"text": "b", "index": 1, "finish_reason": "length", "stop_reason": 7},
        {"text": "prompt a", "index": 0, "finish_reason": "stop", "stop_reason": None},
    ]
    body = {"id": "cmpl-2", "choices": choices, "usage": {"total_tokens": 5}}
    first, second = DIALECT.decode_response(whole_response(json.dumps(body).encode()))
    assert (first.text, first.finish) == ("prompt a", FinishReason.STOP)
    assert (second.text, second.finish) == ("b", FinishReason.LENGTH)
    assert (first.metadata, second.metadata) == ((), (("stop_reason", 7),))
    assert first.usage == second.usage == Usage(total=5)


def test_choices_of_a_stream_are_separated_by_index() -> None:
    body = (
        text_chunk("b1", index=1)
        + text_chunk("a1")
        + text_chunk("b2", "stop", 1)
        + text_chunk("a2", "length")
    )
    assert [
        (turn.text, turn.finish) for turn in DIALECT.decode_response(stream_response(body))
    ] == [
        ("a1a2", FinishReason.LENGTH),
        ("b1b2", FinishReason.STOP),
    ]


def test_writers_stream_is_decoded_without_a_finish() -> None:
    assert DIALECT.decode_response(stream_response(WRITER_STREAM)) == (Turn((Text("Hello"),)),)


def test_an_error_in_the_stream_keeps_the_preceding_content() -> None:
    (turn,) = DIALECT.decode_response(
        stream_response(text_chunk("Hi") + b'data: {"error":{"message":"no"}}\n\n')
    )
    assert (turn.text, turn.finish, turn.failure) == ("Hi", None, Failure("no"))


def test_an_http_error_is_one_turn_with_a_failure() -> None:
    body = b'{"error":{"message":"m","type":"t","param":null,"code":"c"}}'
    assert DIALECT.decode_response(whole_response(body, 404)) == (
        Turn((), failure=Failure("m", "t", "c")),
    )


@each_row("body", [b"", b"null", b'{"choices":null}', b'{"value":"a"}', b"<"])
def test_a_body_without_choices_has_no_turn(body: bytes) -> None:
    assert DIALECT.decode_response(whole_response(body)) == ()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=6,
)
CHOICES = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(["index", "text", "finish_reason", "logprobs", "error"], VALUES)
)
DOCUMENTS = st.fixed_dictionaries(
    {}, optional={"choices": st.lists(CHOICES) | VALUES, "value": VALUES, "usage": VALUES}
)


@given(st.lists(DOCUMENTS, min_size=1), st.sampled_from([200, 400]))
def test_documents_of_any_shape_decode_to_serialisable_turns(
    documents: list[dict[str, Any]], status: int
) -> None:
    encoded = [json.dumps(document).encode() for document in documents]
    events = b"".join(b"data: " + item + b"\n\n" for item in encoded)
    for response in (stream_response(events), whole_response(encoded[0], status)):
        assert DIALECT.completeness(response).reason
        assert orjson.dumps(DIALECT.decode_response(response))


def _client(status: int, content_type: str, body: bytes) -> openai.OpenAI:
    def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={"content-type": content_type}, content=body)

    return openai.OpenAI(
        api_key="none",
        base_url="http://127.0.0.1/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(respond)),
    )


def test_an_error_has_the_shape_that_the_sdk_prints() -> None:
    body = DIALECT.error_body(424, "cassette_not_found", "no cassette for this request")
    with _client(424, "application/json", body) as client, pytest.raises(openai.APIError) as raised:
        client.completions.create(model="m", prompt="p")
    assert "no cassette for this request" in str(raised.value)
    assert (raised.value.type, raised.value.code) == ("cassette_not_found",) * 2


ChoiceTexts = dict[int, tuple[str, str]]
"""Text and finish of each choice, by index."""


def _read_by_sdk(client: openai.OpenAI, *, is_streamed: bool) -> tuple[ChoiceTexts, int | None]:
    """Return the choices that the SDK decodes, and the total number of tokens."""
    if is_streamed:
        chunks = list(client.completions.create(model="m", prompt="p", stream=True))
    else:
        chunks = [client.completions.create(model="m", prompt="p")]
    texts: ChoiceTexts = {}
    total = None
    for chunk in chunks:
        total = chunk.usage.total_tokens if chunk.usage else total
        choices: list[Any] = list(chunk.choices or ())  # the SDK validates no types
        for choice in choices:
            text, finish = texts.get(choice.index or 0, ("", ""))
            texts[choice.index or 0] = (text + choice.text, choice.finish_reason or finish)
    return texts, total


def test_the_sdk_decodes_the_golden_stream_identically() -> None:
    with _client(200, "text/event-stream", TEXT) as client:
        assert _read_by_sdk(client, is_streamed=True) == ({0: ("Hello", "stop")}, 3)


needs_corpus = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)

INCOMPLETE_ROWS = {
    "cfa932f776026cc0": "no [DONE], no choice",  # Writer's stream: values without an end marker
}


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_response_is_decoded_like_the_sdk() -> None:
    rows = [
        row
        for row in corpus.rows()
        if row.wire.startswith("openai.completions") and row.fidelity == "exact"
    ]
    assert len(rows) == 46
    incomplete = {}
    for row in rows:
        assert dialects.dialect_of_request(row.request).name == DIALECT.name, row.id
        name = DIALECT.codec_name(row.request, row.head)
        assert name == ("sse" if row.streaming else "whole"), row.id
        response = DialectResponse(row.head, name, framing.split_messages(name, row.body))
        completeness = DIALECT.completeness(response)
        if not completeness.is_complete:
            incomplete[row.id] = completeness.reason
        elif row.status == 200:
            _compare(row, DIALECT.decode_response(response))
    assert incomplete == INCOMPLETE_ROWS


def _compare(row: corpus.Row, turns: tuple[Turn, ...]) -> None:
    content_type = "text/event-stream" if row.streaming else "application/json"
    with _client(row.status, content_type, row.body) as client:
        sdk_texts, total = _read_by_sdk(client, is_streamed=row.streaming)
    assert {number: (turn.text, turn.finish_raw) for number, turn in enumerate(turns)} == sdk_texts
    assert {turn.usage and turn.usage.total for turn in turns} == {total}, row.id


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_chunk_is_known() -> None:
    known = {"choices", "created", "id", "model", "object", "prompt", "usage", "value"}
    in_choices = {"finish_reason", "index", "logprobs", "log_probs", "stop_reason", "text"}
    for row in corpus.rows():
        if row.wire != "openai.completions.sse":
            continue
        for message in framing.split_messages("sse", row.body):
            if b"[DONE]" in message:
                continue
            chunk = json.loads(message.removeprefix(b"data: "))
            assert chunk.keys() <= known, row.id
            for choice in chunk.get("choices", ()):
                assert choice.keys() <= in_choices, row.id
