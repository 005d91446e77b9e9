from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx2
import openai
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from dialect_manners import ENCODE_CONTEXT
from dialect_responses import stream_response, whole_response
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.openai.completions import OpenAICompletions
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Json,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Turn,
    Usage,
)

DIALECT = OpenAICompletions()

COUNTS = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
HELLO = Turn(
    (Text("Hello there"),), FinishReason.STOP, "stop", Usage(1, 2, 3), id="cmpl-1", model="davinci"
)
LOGPROBS: dict[str, Json] = {"tokens": ["Good"], "token_logprobs": [-0.5]}
CUT_AT_LIMIT = replace(
    HELLO,
    parts=(Text("Good night"),),
    finish=FinishReason.LENGTH,
    finish_raw="length",
    metadata=(("logprobs", LOGPROBS),),
)
FAILING = Turn(
    (Text("Hello"),), failure=Failure("Oh no", "server_error"), id="cmpl-1", model="davinci"
)


def choice(
    text: str = "", finish: str | None = None, index: int = 0, logprobs: Json = None
) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": finish}


def document(*choices: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A chunk, or a whole response."""
    ids = {"id": "cmpl-1", "object": "text_completion", "created": 1_700_000_000}
    return {**ids, "model": "davinci", "choices": choices, **fields}


def events(*documents: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + orjson.dumps(document) + b"\n\n" for document in documents)


DONE = b"data: [DONE]\n\n"
TEXT = (
    events(
        document(choice("Hello"), usage=None),
        document(choice(" there"), usage=None),
        document(choice(finish="stop"), usage=None),
        document(usage=COUNTS),
    )
    + DONE
)
"""A minimal stream, with the usage that `include_usage` requests."""

WRITER_STREAM = b'data: {"value":"Hel"}\n\ndata: {"value":"lo"}\n\n'


def make_request(path: str = "/v1/completions", method: str = "POST", **body: object) -> Request:
    return Request(method, path, "", (), json.dumps(body).encode())


def text_chunk(text: str, finish: str | None = None, index: int = 0) -> bytes:
    return events({"choices": [choice(text, finish, index)]})


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
    finish_end = TEXT.index(b"\n", TEXT.index(b'"stop"'))
    assert DIALECT.completeness(stream_response(TEXT[:cut])).is_complete is (cut >= finish_end)


@each_row(
    ("request_", "provider", "turns", "body"),
    [
        pytest.param(
            make_request(stream=True, stream_options={"include_usage": True}), "", (HELLO,), TEXT,
            id="a stream with usage",
        ),
        pytest.param(
            make_request(stream=True), "deepseek", (HELLO,),
            events(
                document(choice("Hello")),
                document(choice(" there")),
                document(choice(finish="stop"), usage=COUNTS),
            )
            + DONE,
            id="DeepSeek's, with usage in its last chunk",
        ),
        pytest.param(
            make_request(stream=True), "",
            (replace(HELLO, usage=None), replace(CUT_AT_LIMIT, usage=None)),
            events(
                document(choice("Hello")),
                document(choice("Good", index=1)),
                document(choice(" there")),
                document(choice(" night", index=1)),
                document(choice(finish="stop")),
                document(choice(finish="length", index=1, logprobs=LOGPROBS)),
            )
            + DONE,
            id="interleaved choices",
        ),
        pytest.param(
            make_request(), "", (HELLO, CUT_AT_LIMIT),
            orjson.dumps(
                document(
                    choice("Hello there", "stop"),
                    choice("Good night", "length", 1, LOGPROBS),
                    usage=COUNTS,
                )
            ),
            id="a document",
        ),
        pytest.param(
            make_request(stream=True), "", (FAILING,),
            events(
                document(choice("Hello")),
                {"error": {
                    "message": "Oh no", "type": "server_error", "param": None, "code": None,
                }},
            ),
            id="an error amid a stream",
        ),
    ],
)  # fmt: skip
def test_turns_and_bodies_convert_in_both_directions(
    request_: Request, provider: str, turns: tuple[Turn, ...], body: bytes
) -> None:
    response = DIALECT.encode_response(
        request_, turns, EncodeContext("test", 1_700_000_000, provider=provider)
    )

    assert b"".join(response.framed_messages) == body
    assert DIALECT.decode_response(response) == turns
    assert DIALECT.completeness(response).is_complete


def test_choices_can_come_one_after_the_other_and_finish_once_as_the_first() -> None:
    later = replace(HELLO, finish=None, finish_raw="", usage=None)
    turns = (
        replace(HELLO, usage=None), replace(later, parts=()),
        replace(later, parts=(Text("Good night"),)),
    )  # fmt: skip
    response = DIALECT.encode_response(
        make_request(stream=True), turns, replace(ENCODE_CONTEXT, choices_are_successive=True)
    )

    chunks = (
        choice("Hello"), choice(" there"), choice(index=1), choice("Good", index=2),
        choice(" night", index=2), choice(finish="stop"),
    )  # fmt: skip
    assert b"".join(response.framed_messages) == events(*map(document, chunks)) + DONE
    assert DIALECT.decode_response(response) == turns


def test_a_turn_that_fails_is_an_http_error_where_it_is_not_streamed() -> None:
    response = DIALECT.encode_response(make_request(), (FAILING,), ENCODE_CONTEXT)

    assert response.head.status == 500
    assert DIALECT.decode_response(response) == (Turn((), failure=FAILING.failure),)


def test_a_call_is_refused_and_other_parts_become_text_or_nothing() -> None:
    request = make_request()
    with pytest.raises(NotRepresentable, match="openai-completions cannot represent a tool call"):
        DIALECT.representable_turns(request, [Turn((ToolCall("a", "f", "{}"),))], ENCODE_CONTEXT)

    converted = DIALECT.representable_turns(
        request, [Turn((Reasoning("Hm."), Refusal("No.")))], ENCODE_CONTEXT
    )
    assert converted.turns[0].parts == (Text("No."),)
    assert converted.losses == ("reasoning", "refusal (sent as text)")


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
        assert _read_by_sdk(client, is_streamed=True) == ({0: ("Hello there", "stop")}, 3)


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
        usage: dict[str, Any] = (
            {"stream_options": {"include_usage": True}} if turns[0].usage else {}
        )
        stream = response.codec_name == "sse"
        request = make_request(model="m", stream=stream, **usage)
        converted = DIALECT.representable_turns(request, turns, ENCODE_CONTEXT)
        decoded = DIALECT.decode_response(DIALECT.encode_response(request, turns, ENCODE_CONTEXT))

        assert converted.losses == (), row.id
        assert decoded == converted.turns, row.id
        assert [(item.text, item.metadata) for item in decoded] == [
            (turn.text, turn.metadata) for turn in turns
        ]
        count += 1
    assert count == 45
