"""What encoding alone has: refusals, HTTP errors, auxiliary responses, and any metadata."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bedrock_streams import (
    DIALECT,
    STREAM,
    WHOLE,
    convert,
    decode_document,
    decode_turn,
    encode_response,
    invoke_request,
)
from case_tables import each_row
from dialect_manners import COMMON_TURNS, ENCODE_CONTEXT
from llm_proxy.dialects.base import ConvertedResponseTurns
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.turns import Failure, FinishReason, Json, Media, Metadata, Text, ToolCall, Turn

PNG: Final = base64.b64encode(b"\x89PNG").decode()


@pytest.mark.parametrize(
    ("request_", "content_type"),
    [(STREAM, "application/vnd.amazon.eventstream"), (WHOLE, "application/json")],
    ids=["stream", "whole"],
)
def test_a_response_has_its_content_type_and_request_id(
    request_: Request, content_type: str
) -> None:
    headers = dict(encode_response(request_, Turn(())).head.headers)
    assert headers == {
        "Content-Type": content_type,
        "x-amzn-RequestId": ENCODE_CONTEXT.fake_uuid("request"),
    }


def test_the_sample_request_matches_the_dialect() -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0"
    for stream in (True, False):
        request = DIALECT.sample_request(arn, stream=stream)
        assert DIALECT.matches(request)
        assert (DIALECT.model(request), DIALECT.streams(request)) == (arn, stream)


@each_row(
    ("request_", "media"),
    [
        (STREAM, Media("audio/wav", base64=PNG)),
        (STREAM, Media("image/png", base64="*")),
        (STREAM, Media("image/png", url="https://example.com/a.png")),
        (WHOLE, Media("audio/*", base64=PNG)),
        (WHOLE, Media("application/pdf", base64=PNG)),
    ],
)
def test_other_media_are_refused(request_: Request, media: Media) -> None:
    with pytest.raises(NotRepresentable, match="cannot represent media"):
        encode_response(request_, Turn((media,)))


@pytest.mark.parametrize("media_type", ["audio/wav", "video/mp4"])
def test_audio_and_video_are_encoded_only_in_documents(media_type: str) -> None:
    media = Media(media_type, base64=PNG)
    assert decode_turn(encode_response(WHOLE, Turn((media,)))).parts == (media,)


def test_arguments_that_are_no_object_can_be_encoded_only_in_a_stream() -> None:
    turn = Turn((ToolCall("a", "f", '{"city":'),), FinishReason.TOOL_CALLS)
    assert decode_turn(encode_response(STREAM, turn)).parts == turn.parts
    with pytest.raises(NotRepresentable, match="the arguments of f are not"):
        encode_response(WHOLE, turn)


def test_arguments_keep_their_exact_json_in_a_document() -> None:
    spelled = '{"half":"\\ud83d","big":12345678901234567890}'
    turn = Turn((ToolCall("a", "f", spelled),), FinishReason.TOOL_CALLS)
    (call,) = convert(WHOLE, turn).turns[0].parts
    assert isinstance(call, ToolCall)
    response = encode_response(WHOLE, turn)
    assert call.arguments.encode() in response.body
    assert decode_turn(response).parts == (call,)


BEDROCK_METADATA: Final = st.dictionaries(
    st.sampled_from(
        ["metrics", "trace", "usage", "performanceConfig", "additionalModelResponseFields",
         "amazon-bedrock-invocationMetrics", "amazon-bedrock-guardrailAction",
         "amazon-bedrock-trace"]
    ),
    st.sampled_from(
        [None, "", "INTERVENED", 5, {}, {"latencyMs": 1}, {"inputTokens": 3, "beside": 4},
         {"inputTokenCount": 3, "cacheReadInputTokenCount": 9, "firstByteLatency": 2},
         {"promptRouter": {"invokedModelId": "m"}}, {"promptRouter": {"invokedModelId": 5}}]
    ),
).map(lambda metadata: tuple(metadata.items()))  # fmt: skip
OPERATIONS: Final = [
    STREAM,
    WHOLE,
    *(
        invoke_request(model, stream=stream)
        for model in ("anthropic.claude-3", "amazon.nova-pro", "meta.llama3", "openai.gpt-oss")
        for stream in (True, False)
    ),
]


@given(st.sampled_from(OPERATIONS), COMMON_TURNS, BEDROCK_METADATA)
def test_any_metadata_decodes_as_it_was_encoded(
    request_: Request, turn: Turn, metadata: Metadata
) -> None:
    try:
        converted = convert(request_, replace(turn, metadata=metadata))
    except NotRepresentable:
        return
    assert DIALECT.decode_response(encode_response(request_, *converted.turns)) == converted.turns
    assert convert(request_, converted.turns[0]) == ConvertedResponseTurns(converted.turns, ())


@each_row(
    ("status", "error_type", "sent_type"),
    [
        (400, "", "ValidationException"),
        (401, "", "UnrecognizedClientException"),
        (403, "", "AccessDeniedException"),
        (404, "", "ResourceNotFoundException"),
        (408, "", "ModelTimeoutException"),
        (413, "", "ValidationException"),
        (424, "", "ModelErrorException"),
        (429, "", "ThrottlingException"),
        (500, "", "InternalServerException"),
        (503, "", "ServiceUnavailableException"),
        (529, "", "InternalServerException"),
        (400, "ServiceQuotaExceededException", "ServiceQuotaExceededException"),
        (400, "cassette_not_found", "cassette_not_found"),
        (400, "two\r\nlines: here", "ValidationException"),  # which no header can hold
    ],
)
def test_an_http_error_has_its_type_in_a_header(
    status: int, error_type: str, sent_type: str
) -> None:
    response = DIALECT.error_response(status, Failure("no", error_type), ENCODE_CONTEXT)
    assert (response.head.status, decode_document(response)) == (status, {"message": "no"})
    assert response.head.headers == (
        ("Content-Type", "application/json"),
        ("x-amzn-RequestId", ENCODE_CONTEXT.fake_uuid("request")),
        ("x-amzn-ErrorType", sent_type),
    )
    assert DIALECT.decode_response(response) == (Turn((), failure=Failure("no", sent_type)),)
    default = DIALECT.error_response(status, Failure("", error_type), ENCODE_CONTEXT)
    assert decode_document(default)["message"]


def test_an_http_error_has_retry_after() -> None:
    response = DIALECT.error_response(429, Failure("no"), ENCODE_CONTEXT, 1.5)
    headers = dict(response.head.headers)
    assert (headers["retry-after"], headers["x-amz-retry-after"]) == ("2", "1500")


@each_row(
    ("kind", "status", "expected"),
    [
        ("ThrottlingException", 429, "ThrottlingException"),
        ("ModelNotReadyException", 429, "ModelNotReadyException"),
        ("ExpiredTokenException", 403, "ExpiredTokenException"),
        ("overloaded_error", 500, "InternalServerException"),
        ("", 500, "InternalServerException"),
    ],
)
@each_row("request_", [WHOLE, invoke_request("unheard-of", stream=False)])
def test_an_answer_that_failed_and_does_not_stream_is_an_http_error(
    request_: Request, kind: str, status: int, expected: str
) -> None:
    response = encode_response(request_, Turn((Text("Hel"),), failure=Failure("no", kind)))
    assert response.head.status == status
    assert DIALECT.decode_response(response) == (Turn((), failure=Failure("no", expected)),)


def count_tokens(**request_input: Json) -> int:
    body = orjson.dumps({"input": request_input})
    response = DIALECT.auxiliary_response(
        Request("POST", "/model/m/count-tokens", "", (), body), ENCODE_CONTEXT
    )
    assert response is not None
    counts = decode_document(response)
    assert list(counts) == ["inputTokens"]
    return int(counts["inputTokens"])


def test_tokens_are_counted_by_what_the_model_would_read() -> None:
    converse_body: dict[str, Json] = {
        "messages": [{"role": "user", "content": [{"text": "a" * 41}]}]
    }
    assert count_tokens(converse=converse_body) == 11
    picture: Json = {"image": {"format": "png", "source": {"bytes": PNG * 100}}}
    assert count_tokens(converse={"messages": [{"role": "user", "content": [picture]}]}) == 1
    native = base64.b64encode(json.dumps(converse_body).encode()).decode()
    assert count_tokens(invokeModel={"body": native}) == 11
    assert count_tokens(invokeModel={"body": "*"}) == count_tokens() == 1


def test_tools_and_their_results_are_counted_and_ids_and_statuses_are_not() -> None:
    tool_spec: Json = {"name": "f" * 4, "description": "d" * 4, "inputSchema": {"json": {"a": 1}}}
    assert count_tokens(converse={"toolConfig": {"tools": [{"toolSpec": tool_spec}]}}) == 4
    tool_use: Json = {"toolUse": {"toolUseId": "t" * 40, "name": "f" * 4, "input": {"a": 1}}}
    tool_result: Json = {"toolResult": {"status": "success", "content": [{"json": {"b": 2}}]}}
    assert (
        count_tokens(converse={"messages": [{"role": "user", "content": [tool_use, tool_result]}]})
        == 5
    )


@each_row("request_", [STREAM, WHOLE])
def test_other_requests_have_no_auxiliary_response(request_: Request) -> None:
    assert DIALECT.auxiliary_response(request_, ENCODE_CONTEXT) is None
