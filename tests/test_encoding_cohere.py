"""What encoding alone has: losses, refusals, errors, auxiliary responses, and any answer again."""

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
from dialect_manners import ENCODE_CONTEXT, json_request
from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.base import ConvertedResponseTurns
from llm_proxy.dialects.cohere import auxiliary_responses
from llm_proxy.dialects.cohere.dialect import Cohere
from llm_proxy.dialects.encoding import AccountLimits, RateLimitWindow
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Turn,
    Usage,
)

DIALECT = Cohere()
PLAN_METADATA = (("type", "tool_plan"),)
SDK = ("X-Fern-SDK-Name", "cohere")
V2_CHAT, V1_CHAT = "/v2/chat", "/v1/chat"


def chat_request(path: str = V2_CHAT, **body: Any) -> Request:
    return json_request(path, **{"model": "command-a", "message": "Hi", **body})


def response_document(response: DialectResponse | None) -> dict[str, Any]:
    """The one document of a response."""
    assert response is not None
    return dict(json.loads(response.body))


@each_row(
    ("turn", "path", "error"),
    [
        (Turn((Media("image/png", base64="AAAA"),)), V2_CHAT, "media"),
        (Turn((Text("Hello"),)), V1_CHAT, "cannot generate a response for /v1/chat; use /v2/chat"),
        (
            Turn((Text("Hello"),)),
            "/v1/generate",
            "cannot generate a response for /v1/generate; use /v2/chat",
        ),
        (Turn((Text("Hello"),)), "/v2/embed", "cannot generate a response for /v2/embed"),
    ],
    ids=["an image", "a chat of old", "a completion", "embeddings"],
)
def test_what_is_not_representable_is_refused(turn: Turn, path: str, error: str) -> None:
    with pytest.raises(NotRepresentable, match=error):
        DIALECT.encode_response(chat_request(path), [turn], ENCODE_CONTEXT)


def test_what_is_not_representable_is_dropped_and_listed_as_a_loss() -> None:
    parts: tuple[Part, ...] = (Reasoning("Hm.", signature="c2VhbA=="), Refusal("No."))
    turn = Turn(parts, FinishReason.REFUSAL, usage=Usage(1, 2, total=3))

    converted = DIALECT.representable_turns(chat_request(), [turn], ENCODE_CONTEXT)

    assert converted.turns[0].parts == (Reasoning("Hm."), Text("No."))
    assert converted.losses == (
        "signature of reasoning",
        "refusal (sent as text)",
        "finish reason refusal (sent as ERROR, which means error)",
        "usage total",
    )


@each_row(
    "status", [400, 401, 402, 403, 404, 418, 422, 429, 498, 499, 500, 501, 502, 503, 504, 529]
)
def test_each_error_status_has_a_default_message(status: int) -> None:
    response = DIALECT.error_response(status, Failure(""), ENCODE_CONTEXT)

    body = response_document(response)
    assert list(body) == ["id", "message"]
    assert body["message"]
    assert (response.head.status, response.codec_name) == (status, "whole")
    assert DIALECT.decode_response(response) == (Turn((), failure=Failure(body["message"])),)


def test_an_error_has_its_type_rate_limits_and_retry_after() -> None:
    window = RateLimitWindow(limit=40, remaining=39, reset_s=1.5)
    limited = replace(ENCODE_CONTEXT, account_limits=AccountLimits(window, window))

    response = DIALECT.error_response(429, Failure("slow down", "RATE"), limited, retry_after=1.2)

    assert response_document(response)["error_type"] == "RATE"
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
        chat_request(), [Turn((Text("a"),), failure=failure)], ENCODE_CONTEXT
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
    return response_document(response)


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
        "/v1/rerank", SDK, query="who made ruby", documents=documents, top_n=1,
        return_documents=True,
    )  # fmt: skip
    assert [result["document"] for result in first["results"]] == [{"text": "Who made Ruby?"}]


def test_tokens_are_of_a_text_and_become_it_again() -> None:
    response = _auxiliary_document("/v1/tokenize", SDK, text="Grüße, 🌊!")

    assert "".join(response["token_strings"]) == "Grüße, 🌊!"
    for tokens, text in (
        (response["tokens"], "Grüße, 🌊!"),
        (["a", -1, 2**40, 0xD800], "\ufffd" * 4),
    ):
        assert _auxiliary_document("/v1/detokenize", SDK, tokens=tokens)["text"] == text


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
    listed, single, missing = (
        DIALECT.auxiliary_response(
            Request("GET", f"/v1/models{name}", "", (SDK,), b""), ENCODE_CONTEXT
        )
        for name in ("", "/small", "/tiny")
    )

    names = [model["name"] for model in response_document(listed)["models"]]
    assert names == ["small", "large"]
    assert response_document(single)["name"] == "small"
    assert missing is not None
    assert missing.head.status == 404
    not_found = "not found, make sure the correct model ID was used and that you have access to the"
    assert response_document(missing)["message"] == f"model 'tiny' {not_found} model."
    any_missing = DIALECT.error_response(404, Failure(""), ENCODE_CONTEXT)
    assert response_document(any_missing)["message"] == f"model {not_found} model."


@pytest.mark.parametrize("path", ["/v1/classify", "/v1/summarize"])
def test_unsupported_paths_are_answered_with_501(path: str) -> None:
    response = DIALECT.auxiliary_response(json_request(path, SDK), ENCODE_CONTEXT)

    assert response is not None
    assert response.head.status == 501
    assert path in response_document(response)["message"]


@each_row("path", [V2_CHAT, V1_CHAT, "/v1/generate", "/cohere/v2/chat"])
def test_chats_and_completions_have_no_auxiliary_response(path: str) -> None:
    assert DIALECT.auxiliary_response(chat_request(path), ENCODE_CONTEXT) is None


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
    "25bc6fa7337466f1": "cannot generate a response for /v1/generate",
    "04a4871ad0942d40": "cannot generate a response for /v2/embed",
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
            error = "cannot generate a response for /v1/chat; use /v2/chat"
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
