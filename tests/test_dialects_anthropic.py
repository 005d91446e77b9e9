from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anthropic_events import (
    COMPLETION_STREAM,
    DIALECT,
    ERROR_EVENT,
    PING,
    TEXT_STREAM,
    TOOLS_STREAM,
    VERSION_HEADERS,
    anthropic_request,
    block_events,
    json_response,
    message_delta,
    message_start,
    text_delta,
)
from case_tables import each_row
from dialect_responses import head, stream_response, whole_response
from llm_proxy import dialects
from llm_proxy.dialects import Completeness, DialectResponse
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.turns import (
    Failure,
    Turn,
)

VERTEX_MODELS = "/publishers/anthropic/models/"
HI = text_delta("Hi")


@each_row(
    "path",
    [
        pytest.param("/v1/messages", id="the SDKs"),
        pytest.param("/messages", id="the AI SDK"),
        pytest.param("/v1/messages/count_tokens", id="token counts"),
        pytest.param("/anthropic/v1/messages", id="Azure Foundry, DeepSeek, Bedrock Mantle"),
        pytest.param("/anthropic/messages", id="the AI SDK at those"),
        pytest.param("/api/v1/messages", id="OpenRouter"),
        pytest.param("/api/anthropic/v1/messages", id="Z.ai"),
        pytest.param("/v1/projects/p/locations/l/v1/messages", id="the gateway on Google Cloud"),
        pytest.param(
            "/v1/projects/p/locations/l/publishers/anthropic/models/m@1:rawPredict", id="Vertex"
        ),
        pytest.param(
            "/projects/p/locations/l/publishers/anthropic/models/m@1:streamRawPredict",
            id="Vertex, streaming",
        ),
        pytest.param(
            "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict",
            id="Vertex, token counts",
        ),
        pytest.param("/v1/complete", id="legacy completions"),
    ],
)
def test_every_form_of_the_path_is_matched(path: str) -> None:
    assert DIALECT.matches(anthropic_request(path))


@each_row(
    ("method", "path"),
    [
        pytest.param("POST", "/gateways/1/messages", id="a gateway's own path"),
        pytest.param("POST", "/gateways/1/messages/count_tokens", id="and its token counts"),
        pytest.param("GET", "/v1/models", id="the list of models"),
        pytest.param("GET", "/v1/models/claude-sonnet-5", id="a model"),
        pytest.param("GET", "/models", id="models without a version in the path"),
    ],
)
def test_on_shared_paths_the_version_header_decides(method: str, path: str) -> None:
    assert not DIALECT.matches(anthropic_request(path, method))
    assert DIALECT.matches(anthropic_request(path, method, VERSION_HEADERS))


def test_models_are_found_by_the_header_alone() -> None:
    assert (
        dialects.dialect_of_request(anthropic_request("/v1/models", "GET", VERSION_HEADERS)).name
        == DIALECT.name
    )
    assert dialects.dialect_of_request(anthropic_request("/v1/models", "GET")).name != DIALECT.name


@each_row(
    ("method", "path"),
    [
        pytest.param("GET", "/v1/messages", id="no way to ask for a message"),
        pytest.param("POST", "/v1/models", id="no way to ask for models"),
        pytest.param("DELETE", "/v1/models/m", id="nor to delete one"),
        pytest.param("POST", "/v1/messages/batches", id="batches"),
        pytest.param("GET", "/v1/messages/batches/b/results", id="their results"),
        pytest.param("POST", "/v1/files", id="files"),
        pytest.param("POST", "/model/anthropic.claude-x/invoke", id="Bedrock"),
    ],
)
def test_other_requests_are_not_matched(method: str, path: str) -> None:
    assert not DIALECT.matches(anthropic_request(path, method, VERSION_HEADERS))


@each_row(
    ("path", "name"),
    [
        ("/v1/messages", "anthropic"),
        ("/messages", "anthropic"),
        ("/v1/messages/count_tokens", "anthropic"),
        ("/v1/complete", "anthropic"),
        ("/p/publishers/anthropic/models/m:streamRawPredict", "anthropic"),
        ("/v1/threads/thread_1/messages", "opaque"),
        ("/v1/completions", "opaque"),
        ("/p/publishers/mistralai/models/m:rawPredict", "opaque"),
        ("/v1/messages/batches", "opaque"),
        ("/v1/models", "opaque"),
        ("/v1/chat/completions", "openai-chat"),
        ("/anthropic/v1/chat/completions", "openai-chat"),
        ("/api/chat", "ollama"),
        ("/api/generate", "ollama"),
    ],
)
def test_each_request_is_claimed_by_one_dialect_at_most(path: str, name: str) -> None:
    request = anthropic_request(path)
    claimed = [dialect.name for dialect in dialects.DIALECTS if dialect.matches(request)]
    if name == "opaque":
        assert DIALECT.name not in claimed
    else:
        assert claimed == [name]
        assert (
            dialects.dialect_named(name).name == dialects.dialect_of_request(request).name == name
        )


@each_row(
    ("request_", "model"),
    [
        pytest.param(anthropic_request(model="claude"), "claude", id="in the body"),
        pytest.param(
            anthropic_request(f"{VERTEX_MODELS}claude-3-7%40x:rawPredict"), "claude-3-7@x",
            id="in Vertex's path",
        ),
        pytest.param(
            anthropic_request(f"{VERTEX_MODELS}claude:streamRawPredict"), "claude", id="streaming"
        ),
        pytest.param(
            anthropic_request(f"{VERTEX_MODELS}count-tokens:rawPredict", model="claude"), "claude",
            id="body before path",
        ),
        pytest.param(anthropic_request("/v1/models/claude", "GET"), "claude", id="a model"),
        pytest.param(anthropic_request("/v1/models", "GET"), "", id="the list of models"),
        pytest.param(Request("POST", "/v1/messages", "", (), b"\xff"), "", id="unreadable"),
    ],
)  # fmt: skip
def test_the_model_is_found(request_: Request, model: str) -> None:
    assert DIALECT.model(request_) == model


@each_row(
    ("request_", "streams"),
    [
        (anthropic_request(stream=True), True),
        (anthropic_request(stream=False), False),
        (anthropic_request(stream="true"), False),
        (anthropic_request(), False),
        (anthropic_request(f"{VERTEX_MODELS}m:streamRawPredict"), True),
        (anthropic_request(f"{VERTEX_MODELS}m:rawPredict"), False),
    ],
    ids=["true", "false", "a string", "absent", "Vertex's path", "Vertex's other path"],
)
def test_streaming_is_read_from_the_request(request_: Request, streams: bool) -> None:
    assert DIALECT.streams(request_) is streams


@each_row(
    ("response", "stream", "name"),
    [
        (head(), True, "sse"),
        (head(content_type="application/json"), False, "whole"),
        (head(content_type="application/json"), True, "whole"),
        (head(content_type=""), True, "sse"),
        (head(content_type=""), False, "whole"),
        (head(529), True, "whole"),
    ],
    ids=["a stream", "a document", "a document instead", "unlabelled stream",
         "unlabelled document", "an error labelled as a stream"],
)  # fmt: skip
def test_the_codec_goes_by_content_type_and_status(
    response: ResponseHead, stream: bool, name: str
) -> None:
    assert DIALECT.codec_name(anthropic_request(stream=stream), response) == name


@each_row(
    ("body", "reason"),
    [
        pytest.param(TEXT_STREAM, "message_stop", id="text"),
        pytest.param(TOOLS_STREAM, "message_stop", id="thinking and tools"),
        pytest.param(TEXT_STREAM.replace(b"\n", b"\r\n"), "message_stop", id="CRLF"),
        pytest.param(
            TEXT_STREAM.replace(b"event: ", b": "), "message_stop",
            id="event names left out by a gateway",
        ),
        pytest.param(
            TEXT_STREAM + b"data: [DONE]\n\n", "message_stop", id="a gateway's [DONE] behind"
        ),
        pytest.param(TEXT_STREAM + PING, "message_stop", id="a ping behind"),
        pytest.param(
            HI + b"event: message_stop\ndata: {}\n\n", "message_stop", id="the name alone"
        ),
        pytest.param(
            HI + message_delta("end_turn"), "stop_reason: end_turn", id="a server without stop"
        ),
        pytest.param(
            b'{"type":"message","content":[],"stop_reason":"end_turn"}', "stop_reason: end_turn",
            id="a document labelled as a stream",
        ),
        pytest.param(COMPLETION_STREAM, "stop_reason: stop_sequence", id="a legacy completion"),
        pytest.param(HI + ERROR_EVENT, "in-band error: Overloaded", id="overloaded"),
        pytest.param(
            HI + b"event: error\ndata: upstream gone\n\n", "in-band error: upstream gone",
            id="an error in words",
        ),
        pytest.param(
            b"event: error\ndata: \xff\n\n", "in-band error: \ufffd", id="an error not UTF-8"
        ),
        pytest.param(
            b'event: error\ndata: {"message":"bad"}\n\n', "in-band error: bad", id="a flat error"
        ),
        pytest.param(
            b'data: {"type":"error","message":"bad"}\n\n', "in-band error: bad", id="by its type"
        ),
        pytest.param(
            HI + b'data: {"error":{"message":"bad"}}\n\n', "in-band error: bad",
            id="an error in OpenAI's shape",
        ),
        pytest.param(
            COMPLETION_STREAM[:150] + b"\r\n\r\n" + ERROR_EVENT, "in-band error: Overloaded",
            id="an error of a legacy completion",
        ),
    ],
)  # fmt: skip
def test_a_stream_with_an_end_marker_is_complete(body: bytes, reason: str) -> None:
    assert DIALECT.completeness(stream_response(body)) == Completeness(
        is_complete=True, reason=reason, is_error=reason.startswith("in-band error")
    )


@each_row(
    ("body", "reason"),
    [
        pytest.param(b"", "empty stream", id="nothing"),
        pytest.param(b"\n\n", "empty stream", id="blank lines"),
        pytest.param(PING, "no message_stop", id="a ping only"),
        pytest.param(b": message_stop\n\n", "no message_stop", id="the stop as a comment"),
        pytest.param(b"event: message_stop\n\n", "no message_stop", id="the stop without data"),
        pytest.param(b"<html>busy</html>", "no message_stop", id="a page"),
        pytest.param(
            b'data: {"stop_reason":"end_turn"}\n\n', "no message_stop", id="nothing of Anthropic's"
        ),
        pytest.param(HI, "no message_stop after content_block_delta", id="cut"),
        pytest.param(
            text_delta("message_stop"), "no message_stop after content_block_delta",
            id="stop as text",
        ),
        pytest.param(
            block_events({"type": "text", "text": ""}), "no message_stop after content_block_stop",
            id="cut between blocks",
        ),
        pytest.param(
            HI + message_delta(None), "no message_stop after message_delta", id="no reason"
        ),
        pytest.param(
            HI + message_delta(""), "no message_stop after message_delta", id="an empty reason"
        ),
        pytest.param(
            message_start(stop_reason="tool_use"), "no message_stop after message_start",
            id="a reason before the end",
        ),
        pytest.param(
            TEXT_STREAM + message_start(), "no message_stop after message_start",
            id="a second message, cut",
        ),
        pytest.param(
            COMPLETION_STREAM[: COMPLETION_STREAM.index(b"event: ping")], "no stop_reason",
            id="a completion, cut",
        ),
    ],
)  # fmt: skip
def test_a_stream_without_an_end_marker_is_incomplete(body: bytes, reason: str) -> None:
    assert DIALECT.completeness(stream_response(body)) == Completeness(
        is_complete=False, reason=reason
    )


@each_row(
    ("body", "last"),
    [
        (TEXT_STREAM, b"event: message_stop"),
        (TOOLS_STREAM, b"event: message_stop"),
        (COMPLETION_STREAM, b""),
        (HI + ERROR_EVENT, b""),
    ],
    ids=["text", "tools", "completion", "error"],
)
@given(share=st.floats(0, 1))
def test_a_stream_cut_before_its_stop_reason_is_incomplete(
    body: bytes, last: bytes, share: float
) -> None:
    complete_length = len((body[: body.index(last)] if last else body).rstrip())
    cut = int(share * len(body))
    assert DIALECT.completeness(stream_response(body[:cut])).is_complete is (cut >= complete_length)


@each_row(
    ("response", "is_complete", "reason"),
    [
        (json_response(type="message", content=[]), True, "JSON body"),
        (json_response(input_tokens=9), True, "JSON body"),
        (json_response(data=[], has_more=False), True, "JSON body"),
        (whole_response(b'{"type":"mess'), False, "body is not JSON"),
        (whole_response(b""), False, "empty body"),
        (whole_response(b"<html></html>", 502), True, "HTTP 502"),
        (DialectResponse(head(529), "sse", []), True, "HTTP 529"),
    ],
    ids=["a message", "a token count", "models", "a cut document", "nothing", "a gateway's page",
         "a cut error"],
)  # fmt: skip
def test_completeness_of_a_json_body(
    response: DialectResponse, is_complete: bool, reason: str
) -> None:
    assert DIALECT.completeness(response) == Completeness(is_complete=is_complete, reason=reason)


@each_row(
    ("body", "failure"),
    [
        (b'{"error":{"code":400,"message":"m","status":"INVALID"}}', Failure("m", code="400")),
        (b'{"message":"Forbidden"}', Failure("Forbidden")),
        (b"<html></html>", Failure("HTTP 502 Bad Gateway")),
    ],
    ids=["Vertex", "AWS", "a gateway's page"],
)
def test_an_http_error_of_a_gateway_is_one_turn_with_a_failure(
    body: bytes, failure: Failure
) -> None:
    assert DIALECT.decode_response(whole_response(body, 502)) == (Turn((), failure=failure),)


@each_row(
    "body",
    [b"", b"null", b"[]", b"<", b'{"input_tokens":9}', b'{"data":[{"type":"model"}]}'],
    ids=["nothing", "null", "a list", "a page", "a token count", "models"],
)
def test_a_response_without_content_has_no_turn(body: bytes) -> None:
    assert DIALECT.decode_response(whole_response(body)) == ()
    assert DIALECT.decode_response(stream_response(body)) == ()


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
TYPES = st.sampled_from(
    """text thinking redacted_thinking compaction container_upload tool_use server_tool_use
    web_search_tool_result mcp_tool_result fallback text_delta thinking_delta signature_delta
    input_json_delta citations_delta compaction_delta refusal""".split()  # noqa: SIM905 # readable
)
KEYS = st.sampled_from(
    """type text thinking signature data id name input partial_json tool_use_id content is_error
    citations citation url source title cited_text to model stop_reason stop_details explanation
    usage input_tokens output_tokens_details details error_code message \ud800
    """.split()  # noqa: SIM905 # readable
)
VALUES = st.recursive(
    LEAVES | TYPES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)
BLOCKS = st.builds(
    lambda kind, rest: rest | {"type": kind}, TYPES, st.dictionaries(KEYS, VALUES, max_size=4)
)
DOCUMENTS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            """message_start message_delta message_stop content_block_start content_block_delta
            content_block_stop message completion error ping""".split()  # noqa: SIM905 # readable
        )
        | VALUES
    },
    optional={
        "index": st.integers(0, 2) | VALUES,
        "content_block": BLOCKS | VALUES,
        "delta": BLOCKS | VALUES,
        "content": st.lists(BLOCKS, max_size=2) | VALUES,
        "message": VALUES,
        "error": VALUES,
        "completion": VALUES,
        "stop_reason": VALUES,
        "usage": VALUES,
        "request_id": VALUES,
    },
)


@given(st.lists(DOCUMENTS, min_size=1, max_size=4), st.sampled_from([200, 400]))
def test_documents_of_any_shape_decode_to_serialisable_turns(
    documents: list[dict[str, Any]], status: int
) -> None:
    encoded = [json.dumps(item).encode() for item in documents]
    events = b"".join(b"data: " + item + b"\n\n" for item in encoded)
    for response in (stream_response(events), whole_response(encoded[0], status)):
        assert DIALECT.completeness(response).reason
        assert orjson.dumps(DIALECT.decode_response(response))
