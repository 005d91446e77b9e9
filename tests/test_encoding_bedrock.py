"""Bedrock encoding: Converse, its errors, and auxiliary requests."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bedrock_encoding import (
    DIALECT,
    converse_request,
    decode_document,
    encode_response,
    invoke_request,
    parse_frames,
    typed_payloads,
)
from case_tables import each_row
from dialect_manners import COMMON_TURNS, ENCODE_CONTEXT
from llm_proxy.dialects.base import ConvertedResponseTurns, DialectResponse
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request, header_value
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
    ToolResult,
    Turn,
    Usage,
)

STREAM: Final = converse_request()
WHOLE: Final = converse_request(stream=False)
each_request = each_row("request_", [STREAM, WHOLE], ids=["stream", "whole"])

TOOLS: Final = Turn(
    parts=(
        Reasoning("Two cities.", signature="c2ln"),
        Text("Checking."),
        ToolCall("tooluse_a", "get_weather", '{"city":"Rome"}'),
    ),
    finish=FinishReason.TOOL_CALLS,
    finish_raw="tool_use",
    usage=Usage(input=9, output=20, total=29),
    metadata=(("metrics", {"latencyMs": 120}),),
)


def convert(request: Request, turn: Turn) -> ConvertedResponseTurns:
    return DIALECT.representable_turns(request, (turn,), ENCODE_CONTEXT)


def losses(request: Request, *parts: Part, **turn_fields: Any) -> tuple[str, ...]:
    return convert(request, Turn(parts, FinishReason.STOP, **turn_fields)).losses


def round_trip(request: Request, turn: Turn) -> Turn:
    (decoded,) = DIALECT.decode_response(encode_response(request, turn))
    return decoded


def test_a_stream_has_the_events_of_real_ones_in_their_order() -> None:
    response = DIALECT.encode_response(
        STREAM, (TOOLS,), replace(ENCODE_CONTEXT, split_text=lambda text: [text])
    )
    assert typed_payloads(response) == [
        ("messageStart", {"role": "assistant"}),
        (
            "contentBlockDelta",
            {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "Two cities."}}},
        ),
        (
            "contentBlockDelta",
            {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "c2ln"}}},
        ),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "Checking."}}),
        ("contentBlockStop", {"contentBlockIndex": 1}),
        (
            "contentBlockStart",
            {
                "contentBlockIndex": 2,
                "start": {"toolUse": {"toolUseId": "tooluse_a", "name": "get_weather"}},
            },
        ),
        (
            "contentBlockDelta",
            {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '{"city":"Rome"}'}}},
        ),
        ("contentBlockStop", {"contentBlockIndex": 2}),
        ("messageStop", {"stopReason": "tool_use"}),
        (
            "metadata",
            {
                "usage": {"inputTokens": 9, "outputTokens": 20, "totalTokens": 29},
                "metrics": {"latencyMs": 120},
            },
        ),
    ]


def test_a_document_has_the_fields_of_real_ones() -> None:
    assert decode_document(encode_response(WHOLE, TOOLS)) == {
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {
                        "reasoningContent": {
                            "reasoningText": {"text": "Two cities.", "signature": "c2ln"}
                        }
                    },
                    {"text": "Checking."},
                    {
                        "toolUse": {
                            "toolUseId": "tooluse_a",
                            "name": "get_weather",
                            "input": {"city": "Rome"},
                        }
                    },
                ],
            }
        },
        "stopReason": "tool_use",
        "usage": {"inputTokens": 9, "outputTokens": 20, "totalTokens": 29},
        "metrics": {"latencyMs": 120},
    }


@each_request
def test_a_recorded_turn_round_trips(request_: Request) -> None:
    assert convert(request_, TOOLS) == ConvertedResponseTurns((TOOLS,), ())
    assert round_trip(request_, TOOLS) == TOOLS


def test_a_frame_has_the_headers_of_real_ones_in_their_order() -> None:
    failed = Turn((), failure=Failure("no", "throttlingException"))
    *earlier, last = parse_frames(encode_response(STREAM, failed))
    assert [item.headers for item in earlier] == [
        (
            (":event-type", "messageStart"),
            (":content-type", "application/json"),
            (":message-type", "event"),
        )
    ]
    assert last.headers == (
        (":exception-type", "throttlingException"),
        (":content-type", "application/json"),
        (":message-type", "exception"),
    )


@pytest.mark.parametrize(
    ("request_", "content_type"),
    [(STREAM, "application/vnd.amazon.eventstream"), (WHOLE, "application/json")],
    ids=["stream", "whole"],
)
def test_a_response_has_its_content_type_and_request_id(
    request_: Request, content_type: str
) -> None:
    headers = dict(encode_response(request_, TOOLS).head.headers)
    assert headers == {
        "Content-Type": content_type,
        "x-amzn-RequestId": ENCODE_CONTEXT.fake_uuid("request"),
    }


def test_the_sample_request_matches_the_dialect() -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0"
    for stream in (True, False):
        request = converse_request(arn, stream=stream)
        assert DIALECT.matches(request)
        assert (DIALECT.model(request), DIALECT.streams(request)) == (arn, stream)


PROVIDER_TOOL_PARTS: Final = (
    ToolCall("a", "search", '{"q":"x"}'),
    ToolResult("a", '{"n":1}', "search"),
    ToolCall("b", "search", "{}", (("type", "mcp_tool_use"),)),
    ToolResult("b", "not there", failed=True, metadata=(("type", "nova_grounding_result"),)),
    ToolResult("b", ""),
)


@each_request
def test_provider_tool_calls_and_results_are_encoded_as_server_tools(request_: Request) -> None:
    (turn,) = convert(request_, Turn((*PROVIDER_TOOL_PARTS, Text("x")), FinishReason.STOP)).turns
    first, *others, text = turn.parts
    assert first == replace(PROVIDER_TOOL_PARTS[0], metadata=(("type", "server_tool_use"),))
    named_results = [replace(item, name="search") for item in PROVIDER_TOOL_PARTS[1:]]
    assert (others, text) == (named_results, Text("x"))
    assert round_trip(request_, turn) == turn


def test_a_tool_result_that_is_a_json_object_is_encoded_as_json() -> None:
    blocks = decode_document(encode_response(WHOLE, Turn(PROVIDER_TOOL_PARTS)))["output"][
        "message"
    ]["content"]
    assert [block["toolResult"]["content"] for block in blocks if "toolResult" in block] == [
        [{"json": {"n": 1}}],
        [{"text": "not there"}],
        [],
    ]
    assert [block["toolResult"]["status"] for block in blocks if "toolResult" in block] == [
        "success",
        "error",
        "success",
    ]


CITED_TEXT: Final = Text(
    "It is fun",
    (
        Citation("https://example.com/", "sample", "Fun fun"),
        Citation(title="a file", metadata=(("location", {"documentPage": {"start": 1}}),)),
        Citation("https://example.com/", metadata=(("location", {"documentChar": {}}),)),
        Citation(metadata=(("location", {"web": {"url": "https://example.com/b"}}),)),
        Citation(metadata=(("location", "nowhere"), ("source", "s"))),
        Citation(),
    ),
)
PAGE_LOCATION: Final[Metadata] = (("location", {"web": {"url": "https://example.com/"}}),)


@each_request
def test_a_citation_is_of_a_page_or_of_a_place_in_a_document(request_: Request) -> None:
    (text,) = round_trip(request_, Turn((CITED_TEXT,))).parts
    assert text == Text(
        "It is fun",
        (
            Citation("https://example.com/", "sample", "Fun fun", metadata=PAGE_LOCATION),
            Citation(title="a file", metadata=(("location", {"documentPage": {"start": 1}}),)),
            Citation("https://example.com/", metadata=PAGE_LOCATION),
            Citation(
                "https://example.com/b",
                metadata=(("location", {"web": {"url": "https://example.com/b"}}),),
            ),
            Citation(metadata=(("source", "s"),)),
            Citation(),
        ),
    )


@each_request
@each_row(
    ("thought", "expected"),
    [
        (Reasoning("a", "sig"), Reasoning("a", "sig")),
        (Reasoning("", "sig"), Reasoning("", "sig")),
        (Reasoning(redacted="c2VhbA=="), Reasoning(redacted="c2VhbA==")),
        (Reasoning(redacted="über"), Reasoning(redacted="w7xiZXI=")),
        (Reasoning("a", redacted="c2VhbA=="), Reasoning("a")),
    ],
    ids=["signed", "signed alone", "sealed", "sealed, in no base64", "read and sealed"],
)
def test_reasoning_is_readable_or_redacted(
    request_: Request, thought: Reasoning, expected: Reasoning
) -> None:
    assert round_trip(request_, Turn((thought,))).parts == (expected,)
    loses_redacted = expected.redacted is None and thought.redacted is not None
    assert losses(request_, thought) == (("redacted of reasoning",) if loses_redacted else ())


PNG: Final = base64.b64encode(b"\x89PNG").decode()


@each_request
@each_row("picture", [Media("image/png", base64=PNG), Media("image/webp", url="s3://bucket/key")])
def test_a_picture_is_inline_or_stored_with_amazon(request_: Request, picture: Media) -> None:
    assert round_trip(request_, Turn((picture,))).parts == (picture,)


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
    with pytest.raises(NotRepresentable, match="no word for media"):
        encode_response(request_, Turn((media,)))


@pytest.mark.parametrize("media_type", ["audio/wav", "video/mp4"])
def test_audio_and_video_are_encoded_only_in_documents(media_type: str) -> None:
    media = Media(media_type, base64=PNG)
    assert round_trip(WHOLE, Turn((media,))).parts == (media,)


def test_arguments_that_are_no_object_can_be_encoded_only_in_a_stream() -> None:
    turn = Turn((ToolCall("a", "f", '{"city":'),), FinishReason.TOOL_CALLS)
    assert round_trip(STREAM, turn).parts == turn.parts
    with pytest.raises(NotRepresentable, match="the arguments of a call"):
        encode_response(WHOLE, turn)


def test_arguments_keep_their_exact_json_in_a_document() -> None:
    spelled = '{"half":"\\ud83d","big":12345678901234567890}'
    turn = Turn((ToolCall("a", "f", spelled),), FinishReason.TOOL_CALLS)
    (call,) = convert(WHOLE, turn).turns[0].parts
    assert isinstance(call, ToolCall)
    assert call.arguments.encode() in b"".join(encode_response(WHOLE, turn).framed_messages)
    assert round_trip(WHOLE, turn).parts == (call,)


@each_request
def test_a_refusal_is_a_text_and_a_reason_to_stop(request_: Request) -> None:
    turn = round_trip(request_, Turn((Refusal("I can't."),), FinishReason.REFUSAL))
    assert (turn.parts, turn.finish_raw) == ((Text("I can't."),), "refusal")
    assert losses(request_, Refusal("I can't.")) == ("that a refusal is one",)


@each_request
@each_row(
    ("finish", "stop_reason"),
    [
        (FinishReason.STOP, "end_turn"),
        (FinishReason.STOP_SEQUENCE, "stop_sequence"),
        (FinishReason.LENGTH, "max_tokens"),
        (FinishReason.TOOL_CALLS, "tool_use"),
        (FinishReason.CONTENT_FILTER, "content_filtered"),
        (FinishReason.CONTEXT_FULL, "model_context_window_exceeded"),
        (FinishReason.ERROR, "malformed_model_output"),
        (FinishReason.PAUSED, "end_turn"),
    ],
)
def test_each_finish_has_a_stop_reason(
    request_: Request, finish: FinishReason, stop_reason: str
) -> None:
    assert round_trip(request_, Turn((), finish)).finish_raw == stop_reason


@each_request
def test_metadata_and_usage_round_trip(request_: Request) -> None:
    trace: Json = {"promptRouter": {"invokedModelId": "arn:aws:x"}}
    turn = Turn(
        (),
        FinishReason.STOP,
        "end_turn",
        usage=Usage(1, 2, 12, cache_read=4, cache_write=5),
        model="arn:aws:x",
        metadata=(
            ("additionalModelResponseFields", {"stop_sequence": "x"}),
            ("metrics", {"latencyMs": 7}),
            ("trace", trace),
            ("performanceConfig", {"latency": "standard"}),
            ("serviceTier", {"type": "flex"}),
            ("usage", {"cacheDetails": [{"ttl": "5m", "inputTokens": 4}]}),
        ),
    )
    assert convert(request_, turn) == ConvertedResponseTurns((turn,), ())
    assert round_trip(request_, turn) == turn


def test_message_stop_has_the_model_fields_and_metadata_the_rest() -> None:
    metadata: Metadata = (
        ("additionalModelResponseFields", {"a": 1}),
        ("serviceTier", {"type": "flex"}),
    )
    *_, stop_event, metadata_event = typed_payloads(
        encode_response(STREAM, Turn((), FinishReason.STOP, metadata=metadata))
    )
    assert stop_event == (
        "messageStop",
        {"stopReason": "end_turn", "additionalModelResponseFields": {"a": 1}},
    )
    assert metadata_event[1]["serviceTier"] == {"type": "flex"}


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


ERROR_TYPE_BY_STATUS: Final = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    413: "ValidationException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
    529: "InternalServerException",
}


def error_response(
    status: int, failure: Failure, retry_after: float | None = None
) -> DialectResponse:
    return DIALECT.error_response(status, failure, ENCODE_CONTEXT, retry_after)


@each_row(("status", "kind"), ERROR_TYPE_BY_STATUS.items())
def test_an_http_error_names_its_kind_in_a_header(status: int, kind: str) -> None:
    response = error_response(status, Failure("no"))
    assert (response.head.status, decode_document(response)) == (status, {"message": "no"})
    assert header_value(response.head.headers, "x-amzn-errortype") == kind
    assert header_value(response.head.headers, "x-amzn-requestid") == ENCODE_CONTEXT.fake_uuid(
        "request"
    )
    assert DIALECT.decode_response(response) == (Turn((), failure=Failure("no", kind)),)
    assert decode_document(error_response(status, Failure("")))["message"]


@each_row(
    ("error_type", "expected"),
    [
        ("ServiceQuotaExceededException", "ServiceQuotaExceededException"),
        ("cassette_not_found", "cassette_not_found"),
        ("two\r\nlines: here", "ValidationException"),
    ],
)
def test_an_http_error_has_the_type_that_it_is_given_if_a_header_can_hold_it(
    error_type: str, expected: str
) -> None:
    response = error_response(400, Failure("no", error_type))
    assert header_value(response.head.headers, "x-amzn-errortype") == expected


def test_an_http_error_has_retry_after() -> None:
    headers = dict(error_response(429, Failure("no"), 1.5).head.headers)
    assert (headers["retry-after"], headers["x-amz-retry-after"]) == ("2", "1500")
    assert "retry-after" not in dict(error_response(429, Failure("no")).head.headers)


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


@each_row(
    ("failure", "expected"),
    [
        (Failure("no", "throttlingException"), Failure("no", "throttlingException")),
        (Failure("no", "ThrottlingException"), Failure("no", "throttlingException")),
        (
            Failure("no", "modelStreamErrorException", "424"),
            Failure("no", "modelStreamErrorException", "424"),
        ),
        (Failure("no", "validationException", "400"), Failure("no", "validationException")),
        (Failure("no", "modelTimeoutException"), Failure("no", "modelStreamErrorException")),
        (Failure("no", "weird", "E7"), Failure("no", "modelStreamErrorException")),
        (Failure("", "weird"), Failure("weird", "modelStreamErrorException")),
    ],
)
def test_an_error_amid_a_stream_is_one_that_clients_know(
    failure: Failure, expected: Failure
) -> None:
    turn = Turn((Text("Hel"),), failure=failure, usage=Usage(1, 2))
    response = encode_response(STREAM, turn)
    assert DIALECT.decode_response(response) == (Turn((Text("Hel"),), failure=expected),)
    assert [name for name, _ in typed_payloads(response)] == [
        "messageStart",
        "contentBlockDelta",
        "contentBlockStop",
        expected.type,
    ]
    assert DIALECT.completeness(response).is_complete


def test_a_model_timeout_is_representable_in_invoke_streams() -> None:
    turn = Turn((), failure=Failure("no", "modelTimeoutException"))
    assert DIALECT.decode_response(encode_response(invoke_request("meta.llama3"), turn)) == (turn,)


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


@each_request
def test_other_requests_have_no_auxiliary_response(request_: Request) -> None:
    assert DIALECT.auxiliary_response(request_, ENCODE_CONTEXT) is None
