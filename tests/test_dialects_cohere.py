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
    block_events,
    json_response,
    sse_body,
)
from dialect_manners import ENCODE_CONTEXT
from dialect_responses import framed_response, head
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
    assert DIALECT.codec_name(request, head(status, content_type)) == expected


START = sse_body(MESSAGE_START)
UNTYPED_END = b'event: message-end\ndata: {"delta":{"finish_reason":"COMPLETE"}}\n\n'
BUSY = "in-band error: busy"


@each_row(
    ("codec", "body", "is_complete", "reason"),
    [
        pytest.param("sse", TEXT_STREAM + DONE_EVENT, True, "message-end", id="a chat"),
        pytest.param("sse", TEXT_STREAM, True, "message-end", id="without [DONE]"),
        pytest.param("sse", TEXT_STREAM.rstrip(), True, "message-end", id="the last line open"),
        pytest.param(
            "sse", TEXT_STREAM.replace(b"\n", b"\r\n"), True, "message-end", id="lines with CRLF"
        ),
        pytest.param("sse", START + UNTYPED_END, True, "message-end", id="an event's name as type"),
        pytest.param("sse", TOOLS_STREAM + DONE_EVENT, True, "message-end", id="tool calls"),
        pytest.param("sse", START + DONE_EVENT, True, "[DONE]", id="only [DONE]"),
        pytest.param(
            "sse", FAILED_STREAM + DONE_EVENT, True, "in-band error: invalid tool generation",
            id="an error",
        ),
        pytest.param(
            "sse", START + b'event: error\ndata: {"message":"busy"}\n\n', True, BUSY,
            id="an event of an error",
        ),
        pytest.param(
            "sse", START + b"event: error\ndata: busy\n\n", True, BUSY,
            id="an error in bare words",
        ),
        pytest.param(
            "sse", START + b'data: {"id":"1","message":"busy"}\n\n', True, BUSY,
            id="an error where an event belongs",
        ),
        pytest.param("sse", b'{"message":"busy"}', True, BUSY, id="a bare document"),
        pytest.param("ndjson", V1_STREAM, True, "is_finished: true", id="version 1"),
        pytest.param(
            "ndjson", b'{"is_finished":true,"finish_reason":"COMPLETE"}\n', True,
            "is_finished: true", id="an old server",
        ),
        pytest.param(
            "ndjson", b'{"event_type":"stream-error","err":"too long"}\n', True,
            "in-band error: too long", id="a completion that failed",
        ),
        pytest.param("ndjson", b'{"message":"busy"}\n', True, BUSY, id="an error line"),
        pytest.param("whole", b'{"embeddings":[]}', True, "JSON body", id="a document"),
        pytest.param("sse", b"", False, "empty stream", id="nothing"),
        pytest.param("ndjson", b"\n", False, "empty stream", id="blank lines"),
        pytest.param("sse", START, False, "no final event", id="only the first event"),
        pytest.param(
            "sse", sse_body(*block_events(0, "text", "[DONE]")), False, "no final event",
            id="[DONE] as text",
        ),
        pytest.param("sse", b": hi\n\n", False, "no final event", id="a comment"),
        pytest.param("sse", b"event: message-end\n\n", False, "no final event", id="no data"),
        pytest.param(
            "ndjson", V1_STREAM[: V1_STREAM.rindex(b"{")], False, "no final event",
            id="version 1, cut",
        ),
        pytest.param(
            "ndjson", b'{"event_type":"text-generation","is_finished":true}\n', False,
            "no final event", id="one generation of several",
        ),
        pytest.param("whole", b'{"id":', False, "body is not JSON", id="a cut document"),
    ],
)  # fmt: skip
def test_completeness_of_a_response(
    codec: str, body: bytes, is_complete: bool, reason: str
) -> None:
    completeness = DIALECT.completeness(framed_response(codec, body))
    assert (completeness.is_complete, completeness.reason) == (is_complete, reason)


@each_row(("codec", "body", "status"), [("sse", b"", 500), ("whole", b"<html>", 502)])
def test_an_http_error_is_complete(codec: str, body: bytes, status: int) -> None:
    completeness = DIALECT.completeness(framed_response(codec, body, status))
    assert (completeness.is_complete, completeness.reason) == (True, f"HTTP {status}")


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


def test_the_documents_choose_the_version_whatever_their_framing() -> None:
    events = b"".join(b"event: x\ndata: %s\n\n" % line for line in V1_STREAM.splitlines())
    (turn,) = DIALECT.decode_response(framed_response("sse", events))
    assert (turn,) == DIALECT.decode_response(framed_response("ndjson", V1_STREAM))
    assert turn.text == "Hello"


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
    ("error_type", "message", "body"),
    [
        ("", "no such model", b'{"id":"1","message":"no such model"}'),
        (
            "TOO_MANY_TOKENS", "too many tokens",
            b'{"error_type":"TOO_MANY_TOKENS","id":"1","message":"too many tokens"}',
        ),
    ],
)  # fmt: skip
def test_an_http_error_is_a_turn_with_a_failure_and_that_failure_the_error(
    error_type: str, message: str, body: bytes
) -> None:
    failure = Failure(message, error_type)
    response = DIALECT.error_response(418, failure, ENCODE_CONTEXT)

    id_ = ENCODE_CONTEXT.fake_uuid("error").encode()
    assert response.body == body.replace(b'"1"', b'"%s"' % id_)
    for decoded in (response, framed_response("whole", body, 418)):
        assert DIALECT.decode_response(decoded) == (Turn((), failure=failure),)


@each_row(
    ("body", "failure"),
    [
        (b'{"detail":"nope"}', Failure("nope")),
        (b'{"error":{"message":"busy","code":"503"}}', Failure("busy", code="503")),
        (b'{"error":true,"message":"busy"}', Failure("busy")),
        (b"<html>", Failure("HTTP 418")),
        (
            b'{"message":"no cassette","error_type":"cassette_not_found"}',
            Failure("no cassette", "cassette_not_found"),
        ),
    ],
    ids=["a gateway's", "another gateway's", "a flag", "a page", "the proxy's own"],
)
def test_other_http_errors_are_decoded(body: bytes, failure: Failure) -> None:
    assert DIALECT.decode_response(framed_response("whole", body, 418)) == (
        Turn((), failure=failure),
    )


def test_the_proxys_own_error_has_coheres_shape() -> None:
    assert json.loads(DIALECT.error_body(424, "cassette_not_found", "no cassette")) == {
        "message": "no cassette",
        "error_type": "cassette_not_found",
    }


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


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_recorded_response_is_complete_and_decoded() -> None:
    rows = [row for row in corpus.rows() if row.provider == "cohere" and row.fidelity == "exact"]
    assert len(rows) == 80
    failures: Counter[str] = Counter()
    event_types: set[str] = set()
    citation_count = 0
    for row in rows:
        assert dialects.dialect_of_request(row.request).name == DIALECT.name, row.id
        codec = DIALECT.codec_name(row.request, row.head)
        framing_name = row.wire.rpartition(".")[2]
        assert codec == ("whole" if framing_name == "json" else framing_name), row.id
        response = DialectResponse(row.head, codec, framing.split_messages(codec, row.body))
        assert DIALECT.completeness(response).is_complete, row.id
        if row.status == 200 and codec != "whole":
            event_types.update(_event_type(codec, message) for message in response.framed_messages)
        turns = DIALECT.decode_response(response)
        if row.request.path.startswith(PATHS_WITHOUT_TURN):
            assert turns == (), row.id
            continue
        (turn,) = turns
        citation_count += _checked_citations(turn, row.id)
        if turn.failure:
            failures[f"HTTP {row.status}"] += 1
            continue
        assert turn.parts, row.id
        assert turn.finish in (FinishReason.STOP, FinishReason.TOOL_CALLS), row.id
        assert turn.usage is not None, row.id
        assert turn.id, row.id
    # two streams end in a provider error: the model wrote an unparsable tool call
    assert failures == {"HTTP 200": 2, "HTTP 400": 1, "HTTP 401": 1, "HTTP 404": 2}
    assert event_types == {*KNOWN_EVENTS, "[DONE]"}
    assert citation_count == 25


def _checked_citations(turn: Turn, row_id: str) -> int:
    """How many citations there are, each of which cites the text at its place."""
    texts = [part for part in turn.parts if isinstance(part, Text)]
    citations = [(part.text, citation) for part in texts for citation in part.citations]
    for text, citation in citations:
        assert citation.span is not None, row_id
        assert text[slice(*citation.span)] == dict(citation.metadata)["text"], row_id
    return len(citations)


def _event_type(codec: str, message: bytes) -> str:
    text = parse_event(message).data if codec == "sse" else message
    assert text is not None
    if text == b"[DONE]":
        return "[DONE]"
    event = json.loads(text)
    return str(event.get("type") or event["event_type"])
