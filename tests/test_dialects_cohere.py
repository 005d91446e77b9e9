from __future__ import annotations

import json
from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from cohere_streams import (
    CHAT,
    DONE,
    FAILED,
    OPENING,
    TEXT,
    TOOLS,
    answer,
    content,
    document,
    head,
    lines,
    sse,
)
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.cohere.dialect import Cohere
from llm_proxy.exchange import Headers, Request
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import Failure, Finish, Text, Turn

DIALECT = Cohere()
SDK = (("X-Fern-SDK-Name", "cohere"),)


def asked(path: str, *, method: str = "POST", headers: Headers = (), **body: object) -> Request:
    return Request(method, path, "", headers, json.dumps(body).encode())


def test_the_dialect_is_found_under_its_name() -> None:
    assert dialects.dialect_named("cohere").name == "cohere"


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(asked("/v2/chat"), id="a chat"),
        pytest.param(asked("/cohere/v2/chat"), id="a chat behind a gateway"),
        pytest.param(asked("/v1/chat", message="Hi"), id="a chat of version 1"),
        pytest.param(asked("/v1/generate", prompt="Hi"), id="a completion"),
        pytest.param(asked("/v2/embed", texts=["a"]), id="embeddings"),
        pytest.param(asked("/v2/embed", inputs=[{"content": []}]), id="mixed embeddings"),
        pytest.param(asked("/v1/embed", images=["data:"]), id="embeddings of version 1"),
        pytest.param(asked("/v2/rerank", query="a", documents=["b"]), id="ranks"),
        pytest.param(asked("/v1/rerank", query="a", headers=SDK), id="ranks of version 1"),
        pytest.param(asked("/v1/tokenize", text="a", model="m"), id="tokens"),
        pytest.param(asked("/v1/detokenize", tokens=[1], model="m"), id="tokens to text"),
        pytest.param(asked("/v1/classify", headers=SDK), id="classes"),
        pytest.param(asked("/providers/cohere/v2/rerank"), id="Azure's ranks"),
        pytest.param(
            asked("/v1/rerank", headers=(("user-agent", "cohere/5.20.1"),)), id="a client by name"
        ),
        pytest.param(
            asked("/v1/chat", headers=(("Cohere-Version", "2022-12-06"),)), id="an old client"
        ),
        pytest.param(asked("/v1/models", method="GET", headers=SDK), id="the models"),
        pytest.param(asked("/v1/models/command-r", method="GET", headers=SDK), id="a model"),
    ],
)
def test_what_is_certainly_coheres_is_claimed_by_it_alone(request_: Request) -> None:
    claims = [dialect.name for dialect in dialects.DIALECTS if dialect.matches(request_)]
    assert [name for name in claims if name != "openai-models"] == ["cohere"]
    assert (
        dialects.find_dialect(request_).name == "cohere"
    )  # whose models are asked for like OpenAI's


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(asked("/v1/chat/completions", messages=[]), id="OpenAI"),
        pytest.param(asked("/compatibility/v1/chat/completions", headers=SDK), id="as OpenAI"),
        pytest.param(asked("/v1/chat", messages=[]), id="Writer"),
        pytest.param(asked("/api/v1/chat", message="Hi"), id="LM Studio"),
        pytest.param(asked("/api/v1/generate", prompt="Hi"), id="KoboldAI"),
        pytest.param(asked("/api/generate", prompt="Hi"), id="Ollama"),
        pytest.param(asked("/v1/rerank", query="a", documents=["b"]), id="Jina"),
        pytest.param(asked("/v1/tokenize", prompt="a"), id="vLLM"),
        pytest.param(asked("/v1/embeddings", input="a"), id="OpenAI's embeddings"),
        pytest.param(asked("/v1/messages", messages=[]), id="Anthropic"),
        pytest.param(asked("/v1/models", method="GET"), id="anybody's models"),
        pytest.param(asked("/v2/chat", method="GET"), id="no POST"),
        pytest.param(asked("/v3/chat"), id="no version of Cohere's"),
        pytest.param(asked("/v2/chat/1"), id="a longer path"),
        pytest.param(Request("POST", "/v1/chat", "", (), b"not JSON"), id="no JSON"),
        pytest.param(Request("POST", "/v1/chat", "", (), b"[]"), id="no object"),
    ],
)
def test_what_may_be_anothers_is_left_alone(request_: Request) -> None:
    assert not DIALECT.matches(request_)


def test_the_model_is_the_bodys() -> None:
    assert DIALECT.model(asked("/v2/chat", model="command-a-03-2025")) == "command-a-03-2025"
    assert DIALECT.model(asked("/v1/chat", message="Hi")) == ""


@pytest.mark.parametrize(("stream", "expected"), [(True, True), (False, False), (None, False)])
def test_a_request_streams_only_where_it_says_so(stream: bool | None, expected: bool) -> None:
    assert DIALECT.streams(asked("/v2/chat", stream=stream)) is expected
    assert not DIALECT.streams(asked("/v2/chat"))


@pytest.mark.parametrize(
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
    request = asked(path, stream=stream)
    assert DIALECT.codec(request, head(status, content_type)) == expected


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        pytest.param(answer("sse", TEXT + DONE), "message-end", id="a chat"),
        pytest.param(answer("sse", TEXT), "message-end", id="without [DONE]"),
        pytest.param(answer("sse", TEXT.rstrip()), "message-end", id="the last line not ended"),
        pytest.param(
            answer("sse", TEXT.replace(b"\n", b"\r\n")), "message-end", id="lines that end in CRLF"
        ),
        pytest.param(answer("sse", TOOLS + DONE), "message-end", id="tool calls"),
        pytest.param(answer("sse", sse(OPENING) + DONE), "[DONE]", id="only [DONE]"),
        pytest.param(
            answer("sse", FAILED + DONE), "in-band error: invalid tool generation", id="an error"
        ),
        pytest.param(
            answer("sse", sse(OPENING) + b'event: error\ndata: {"message":"busy"}\n\n'),
            "in-band error: busy",
            id="an event of an error",
        ),
        pytest.param(
            answer("sse", sse(OPENING) + b"event: error\ndata: busy\n\n"),
            "in-band error: busy",
            id="an error in bare words",
        ),
        pytest.param(
            answer("sse", sse(OPENING) + b'data: {"id":"1","message":"busy"}\n\n'),
            "in-band error: busy",
            id="an error where an event belongs",
        ),
        pytest.param(
            answer("sse", b'{"message":"busy"}'), "in-band error: busy", id="a bare document"
        ),
        pytest.param(answer("ndjson", CHAT), "is_finished: true", id="version 1"),
        pytest.param(
            answer("ndjson", lines({"is_finished": True, "finish_reason": "COMPLETE"})),
            "is_finished: true",
            id="an old server",
        ),
        pytest.param(
            answer("ndjson", lines({"event_type": "stream-error", "err": "too long"})),
            "in-band error: too long",
            id="a completion that failed",
        ),
        pytest.param(
            answer("ndjson", lines({"message": "busy"})), "in-band error: busy", id="an error line"
        ),
        pytest.param(document({"embeddings": []}), "JSON body", id="a document"),
        pytest.param(answer("sse", b"", 500), "HTTP 500", id="an error without a body"),
        pytest.param(answer("whole", b"<html>", 502), "HTTP 502", id="a gateway's page"),
    ],
)
def test_an_answer_is_whole_by_its_last_event(said: DialectResponse, reason: str) -> None:
    judgement = DIALECT.completeness(said)
    assert (judgement.is_complete, judgement.reason) == (True, reason)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        pytest.param(answer("sse", b""), "empty stream", id="nothing"),
        pytest.param(answer("ndjson", b"\n"), "empty stream", id="blank lines"),
        pytest.param(answer("sse", sse(OPENING)), "no last event", id="only the first event"),
        pytest.param(
            answer("sse", sse(content("delta", 0, text="[DONE]"))), "no last event", id="said"
        ),
        pytest.param(answer("sse", b": hi\n\n"), "no last event", id="a comment"),
        pytest.param(
            answer("sse", b"event: message-end\n\n"), "no last event", id="an event without data"
        ),
        pytest.param(
            answer("ndjson", CHAT[: CHAT.rindex(b"{")]), "no last event", id="version 1, cut"
        ),
        pytest.param(
            answer("ndjson", lines({"event_type": "text-generation", "is_finished": True})),
            "no last event",
            id="one generation of several",
        ),
        pytest.param(answer("whole", b'{"id":'), "body is not JSON", id="a cut document"),
    ],
)
def test_an_answer_without_its_last_event_is_not_whole(said: DialectResponse, reason: str) -> None:
    judgement = DIALECT.completeness(said)
    assert (judgement.is_complete, judgement.reason) == (False, reason)


@pytest.mark.parametrize(
    ("codec", "body"),
    [("sse", TEXT), ("sse", TOOLS), ("sse", FAILED), ("ndjson", CHAT)],
    ids=["text", "tools", "an error", "version 1"],
)
def test_no_cut_of_a_stream_is_called_whole(codec: str, body: bytes) -> None:
    end = len(body.rstrip())
    for cut in range(end):
        assert not DIALECT.completeness(answer(codec, body[:cut])).is_complete, cut
    assert all(
        DIALECT.completeness(answer(codec, body[:cut])).is_complete for cut in range(end, len(body))
    )


@pytest.mark.parametrize("codec", ["sse", "ndjson"])
def test_the_documents_choose_the_version_whatever_their_framing(codec: str) -> None:
    body = CHAT
    if codec == "sse":
        body = b"".join(
            b"event: x\ndata: %s\n" % line for line in CHAT.replace(b"\n", b"\n\n").split(b"\n")
        ).replace(b"event: x\ndata: \n", b"\n")
    (turn,) = DIALECT.decode(answer(codec, body))
    assert (turn.text, turn.finish, turn.id) == ("Hello", Finish.STOP, "g-1")


def test_events_are_told_by_name_where_their_documents_have_no_type() -> None:
    body = TEXT.replace(b'"type":"message-end",', b"")
    assert body != TEXT
    assert DIALECT.completeness(answer("sse", body)).reason == "message-end"


@pytest.mark.parametrize(
    "said",
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
def test_numbers_and_tokens_are_no_turn(said: object) -> None:
    assert DIALECT.decode(document(said)) == ()


@pytest.mark.parametrize(
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
    assert DIALECT.decode(answer("whole", body, 418)) == (Turn((), failure=failure),)


def test_an_error_has_coheres_shape() -> None:
    body = DIALECT.error_body(424, "cassette_not_found", "no cassette")
    assert json.loads(body) == {"message": "no cassette", "error_type": "cassette_not_found"}
    (turn,) = DIALECT.decode(answer("whole", body, 424))
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
def test_documents_of_any_shape_are_judged_and_read_into_turns_that_can_be_written(
    documents: list[dict[str, Any]],
) -> None:
    spelled = [json.dumps(item).encode() for item in documents]
    events = b"".join(b"data: %s\n\n" % item for item in spelled)
    for said in (
        answer("sse", events),
        answer("ndjson", b"\n".join(spelled)),
        answer("whole", spelled[0]),
        answer("whole", spelled[0], 500),
    ):
        assert DIALECT.completeness(said).reason
        assert orjson.dumps(DIALECT.decode(said))


@given(st.lists(st.binary()), st.sampled_from(["sse", "ndjson", "whole"]))
def test_any_bytes_are_judged_and_read(messages: list[bytes], codec: str) -> None:
    said = DialectResponse(head(), codec, messages)
    assert DIALECT.completeness(said).reason
    assert all(isinstance(turn, Turn) for turn in DIALECT.decode(said))


KNOWN_EVENTS = frozenset(
    """message-start content-start content-delta content-end tool-plan-delta tool-call-start
    tool-call-delta tool-call-end citation-start citation-end message-end stream-start
    text-generation stream-end""".split()  # noqa: SIM905 # readable
)
WITHOUT_WORDS = ("/v1/tokenize", "/v1/models")

needs_corpus = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)


@pytest.mark.corpus
@needs_corpus
def test_every_real_answer_is_whole_and_read() -> None:
    rows = [row for row in corpus.rows() if row.provider == "cohere" and row.fidelity == "exact"]
    assert len(rows) == 80
    failures: Counter[str] = Counter()
    for row in rows:
        assert dialects.find_dialect(row.request).name == DIALECT.name, row.id
        codec = DIALECT.codec(row.request, row.head)
        framed = row.wire.rpartition(".")[2]
        assert codec == ("whole" if framed == "json" else framed), row.id
        said = DialectResponse(row.head, codec, framing.split_messages(codec, row.body))
        assert DIALECT.completeness(said).is_complete, row.id
        turns = DIALECT.decode(said)
        if row.request.path.startswith(WITHOUT_WORDS):
            assert turns == (), row.id
            continue
        (turn,) = turns
        if turn.failure:
            failures[f"HTTP {row.status}"] += 1
            continue
        assert turn.parts, row.id
        assert turn.finish in (Finish.STOP, Finish.TOOL_CALLS), row.id
        assert turn.usage is not None, row.id
        assert turn.id, row.id
    # two streams end in an error of theirs: the model wrote a tool call that none could read
    assert failures == {"HTTP 200": 2, "HTTP 400": 1, "HTTP 401": 1, "HTTP 404": 2}


@pytest.mark.corpus
@needs_corpus
def test_every_real_event_is_known_and_every_citation_finds_its_words() -> None:
    seen: Counter[str] = Counter()
    cited = 0
    for row in corpus.rows():
        if row.provider != "cohere" or row.fidelity != "exact" or row.status != 200:
            continue
        codec = DIALECT.codec(row.request, row.head)
        messages = framing.split_messages(codec, row.body)
        seen.update(_kind(codec, message) for message in messages if codec != "whole")
        for turn in DIALECT.decode(DialectResponse(row.head, codec, messages)):
            for part in (item for item in turn.parts if isinstance(item, Text)):
                for citation in part.citations:
                    assert citation.span is not None, row.id
                    words = part.text[slice(*citation.span)]
                    assert words == dict(citation.metadata)["text"], row.id
                    cited += 1
    assert seen.keys() == {*KNOWN_EVENTS, "[DONE]"}
    assert cited == 25


def _kind(codec: str, message: bytes) -> str:
    text = parse_event(message).data if codec == "sse" else message
    assert text is not None
    if text == b"[DONE]":
        return "[DONE]"
    said = json.loads(text)
    return str(said.get("type") or said["event_type"])
