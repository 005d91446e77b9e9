"""Cohere encoding, compared with recorded events; and the round trip of every recorded answer."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from cohere_streams import (
    DONE_EVENT,
    MESSAGE_START,
    TEXT_STREAM,
    TOOLS_STREAM,
    content_event,
    message_end_event,
    tool_call_event,
    v2_event,
)
from dialect_manners import ENCODE_CONTEXT, json_request
from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.base import ConvertedResponseTurns
from llm_proxy.dialects.cohere import auxiliary_responses
from llm_proxy.dialects.cohere.dialect import Cohere
from llm_proxy.dialects.encoding import AccountLimits, RateLimitWindow
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Headers, Request
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Turn,
    Usage,
)

DIALECT = Cohere()
CONTEXT = replace(ENCODE_CONTEXT, split_text=lambda text: [text])
PLAN_METADATA = (("type", "tool_plan"),)
SDK = ("X-Fern-SDK-Name", "cohere")
V2_CHAT, V1_CHAT = "/v2/chat", "/v1/chat"


def chat_request(path: str = V2_CHAT, **body: Any) -> Request:
    return json_request(path, **{"model": "command-a", "message": "Hi", **body})


def response_documents(response: DialectResponse) -> list[Any]:
    """The documents of a response, without `[DONE]`."""
    payloads = (message.rpartition(b"data: ")[2] for message in response.framed_messages)
    return [json.loads(item) for item in payloads if item.strip() != b"[DONE]"]


def encode_documents(turn: Turn, path: str = V2_CHAT, **body: Any) -> list[Any]:
    return response_documents(DIALECT.encode_response(chat_request(path, **body), [turn], CONTEXT))


def decode_stream(body: bytes) -> Turn:
    head = DIALECT.encode_response(chat_request(stream=True), [Turn(())], CONTEXT).head
    [turn] = DIALECT.decode_response(
        DialectResponse(head, "sse", framing.split_messages("sse", body))
    )
    return turn


@pytest.mark.parametrize(
    "stream", [TEXT_STREAM, TOOLS_STREAM], ids=["thoughts and text", "a plan and calls"]
)
def test_a_recorded_stream_is_re_encoded_event_by_event(stream: bytes) -> None:
    turn = decode_stream(stream)
    pieces = {"Hello": ["Hel", "lo"], '{"city":"Rome"}': ['{"city":', '"Rome"}'], "{}": []}
    pieces["I will check."] = ["I will ", "check."]
    context = replace(ENCODE_CONTEXT, split_text=lambda text: pieces.get(text, [text]))

    response = DIALECT.encode_response(chat_request(stream=True), [turn], context)

    assert b"".join(response.framed_messages) == stream + DONE_EVENT
    assert response.head.headers[0] == ("Content-Type", "text/event-stream")
    assert response.framed_messages[0].startswith(b"event: message-start\ndata: {")


def test_the_same_turn_as_a_document() -> None:
    assert encode_documents(decode_stream(TEXT_STREAM)) == [
        {
            "id": "co-1",
            "message": {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "I should greet."},
                    {"type": "text", "text": "Hello"},
                ],
            },
            "finish_reason": "COMPLETE",
            "usage": {
                "billed_units": {"input_tokens": 9, "output_tokens": 5},
                "tokens": {"input_tokens": 9, "output_tokens": 5},
            },
        }
    ]


def test_a_document_has_its_plan_and_its_calls_in_their_own_fields() -> None:
    [document] = encode_documents(decode_stream(TOOLS_STREAM))

    message = document["message"]
    assert list(message) == ["role", "tool_plan", "tool_calls"]
    assert message["tool_plan"] == "I will check."
    functions = [tool_call["function"] for tool_call in message["tool_calls"]]
    assert functions == [
        {"name": "weather", "arguments": '{"city":"Rome"}'},
        {"name": "clock", "arguments": "{}"},
    ]


def test_an_empty_turn_has_an_empty_text() -> None:
    [document] = encode_documents(Turn(()))

    assert document["message"]["content"] == [{"type": "text", "text": ""}]
    assert document["usage"]["tokens"] == {"input_tokens": 0, "output_tokens": 0}


def test_all_token_counts_are_in_their_fields() -> None:
    usage = Usage(input=500, output=20, cache_read=448, reasoning=7)
    citation_metadata: Json = {"input_tokens": 12, "output_tokens": 13}
    metadata: Metadata = (
        ("billed_units", citation_metadata),
        ("warnings", ["old"]),
        ("image_tokens", 259),
    )
    turn = Turn((Text("a"),), usage=usage, metadata=metadata)

    [document] = encode_documents(turn)

    assert document["usage"] == {
        "billed_units": citation_metadata,
        "warnings": ["old"],
        "tokens": {
            "input_tokens": 500, "output_tokens": 20, "reasoning_tokens": 7, "image_tokens": 259,
        },
        "cached_tokens": 448,
    }  # fmt: skip


def _citation(name: str, start: int, **more: Any) -> Citation:
    citation_metadata: Any = (("source", name), ("source_type", "document"))
    return Citation(
        quoted="Ruby is a gem.", span=(start, start + 4), metadata=citation_metadata, **more
    )


def test_citations_are_in_the_block_that_they_refer_to() -> None:
    citations = (
        _citation("doc:0", 0),
        _citation("doc:1", 0, url="https://a.example"),
        _citation("doc:0", 8),
    )
    turn = Turn((Reasoning("Hm."), Text("Ruby is Ruby", citations=citations)))
    source = {"type": "document", "id": "doc:0", "document": {"text": "Ruby is a gem."}}
    other_document = {"url": "https://a.example", "text": "Ruby is a gem."}
    first = {
        "start": 0, "end": 4, "text": "Ruby", "type": "TEXT_CONTENT", "content_index": 1,
        "sources": [source, {"type": "document", "id": "doc:1", "document": other_document}],
    }  # fmt: skip
    second = {**first, "start": 8, "end": 12, "sources": [source]}

    events = encode_documents(turn, stream=True)

    assert events[-6:-1] == [
        v2_event("citation-start", 0, {"citations": first}),
        v2_event("citation-end", 0),
        v2_event("citation-start", 1, {"citations": second}),
        v2_event("citation-end", 1),
        content_event("end", 1),
    ]
    assert encode_documents(turn)[0]["message"]["citations"] == [first, second]


def test_a_tool_result_is_cited_as_a_tool() -> None:
    citation_metadata = (("source", "t:0"), ("source_type", "tool"))
    cited = (
        Citation(quoted="15 °C", span=(0, 2), metadata=citation_metadata),
        Citation(span=(3, 5)),
    )

    [document] = encode_documents(Turn((Text("15 °C", citations=cited),)))

    assert [citation["sources"] for citation in document["message"]["citations"]] == [
        [{"type": "tool", "id": "t:0", "tool_output": {"content": "15 °C"}}],
        [],
    ]


def test_citations_of_a_plan_are_kept() -> None:
    plan_citations: Json = [
        {"start": 0, "end": 1, "text": "I", "type": "PLAN", "sources": [{"id": "d"}]}
    ]
    metadata = (("citations", plan_citations),)
    turn = Turn((Reasoning("I look.", metadata=PLAN_METADATA),), metadata=metadata)

    events = encode_documents(turn, stream=True)

    assert isinstance(plan_citations, list)
    assert v2_event("citation-start", 0, {"citations": plan_citations[0]}) in events
    assert encode_documents(turn)[0]["message"]["citations"] == plan_citations
    turn_without_plan_citations = replace(
        turn, metadata=(("citations", [{"start": 0}, 7, {"type": 7}]),)
    )
    assert "citations" not in encode_documents(turn_without_plan_citations)[0]["message"]


def test_an_error_amid_a_stream_is_its_last_event() -> None:
    failure = Failure("invalid tool generation", "INVALID_TOOL_GENERATION", "422")
    turn = Turn(
        (Reasoning("I will", metadata=PLAN_METADATA),),
        usage=Usage(1, 2),
        failure=failure,
        id="co-1",
    )
    error_fields = {"error": failure.message, "error_type": failure.type}

    response = DIALECT.encode_response(chat_request(stream=True), [turn], CONTEXT)

    ended = {
        "type": "message-end",
        "delta": {"finish_reason": "ERROR", "usage": {}, **error_fields},
    }
    plan = v2_event("tool-plan-delta", message={"tool_plan": "I will"})
    assert response_documents(response) == [MESSAGE_START, plan, ended]
    assert response.framed_messages[-1] == DONE_EVENT


@each_row(
    ("finish", "reason"),
    [
        (FinishReason.STOP, "COMPLETE"),
        (FinishReason.STOP_SEQUENCE, "STOP_SEQUENCE"),
        (FinishReason.LENGTH, "MAX_TOKENS"),
        (FinishReason.TOOL_CALLS, "TOOL_CALL"),
        (FinishReason.CONTENT_FILTER, "ERROR"),
        (FinishReason.REFUSAL, "ERROR"),
        (FinishReason.CONTEXT_FULL, "MAX_TOKENS"),
        (FinishReason.ERROR, "ERROR"),
        (FinishReason.PAUSED, "COMPLETE"),
    ],
)
def test_each_finish_has_a_finish_reason(finish: FinishReason, reason: str) -> None:
    [document] = encode_documents(Turn((Text("a"),), finish))

    assert document["finish_reason"] == reason


@each_row(
    ("turn", "path", "error"),
    [
        (Turn((Media("image/png", base64="AAAA"),)), V2_CHAT, "media"),
        (Turn((Text("Hello"),)), V1_CHAT, "no turn on /v1/chat, only on /v2/chat"),
        (Turn((Text("Hello"),)), "/v1/generate", "no turn on /v1/generate, only on /v2/chat"),
        (Turn((Text("Hello"),)), "/v2/embed", "no turn on /v2/embed"),
    ],
    ids=["an image", "a chat of old", "a completion", "embeddings"],
)
def test_what_is_not_representable_is_refused(turn: Turn, path: str, error: str) -> None:
    with pytest.raises(NotRepresentable, match=error):
        DIALECT.encode_response(chat_request(path), [turn], CONTEXT)


def test_broken_arguments_are_streamed_unchanged() -> None:
    [*_, start, delta, _, _] = encode_documents(Turn((ToolCall("a", "f", '{"a":'),)), stream=True)

    function = {"name": "f", "arguments": ""}
    assert start == tool_call_event("start", 0, id="a", type="function", function=function)
    assert delta == tool_call_event("delta", 0, function={"arguments": '{"a":'})


def test_what_is_not_representable_is_dropped_and_listed_as_a_loss() -> None:
    parts: tuple[Part, ...] = (Reasoning("Hm.", signature="c2VhbA=="), Refusal("No."))
    turn = Turn(parts, FinishReason.REFUSAL, usage=Usage(1, 2, total=3))

    converted = DIALECT.representable_turns(chat_request(), [turn], CONTEXT)

    assert converted.turns[0].parts == (Reasoning("Hm."), Text("No."))
    assert converted.losses == (
        "signature of reasoning",
        "that a refusal is one",
        "finish refusal (told as ERROR, which means error)",
        "usage total",
    )


@each_row(
    "status", [400, 401, 402, 403, 404, 418, 422, 429, 498, 499, 500, 501, 502, 503, 504, 529]
)
def test_each_error_status_has_a_default_message(status: int) -> None:
    response = DIALECT.error_response(status, Failure(""), CONTEXT)

    [body] = response_documents(response)
    assert list(body) == ["id", "message"]
    assert body["message"]
    assert (response.head.status, response.codec_name) == (status, "whole")
    assert DIALECT.decode_response(response) == (Turn((), failure=Failure(body["message"])),)


def test_an_error_has_its_type_rate_limits_and_retry_after() -> None:
    window = RateLimitWindow(limit=40, remaining=39, reset_s=1.5)
    limited = replace(CONTEXT, account_limits=AccountLimits(window, window))

    response = DIALECT.error_response(429, Failure("slow down", "RATE"), limited, retry_after=1.2)

    assert response_documents(response)[0]["error_type"] == "RATE"
    headers = dict(response.head.headers)
    assert len(headers.pop("X-Debug-Trace-Id")) == 32
    assert headers == {
        "Content-Type": "application/json",
        "X-Trial-Endpoint-Call-Limit": "40",
        "X-Trial-Endpoint-Call-Remaining": "39",
        "Retry-After": "2",
        "Retry-After-Ms": "1200",
    }


@each_row(
    ("failure", "status"),
    [
        (Failure("x", code="429"), 429),
        (Failure("x", "TOO_MANY_TOKENS"), 400),
        (Failure("x", "server_error", "busy"), 500),
    ],
)
def test_a_failure_becomes_an_http_error(failure: Failure, status: int) -> None:
    response = DIALECT.encode_response(
        chat_request(), [Turn((Text("a"),), failure=failure)], CONTEXT
    )

    assert response.head.status == status
    assert DIALECT.decode_response(response) == (Turn((), failure=Failure("x", failure.type)),)


def _auxiliary_document(path: str, *headers: tuple[str, str], **body: Any) -> dict[str, Any]:
    request = Request("POST", path, "", headers, json.dumps(body).encode())
    assert DIALECT.matches(request)
    response = DIALECT.auxiliary_response(request, ENCODE_CONTEXT)
    assert response is not None
    assert DIALECT.completeness(response).is_complete
    assert DIALECT.decode_response(response) == ()
    [document] = response_documents(response)
    fields: dict[str, Any] = document
    return fields


def test_texts_have_a_vector_each() -> None:
    old = _auxiliary_document("/v1/embed", texts=["one", "two", "one"], model="embed-english-v3.0")
    new = _auxiliary_document("/v2/embed", texts=["one", "two", "one"], model="embed-v4.0")

    one, two, one_again = old["embeddings"]
    assert one == one_again != two
    assert (len(one), old["texts"]) == (1024, ["one", "two", "one"])
    assert old["meta"] == {"api_version": {"version": "1"}, "billed_units": {"input_tokens": 3}}
    assert list(new["embeddings"]) == ["float"]
    assert [len(item) for item in new["embeddings"]["float"]] == [1536] * 3
    light = _auxiliary_document("/v1/embed", texts=["a"], model="embed-english-light-v3.0")
    assert len(light["embeddings"][0]) == 384


def test_vectors_are_of_the_types_that_are_asked_for() -> None:
    types = ["float", "int8", "uint8", "binary", "ubinary", "base64", "unheard_of"]
    response = _auxiliary_document(
        "/v2/embed", inputs=[{"content": []}], embedding_types=types, output_dimension=16
    )

    by_type = {name: vectors[0] for name, vectors in response["embeddings"].items()}
    assert list(by_type) == types[:-1]
    numbers = by_type["float"]
    assert len(numbers) == len(by_type["int8"]) == len(by_type["uint8"]) == 16
    assert max(map(abs, by_type["int8"])) == 127
    assert [item + 128 for item in by_type["int8"]] == by_type["uint8"]
    signs = "".join(f"{item:08b}" for item in by_type["ubinary"])
    assert [sign == "1" for sign in signs] == [number > 0 for number in numbers]
    assert [item + 128 for item in by_type["binary"]] == by_type["ubinary"]
    unpacked = struct.unpack("<16f", base64.b64decode(by_type["base64"]))
    assert unpacked == pytest.approx(numbers)


def test_images_are_embedded_too() -> None:
    response = _auxiliary_document("/v2/embed", images=["data:image/png;base64,AAAA"])

    assert len(response["embeddings"]["float"]) == 1
    assert response["meta"]["billed_units"] == {"input_tokens": 0, "images": 1}


def test_documents_rank_by_the_words_shared_with_the_query() -> None:
    documents: Any = ["gold and silver", {"text": "Who made Ruby?"}, "Matz made the language Ruby"]
    response = _auxiliary_document("/v2/rerank", SDK, query="who made ruby", documents=documents)

    assert [result["index"] for result in response["results"]] == [1, 2, 0]
    scores = [result["relevance_score"] for result in response["results"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    first = _auxiliary_document(
        "/v1/rerank",
        SDK,
        query="who made ruby",
        documents=documents,
        top_n=1,
        return_documents=True,
    )
    assert [result["document"] for result in first["results"]] == [{"text": "Who made Ruby?"}]


def test_tokens_are_of_a_text_and_become_it_again() -> None:
    response = _auxiliary_document("/v1/tokenize", SDK, text="Grüße, 🌊!")

    assert "".join(response["token_strings"]) == "Grüße, 🌊!"
    assert (
        _auxiliary_document("/v1/detokenize", SDK, tokens=response["tokens"])["text"]
        == "Grüße, 🌊!"
    )
    assert (
        _auxiliary_document("/v1/detokenize", SDK, tokens=["a", -1, 2**40, 0xD800])["text"]
        == "\ufffd" * 4
    )


@given(st.text())
def test_any_text_has_tokens_that_become_it_again(text: str) -> None:
    numbers = [
        auxiliary_responses.token_id(token_string)
        for token_string in auxiliary_responses.token_strings(text)
    ]

    assert auxiliary_responses.detokenize(numbers) == text
    assert all(0 <= number < 2**31 for number in numbers)


@given(st.lists(st.integers()))
def test_any_numbers_are_tokens_of_something(numbers: list[int]) -> None:
    assert len(auxiliary_responses.detokenize(numbers).encode()) >= len(numbers)


def test_the_models_are_those_that_are_listed() -> None:
    headers: Headers = (SDK,)
    listed = DIALECT.auxiliary_response(
        Request("GET", "/v1/models", "", headers, b""), ENCODE_CONTEXT
    )
    single = DIALECT.auxiliary_response(
        Request("GET", "/v1/models/small", "", headers, b""), ENCODE_CONTEXT
    )
    missing = DIALECT.auxiliary_response(
        Request("GET", "/v1/models/tiny", "", headers, b""), ENCODE_CONTEXT
    )

    assert listed is not None
    assert single is not None
    assert missing is not None
    assert [model["name"] for model in response_documents(listed)[0]["models"]] == [
        "small",
        "large",
    ]
    assert response_documents(single)[0]["name"] == "small"
    assert missing.head.status == 404
    not_found = "not found, make sure the correct model ID was used and that you have access to the"
    assert response_documents(missing)[0]["message"] == f"model 'tiny' {not_found} model."
    assert (
        response_documents(DIALECT.error_response(404, Failure(""), ENCODE_CONTEXT))[0]["message"]
        == f"model {not_found} model."
    )


@pytest.mark.parametrize("path", ["/v1/classify", "/v1/summarize"])
def test_unsupported_paths_are_answered_with_501(path: str) -> None:
    response = DIALECT.auxiliary_response(json_request(path, SDK), ENCODE_CONTEXT)

    assert response is not None
    assert response.head.status == 501
    assert path in response_documents(response)[0]["message"]


@each_row("path", [V2_CHAT, V1_CHAT, "/v1/generate", "/cohere/v2/chat"])
def test_chats_and_completions_have_no_auxiliary_response(path: str) -> None:
    assert DIALECT.auxiliary_response(chat_request(path), ENCODE_CONTEXT) is None


def test_a_gateway_path_is_encoded_as_cohere() -> None:
    [*_, end] = encode_documents(Turn((Text("Hello"),)), "/cohere/v2/chat", stream=True)

    assert end == message_end_event("COMPLETE") | {"delta": end["delta"]}


def test_the_sample_request_is_a_chat_with_the_model() -> None:
    for stream in (True, False):
        request = DIALECT.sample_request("command-a", stream=stream)
        assert DIALECT.matches(request)
        assert (DIALECT.model(request), DIALECT.streams(request)) == ("command-a", stream)
        assert DIALECT.auxiliary_response(request, ENCODE_CONTEXT) is None


NAMES = st.sampled_from(["", "d0", "d1", "doc_0"])
SHORT_TEXTS = st.sampled_from(["", "a", "b"])
CITATIONS = st.builds(
    lambda url, quoted, span, name, kind: Citation(
        url=url,
        quoted=quoted,
        span=span,
        metadata=(("source", name), ("source_type", kind), ("type", "PLAN"), ("text", 7)),
    ),
    SHORT_TEXTS,
    SHORT_TEXTS,
    st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3)),
    NAMES,
    st.sampled_from(["tool", "document", "other"]),
)
TEXTS = st.builds(Text, st.sampled_from(["", "abc"]), st.lists(CITATIONS, max_size=4).map(tuple))
PLANS = st.builds(Reasoning, SHORT_TEXTS, metadata=st.sampled_from([PLAN_METADATA, ()]))
PLAN_CITATIONS = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["PLAN", "", 7]), "text": SHORT_TEXTS}),
    max_size=2,
)
TURNS = st.builds(
    lambda parts, elsewhere, failure: Turn(
        tuple(parts),
        failure=failure,
        metadata=(("citations", elsewhere), ("billed_units", 7)),
    ),
    st.lists(TEXTS | PLANS | st.just(ToolCall("", "f", "{}")), max_size=5),
    PLAN_CITATIONS,
    st.none() | st.just(Failure("busy", "BUSY")),
)


@given(TURNS, st.booleans())
def test_any_plans_and_citations_decode_as_they_were_encoded(turn: Turn, stream: bool) -> None:
    assume(stream or turn.failure is None)
    request = chat_request(stream=stream)

    converted = DIALECT.representable_turns(request, [turn], ENCODE_CONTEXT)

    assert (
        DIALECT.decode_response(DIALECT.encode_response(request, [turn], ENCODE_CONTEXT))
        == converted.turns
    )
    assert DIALECT.representable_turns(
        request, converted.turns, ENCODE_CONTEXT
    ) == ConvertedResponseTurns(converted.turns, ())


NOT_ENCODABLE_BY_ROW = {
    "25bc6fa7337466f1": "no turn on /v1/generate",
    "04a4871ad0942d40": "no turn on /v2/embed",
}
"""Rows that cannot be encoded, but for chats of version 1: a completion and an HTTP error."""

CHANGED_ROWS = {
    "7828c10ab59cd82e": "arguments of nothing are {}",
    "baa6e2d042e69594": "arguments of nothing are {}",
    "0e962fad50a79f5c": "arguments of nothing are {}",
    "09471e76eb4d47eb": "a citation says that it is of the text",
}
"""Rows whose encoding adds something."""


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_recorded_answer_round_trips() -> None:
    encoded_count = 0
    for row in corpus.rows():
        if row.provider != "cohere":
            continue
        turns = _turns(row)
        error = NOT_ENCODABLE_BY_ROW.get(row.id)
        if turns and row.request.path.endswith(V1_CHAT):
            error = "no turn on /v1/chat, only on /v2/chat"
        if error:
            with pytest.raises(NotRepresentable, match=error):
                DIALECT.representable_turns(row.request, turns, ENCODE_CONTEXT)
        elif turns:
            request = replace(row.request, body=row.request.body or b'{"stream": true}')
            converted = DIALECT.representable_turns(request, turns, ENCODE_CONTEXT)
            assert converted.losses == (), row.id
            assert (converted.turns == turns) is (row.id not in CHANGED_ROWS), row.id
            response = DIALECT.encode_response(request, turns, ENCODE_CONTEXT)
            assert DIALECT.decode_response(response) == converted.turns, row.id
            encoded_count += 1
    assert encoded_count == 68


def _turns(row: corpus.Row) -> tuple[Turn, ...]:
    codec = DIALECT.codec_name(row.request, row.head)
    codec = "ndjson" if row.wire.endswith("payload") else codec
    return DIALECT.decode_response(
        DialectResponse(row.head, codec, framing.split_messages(codec, row.body))
    )
