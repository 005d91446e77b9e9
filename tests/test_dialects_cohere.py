from __future__ import annotations

import json
from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from cohere_streams import (
    DONE_EVENT,
    FAILED_STREAM,
    MESSAGE_START,
    TEXT_STREAM,
    TOOLS_STREAM,
    V1_STREAM,
    content_event,
    framed_response,
    json_response,
    ndjson_body,
    response_head,
    sse_body,
)
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.cohere.dialect import Cohere
from llm_proxy.exchange import Headers, Request
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import Failure, FinishReason, Text, Turn

DIALECT = Cohere()
SDK_HEADERS = (("X-Fern-SDK-Name", "cohere"),)


def make_request(
    path: str, *, method: str = "POST", headers: Headers = (), **body: object
) -> Request:
    return Request(method, path, "", headers, json.dumps(body).encode())


@each_row(
    "request_",
    [
        pytest.param(make_request("/v2/chat"), id="a chat"),
        pytest.param(make_request("/cohere/v2/chat"), id="a chat behind a gateway"),
        pytest.param(make_request("/v1/chat", message="Hi"), id="a chat of version 1"),
        pytest.param(make_request("/v1/generate", prompt="Hi"), id="a completion"),
        pytest.param(make_request("/v2/embed", texts=["a"]), id="embeddings"),
        pytest.param(make_request("/v2/embed", inputs=[{"content": []}]), id="mixed embeddings"),
        pytest.param(make_request("/v1/embed", images=["data:"]), id="embeddings of version 1"),
        pytest.param(make_request("/v2/rerank", query="a", documents=["b"]), id="ranks"),
        pytest.param(
            make_request("/v1/rerank", query="a", headers=SDK_HEADERS), id="ranks of version 1"
        ),
        pytest.param(make_request("/v1/tokenize", text="a", model="m"), id="tokens"),
        pytest.param(make_request("/v1/detokenize", tokens=[1], model="m"), id="tokens to text"),
        pytest.param(make_request("/v1/classify", headers=SDK_HEADERS), id="classes"),
        pytest.param(make_request("/providers/cohere/v2/rerank"), id="Azure's ranks"),
        pytest.param(
            make_request("/v1/rerank", headers=(("user-agent", "cohere/5.20.1"),)),
            id="a client by name",
        ),
        pytest.param(
            make_request("/v1/chat", headers=(("Cohere-Version", "2022-12-06"),)),
            id="an old client",
        ),
        pytest.param(
            make_request("/v1/models", method="GET", headers=SDK_HEADERS), id="the models"
        ),
        pytest.param(
            make_request("/v1/models/command-r", method="GET", headers=SDK_HEADERS), id="a model"
        ),
    ],
)
def test_cohere_requests_are_matched_by_cohere_alone(request_: Request) -> None:
    claims = [dialect.name for dialect in dialects.DIALECTS if dialect.matches(request_)]
    assert [name for name in claims if name != "openai-models"] == ["cohere"]
    assert (
        dialects.dialect_of_request(request_).name == "cohere"
    )  # its requests for models look like OpenAI's


@each_row(
    "request_",
    [
        pytest.param(make_request("/v1/chat/completions", messages=[]), id="OpenAI"),
        pytest.param(
            make_request("/compatibility/v1/chat/completions", headers=SDK_HEADERS), id="as OpenAI"
        ),
        pytest.param(make_request("/v1/chat", messages=[]), id="Writer"),
        pytest.param(make_request("/api/v1/chat", message="Hi"), id="LM Studio"),
        pytest.param(make_request("/api/v1/generate", prompt="Hi"), id="KoboldAI"),
        pytest.param(make_request("/api/generate", prompt="Hi"), id="Ollama"),
        pytest.param(make_request("/v1/rerank", query="a", documents=["b"]), id="Jina"),
        pytest.param(make_request("/v1/tokenize", prompt="a"), id="vLLM"),
        pytest.param(make_request("/v1/embeddings", input="a"), id="OpenAI's embeddings"),
        pytest.param(make_request("/v1/messages", messages=[]), id="Anthropic"),
        pytest.param(make_request("/v1/models", method="GET"), id="anybody's models"),
        pytest.param(make_request("/v2/chat", method="GET"), id="no POST"),
        pytest.param(make_request("/v3/chat"), id="no version of Cohere's"),
        pytest.param(make_request("/v2/chat/1"), id="a longer path"),
        pytest.param(Request("POST", "/v1/chat", "", (), b"not JSON"), id="no JSON"),
        pytest.param(Request("POST", "/v1/chat", "", (), b"[]"), id="no object"),
    ],
)
def test_ambiguous_requests_are_not_matched(request_: Request) -> None:
    assert not DIALECT.matches(request_)


def test_the_model_is_read_from_the_body() -> None:
    assert DIALECT.model(make_request("/v2/chat", model="command-a-03-2025")) == "command-a-03-2025"
    assert DIALECT.model(make_request("/v1/chat", message="Hi")) == ""


@each_row(("stream", "expected"), [(True, True), (False, False), (None, False)])
def test_a_request_streams_only_where_it_says_so(stream: bool | None, expected: bool) -> None:
    assert DIALECT.streams(make_request("/v2/chat", stream=stream)) is expected
    assert not DIALECT.streams(make_request("/v2/chat"))


@each_row(
    ("path", "status", "content_type", "stream", "expected"),
    [
        pytest.param("/v2/chat", 200, "text/event-stream", True, "sse", id="a stream"),
        pytest.param("/v2/chat", 200, "", True, "sse", id="a stream without a type"),
        pytest.param("/v2/chat", 200, "", False, "whole", id="a document without a type"),
        pytest.param("/v2/chat", 200, "application/json", True, "whole", id="a document"),
        pytest.param("/v2/chat", 500, "text/event-stream", True, "whole", id="an error"),
        pytest.param("/v1/chat", 200, "application/stream+json", True, "ndjson", id="version 1"),
        pytest.param("/v1/chat", 200, "", True, "ndjson", id="version 1 without a type"),
        pytest.param("/v1/chat", 200, "text/event-stream", True, "sse", id="version 1 as events"),
        pytest.param("/v1/embed", 200, "application/json", False, "whole", id="embeddings"),
    ],
)
def test_the_content_type_chooses_the_framing(
    path: str, status: int, content_type: str, stream: bool, expected: str
) -> None:
    request = make_request(path, stream=stream)
    assert DIALECT.codec_name(request, response_head(status, content_type)) == expected


@each_row(
    ("response", "reason"),
    [
        pytest.param(framed_response("sse", TEXT_STREAM + DONE_EVENT), "message-end", id="a chat"),
        pytest.param(framed_response("sse", TEXT_STREAM), "message-end", id="without [DONE]"),
        pytest.param(
            framed_response("sse", TEXT_STREAM.rstrip()),
            "message-end",
            id="the last line not ended",
        ),
        pytest.param(
            framed_response("sse", TEXT_STREAM.replace(b"\n", b"\r\n")),
            "message-end",
            id="lines that end in CRLF",
        ),
        pytest.param(
            framed_response("sse", TOOLS_STREAM + DONE_EVENT), "message-end", id="tool calls"
        ),
        pytest.param(
            framed_response("sse", sse_body(MESSAGE_START) + DONE_EVENT), "[DONE]", id="only [DONE]"
        ),
        pytest.param(
            framed_response("sse", FAILED_STREAM + DONE_EVENT),
            "in-band error: invalid tool generation",
            id="an error",
        ),
        pytest.param(
            framed_response(
                "sse", sse_body(MESSAGE_START) + b'event: error\ndata: {"message":"busy"}\n\n'
            ),
            "in-band error: busy",
            id="an event of an error",
        ),
        pytest.param(
            framed_response("sse", sse_body(MESSAGE_START) + b"event: error\ndata: busy\n\n"),
            "in-band error: busy",
            id="an error in bare words",
        ),
        pytest.param(
            framed_response(
                "sse", sse_body(MESSAGE_START) + b'data: {"id":"1","message":"busy"}\n\n'
            ),
            "in-band error: busy",
            id="an error where an event belongs",
        ),
        pytest.param(
            framed_response("sse", b'{"message":"busy"}'),
            "in-band error: busy",
            id="a bare document",
        ),
        pytest.param(framed_response("ndjson", V1_STREAM), "is_finished: true", id="version 1"),
        pytest.param(
            framed_response(
                "ndjson", ndjson_body({"is_finished": True, "finish_reason": "COMPLETE"})
            ),
            "is_finished: true",
            id="an old server",
        ),
        pytest.param(
            framed_response(
                "ndjson", ndjson_body({"event_type": "stream-error", "err": "too long"})
            ),
            "in-band error: too long",
            id="a completion that failed",
        ),
        pytest.param(
            framed_response("ndjson", ndjson_body({"message": "busy"})),
            "in-band error: busy",
            id="an error line",
        ),
        pytest.param(json_response({"embeddings": []}), "JSON body", id="a document"),
        pytest.param(framed_response("sse", b"", 500), "HTTP 500", id="an error without a body"),
        pytest.param(framed_response("whole", b"<html>", 502), "HTTP 502", id="a gateway's page"),
    ],
)
def test_a_response_with_its_last_event_is_complete(response: DialectResponse, reason: str) -> None:
    completeness = DIALECT.completeness(response)
    assert (completeness.is_complete, completeness.reason) == (True, reason)


@each_row(
    ("response", "reason"),
    [
        pytest.param(framed_response("sse", b""), "empty stream", id="nothing"),
        pytest.param(framed_response("ndjson", b"\n"), "empty stream", id="blank lines"),
        pytest.param(
            framed_response("sse", sse_body(MESSAGE_START)),
            "no last event",
            id="only the first event",
        ),
        pytest.param(
            framed_response("sse", sse_body(content_event("delta", 0, text="[DONE]"))),
            "no last event",
            id="said",
        ),
        pytest.param(framed_response("sse", b": hi\n\n"), "no last event", id="a comment"),
        pytest.param(
            framed_response("sse", b"event: message-end\n\n"),
            "no last event",
            id="an event without data",
        ),
        pytest.param(
            framed_response("ndjson", V1_STREAM[: V1_STREAM.rindex(b"{")]),
            "no last event",
            id="version 1, cut",
        ),
        pytest.param(
            framed_response(
                "ndjson", ndjson_body({"event_type": "text-generation", "is_finished": True})
            ),
            "no last event",
            id="one generation of several",
        ),
        pytest.param(framed_response("whole", b'{"id":'), "body is not JSON", id="a cut document"),
    ],
)
def test_a_response_without_its_last_event_is_incomplete(
    response: DialectResponse, reason: str
) -> None:
    completeness = DIALECT.completeness(response)
    assert (completeness.is_complete, completeness.reason) == (False, reason)


@each_row(
    ("codec", "body"),
    [("sse", TEXT_STREAM), ("sse", TOOLS_STREAM), ("sse", FAILED_STREAM), ("ndjson", V1_STREAM)],
    ids=["text", "tools", "an error", "version 1"],
)
def test_a_truncated_stream_is_incomplete(codec: str, body: bytes) -> None:
    end = len(body.rstrip())
    for cut in range(end):
        assert not DIALECT.completeness(framed_response(codec, body[:cut])).is_complete, cut
    assert all(
        DIALECT.completeness(framed_response(codec, body[:cut])).is_complete
        for cut in range(end, len(body))
    )


@pytest.mark.parametrize("codec", ["sse", "ndjson"])
def test_the_documents_choose_the_version_whatever_their_framing(codec: str) -> None:
    body = V1_STREAM
    if codec == "sse":
        body = b"".join(
            b"event: x\ndata: %s\n" % line
            for line in V1_STREAM.replace(b"\n", b"\n\n").split(b"\n")
        ).replace(b"event: x\ndata: \n", b"\n")
    (turn,) = DIALECT.decode_response(framed_response(codec, body))
    assert (turn.text, turn.finish, turn.id) == ("Hello", FinishReason.STOP, "g-1")


def test_event_names_stand_in_for_a_missing_type() -> None:
    body = TEXT_STREAM.replace(b'"type":"message-end",', b"")
    assert body != TEXT_STREAM
    assert DIALECT.completeness(framed_response("sse", body)).reason == "message-end"


@each_row(
    "body",
    [
        {"id": "e", "embeddings": {"float": [[0.1]]}, "texts": ["a"], "meta": {}},
        {"id": "r", "results": [{"index": 0, "relevance_score": 0.9}], "meta": {}},
        {"tokens": [1], "token_strings": ["a"], "meta": {}},
        {"text": "a", "meta": {"api_version": {"version": "1"}}},
        {"models": [{"name": "command-r"}]},
        {},
        [],
    ],
    ids=["embeddings", "ranks", "tokens", "text of tokens", "models", "empty", "no object"],
)
def test_numbers_and_tokens_are_no_turn(body: object) -> None:
    assert DIALECT.decode_response(json_response(body)) == ()


@each_row(
    ("body", "failure"),
    [
        (b'{"id":"1","message":"no such model"}', Failure("no such model")),
        (
            b'{"error_type":"TOO_MANY_TOKENS","id":"1","message":"too many tokens"}',
            Failure("too many tokens", type="TOO_MANY_TOKENS"),
        ),
        (b'{"detail":"nope"}', Failure("nope")),
        (b'{"error":{"message":"busy","code":"503"}}', Failure("busy", code="503")),
        (b'{"error":true,"message":"busy"}', Failure("busy")),
        (b"<html>", Failure("HTTP 418")),
    ],
    ids=["Cohere's", "with a type", "a gateway's", "another gateway's", "a flag", "a page"],
)
def test_an_http_error_is_one_turn_with_a_failure(body: bytes, failure: Failure) -> None:
    assert DIALECT.decode_response(framed_response("whole", body, 418)) == (
        Turn((), failure=failure),
    )


def test_an_error_has_coheres_shape() -> None:
    body = DIALECT.error_body(424, "cassette_not_found", "no cassette")
    assert json.loads(body) == {"message": "no cassette", "error_type": "cassette_not_found"}
    (turn,) = DIALECT.decode_response(framed_response("whole", body, 424))
    assert turn.failure == Failure("no cassette", type="cassette_not_found")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                """message content text thinking tool_plan tool_calls tool_call_delta function name
                id index arguments parameters citations start end sources document tool_output url
                document_ids documents usage meta tokens billed_units input_tokens error err
                finish_reason generations""".split()  # noqa: SIM905 # readable
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
KEYS = st.sampled_from(
    """id type index delta message finish_reason usage error event_type is_finished text response
    generations documents citations tool_calls tool_call_delta meta err""".split()  # noqa: SIM905 # readable
)


@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=6), min_size=1, max_size=4))
def test_documents_of_any_shape_decode_to_serialisable_turns(
    documents: list[dict[str, Any]],
) -> None:
    encoded = [json.dumps(item).encode() for item in documents]
    events = b"".join(b"data: %s\n\n" % item for item in encoded)
    for dialect_response in (
        framed_response("sse", events),
        framed_response("ndjson", b"\n".join(encoded)),
        framed_response("whole", encoded[0]),
        framed_response("whole", encoded[0], 500),
    ):
        assert DIALECT.completeness(dialect_response).reason
        assert orjson.dumps(DIALECT.decode_response(dialect_response))


KNOWN_EVENTS = frozenset(
    """message-start content-start content-delta content-end tool-plan-delta tool-call-start
    tool-call-delta tool-call-end citation-start citation-end message-end stream-start
    text-generation stream-end""".split()  # noqa: SIM905 # readable
)
PATHS_WITHOUT_TURN = ("/v1/tokenize", "/v1/models")

needs_corpus = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_response_is_complete_and_decoded() -> None:
    rows = [row for row in corpus.rows() if row.provider == "cohere" and row.fidelity == "exact"]
    assert len(rows) == 80
    failures: Counter[str] = Counter()
    for row in rows:
        assert dialects.dialect_of_request(row.request).name == DIALECT.name, row.id
        codec = DIALECT.codec_name(row.request, row.head)
        framing_name = row.wire.rpartition(".")[2]
        assert codec == ("whole" if framing_name == "json" else framing_name), row.id
        response = DialectResponse(row.head, codec, framing.split_messages(codec, row.body))
        assert DIALECT.completeness(response).is_complete, row.id
        turns = DIALECT.decode_response(response)
        if row.request.path.startswith(PATHS_WITHOUT_TURN):
            assert turns == (), row.id
            continue
        (turn,) = turns
        if turn.failure:
            failures[f"HTTP {row.status}"] += 1
            continue
        assert turn.parts, row.id
        assert turn.finish in (FinishReason.STOP, FinishReason.TOOL_CALLS), row.id
        assert turn.usage is not None, row.id
        assert turn.id, row.id
    # two streams end in a provider error: the model wrote an unparsable tool call
    assert failures == {"HTTP 200": 2, "HTTP 400": 1, "HTTP 401": 1, "HTTP 404": 2}


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_event_is_known_and_every_citation_matches_its_text() -> None:
    event_types: Counter[str] = Counter()
    citation_count = 0
    for row in corpus.rows():
        if row.provider != "cohere" or row.fidelity != "exact" or row.status != 200:
            continue
        codec = DIALECT.codec_name(row.request, row.head)
        messages = framing.split_messages(codec, row.body)
        event_types.update(_event_type(codec, message) for message in messages if codec != "whole")
        for turn in DIALECT.decode_response(DialectResponse(row.head, codec, messages)):
            for part in (item for item in turn.parts if isinstance(item, Text)):
                for citation in part.citations:
                    assert citation.span is not None, row.id
                    cited_text = part.text[slice(*citation.span)]
                    assert cited_text == dict(citation.metadata)["text"], row.id
                    citation_count += 1
    assert event_types.keys() == {*KNOWN_EVENTS, "[DONE]"}
    assert citation_count == 25


def _event_type(codec: str, message: bytes) -> str:
    text = parse_event(message).data if codec == "sse" else message
    assert text is not None
    if text == b"[DONE]":
        return "[DONE]"
    event = json.loads(text)
    return str(event.get("type") or event["event_type"])
