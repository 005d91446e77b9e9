"""Bedrock speaks: Converse, its errors, and what is asked beside turns."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bedrock_encoding import DIALECT, converse, document, events, frames, invoke, told
from dialect_manners import DELIVERY, TALKS
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request, header_value
from llm_proxy.turns import (
    Citation,
    Failure,
    Finish,
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

STREAM: Final = converse()
WHOLE: Final = converse(stream=False)
both = pytest.mark.parametrize("request_", [STREAM, WHOLE], ids=["stream", "whole"])

TOOLS: Final = Turn(
    parts=(
        Reasoning("Two cities.", signature="c2ln"),
        Text("Checking."),
        ToolCall("tooluse_a", "get_weather", '{"city":"Rome"}'),
    ),
    finish=Finish.TOOL_CALLS,
    finish_raw="tool_use",
    usage=Usage(input=9, output=20, total=29),
    metadata=(("metrics", {"latencyMs": 120}),),
)


def fit(request: Request, turn: Turn) -> ConvertedTurns:
    return DIALECT.convert(request, (turn,), DELIVERY)


def lost(request: Request, *parts: Part, **about: Any) -> tuple[str, ...]:
    return fit(request, Turn(parts, Finish.STOP, **about)).losses


def read_again(request: Request, turn: Turn) -> Turn:
    (read,) = DIALECT.decode(told(request, turn))
    return read


def test_a_stream_has_the_events_of_real_ones_in_their_order() -> None:
    response = DIALECT.encode(STREAM, (TOOLS,), replace(DELIVERY, split_text=lambda text: [text]))
    assert events(response) == [
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
    assert document(told(WHOLE, TOOLS)) == {
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


@both
def test_what_real_answers_say_is_told_as_it_was(request_: Request) -> None:
    assert fit(request_, TOOLS) == ConvertedTurns((TOOLS,), ())
    assert read_again(request_, TOOLS) == TOOLS


def test_a_frame_has_the_headers_of_real_ones_in_their_order() -> None:
    failed = Turn((), failure=Failure("no", "throttlingException"))
    *begun, last = frames(told(STREAM, failed))
    assert [item.headers for item in begun] == [
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
def test_an_answer_says_its_type_and_its_request(request_: Request, content_type: str) -> None:
    headers = dict(told(request_, TOOLS).head.headers)
    assert headers == {
        "Content-Type": content_type,
        "x-amzn-RequestId": DELIVERY.uuid("request"),
    }


def test_the_typical_request_is_one_that_is_claimed() -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0"
    for stream in (True, False):
        request = converse(arn, stream=stream)
        assert DIALECT.matches(request)
        assert (DIALECT.model(request), DIALECT.streams(request)) == (arn, stream)


PROVIDED: Final = (
    ToolCall("a", "search", '{"q":"x"}'),
    ToolResult("a", '{"n":1}', "search"),
    ToolCall("b", "search", "{}", (("type", "mcp_tool_use"),)),
    ToolResult("b", "not there", failed=True, metadata=(("type", "nova_grounding_result"),)),
    ToolResult("b", ""),
)


@both
def test_what_the_providers_own_tools_did_is_told_as_such(request_: Request) -> None:
    (turn,) = fit(request_, Turn((*PROVIDED, Text("x")), Finish.STOP)).turns
    asked, *others, said = turn.parts
    assert asked == replace(PROVIDED[0], metadata=(("type", "server_tool_use"),))
    named = [replace(item, name="search") for item in PROVIDED[1:]]
    assert (others, said) == (named, Text("x"))
    assert read_again(request_, turn) == turn


def test_what_a_tool_gave_back_is_an_object_where_it_spells_one() -> None:
    blocks = document(told(WHOLE, Turn(PROVIDED)))["output"]["message"]["content"]
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


CITED: Final = Text(
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
PAGE: Final[Metadata] = (("location", {"web": {"url": "https://example.com/"}}),)


@both
def test_a_citation_is_of_a_page_or_of_a_place_in_a_document(request_: Request) -> None:
    (text,) = read_again(request_, Turn((CITED,))).parts
    assert text == Text(
        "It is fun",
        (
            Citation("https://example.com/", "sample", "Fun fun", metadata=PAGE),
            Citation(title="a file", metadata=(("location", {"documentPage": {"start": 1}}),)),
            Citation("https://example.com/", metadata=PAGE),
            Citation(
                "https://example.com/b",
                metadata=(("location", {"web": {"url": "https://example.com/b"}}),),
            ),
            Citation(metadata=(("source", "s"),)),
            Citation(),
        ),
    )


@both
@pytest.mark.parametrize(
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
def test_a_thought_can_be_read_or_is_sealed(
    request_: Request, thought: Reasoning, expected: Reasoning
) -> None:
    assert read_again(request_, Turn((thought,))).parts == (expected,)
    is_less = expected.redacted is None and thought.redacted is not None
    assert lost(request_, thought) == (("redacted of reasoning",) if is_less else ())


PNG: Final = base64.b64encode(b"\x89PNG").decode()


@both
@pytest.mark.parametrize(
    "picture", [Media("image/png", base64=PNG), Media("image/webp", url="s3://bucket/key")]
)
def test_a_picture_is_inline_or_stored_with_amazon(request_: Request, picture: Media) -> None:
    assert read_again(request_, Turn((picture,))).parts == (picture,)


@pytest.mark.parametrize(
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
        told(request_, Turn((media,)))


@pytest.mark.parametrize("media_type", ["audio/wav", "video/mp4"])
def test_sounds_and_films_come_whole(media_type: str) -> None:
    media = Media(media_type, base64=PNG)
    assert read_again(WHOLE, Turn((media,))).parts == (media,)


def test_arguments_that_are_no_object_stand_in_a_stream_alone() -> None:
    turn = Turn((ToolCall("a", "f", '{"city":'),), Finish.TOOL_CALLS)
    assert read_again(STREAM, turn).parts == turn.parts
    with pytest.raises(NotRepresentable, match="the arguments of a call"):
        told(WHOLE, turn)


def test_arguments_stand_in_a_document_as_they_were_spelled() -> None:
    spelled = '{"half":"\\ud83d","big":12345678901234567890}'
    turn = Turn((ToolCall("a", "f", spelled),), Finish.TOOL_CALLS)
    (call,) = fit(WHOLE, turn).turns[0].parts
    assert isinstance(call, ToolCall)
    assert call.arguments.encode() in b"".join(told(WHOLE, turn).messages)
    assert read_again(WHOLE, turn).parts == (call,)


@both
def test_a_refusal_is_a_text_and_a_reason_to_stop(request_: Request) -> None:
    turn = read_again(request_, Turn((Refusal("I can't."),), Finish.REFUSAL))
    assert (turn.parts, turn.finish_raw) == ((Text("I can't."),), "refusal")
    assert lost(request_, Refusal("I can't.")) == ("that a refusal is one",)


@both
@pytest.mark.parametrize(
    ("finish", "word"),
    [
        (Finish.STOP, "end_turn"),
        (Finish.STOP_SEQUENCE, "stop_sequence"),
        (Finish.LENGTH, "max_tokens"),
        (Finish.TOOL_CALLS, "tool_use"),
        (Finish.CONTENT_FILTER, "content_filtered"),
        (Finish.CONTEXT_FULL, "model_context_window_exceeded"),
        (Finish.ERROR, "malformed_model_output"),
        (Finish.PAUSED, "end_turn"),
    ],
)
def test_a_reason_to_stop_has_a_word(request_: Request, finish: Finish, word: str) -> None:
    assert read_again(request_, Turn((), finish)).finish_raw == word


@both
def test_what_stands_beside_an_answer_is_told_in_its_place(request_: Request) -> None:
    routed: Json = {"promptRouter": {"invokedModelId": "arn:aws:x"}}
    turn = Turn(
        (),
        Finish.STOP,
        "end_turn",
        usage=Usage(1, 2, 12, cache_read=4, cache_write=5),
        model="arn:aws:x",
        metadata=(
            ("additionalModelResponseFields", {"stop_sequence": "x"}),
            ("metrics", {"latencyMs": 7}),
            ("trace", routed),
            ("performanceConfig", {"latency": "standard"}),
            ("serviceTier", {"type": "flex"}),
            ("usage", {"cacheDetails": [{"ttl": "5m", "inputTokens": 4}]}),
        ),
    )
    assert fit(request_, turn) == ConvertedTurns((turn,), ())
    assert read_again(request_, turn) == turn


def test_the_stop_has_the_models_own_fields_and_the_end_the_rest() -> None:
    beside: Metadata = (
        ("additionalModelResponseFields", {"a": 1}),
        ("serviceTier", {"type": "flex"}),
    )
    *_, stop, end = events(told(STREAM, Turn((), Finish.STOP, metadata=beside)))
    assert stop == (
        "messageStop",
        {"stopReason": "end_turn", "additionalModelResponseFields": {"a": 1}},
    )
    assert end[1]["serviceTier"] == {"type": "flex"}


OF_BEDROCK: Final = st.dictionaries(
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
).map(lambda it: tuple(it.items()))  # fmt: skip
OPERATIONS: Final = [
    STREAM,
    WHOLE,
    *(
        invoke(model, stream=stream)
        for model in ("anthropic.claude-3", "amazon.nova-pro", "meta.llama3", "openai.gpt-oss")
        for stream in (True, False)
    ),
]


@given(st.sampled_from(OPERATIONS), TALKS, OF_BEDROCK)
def test_whatever_stands_beside_a_turn_is_read_as_it_was_told(
    request_: Request, turn: Turn, beside: Metadata
) -> None:
    try:
        fits = fit(request_, replace(turn, metadata=beside))
    except NotRepresentable:
        return
    assert DIALECT.decode(told(request_, *fits.turns)) == fits.turns
    assert fit(request_, fits.turns[0]) == ConvertedTurns(fits.turns, ())


STATUSES: Final = {
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


def refused(status: int, failure: Failure, retry_after: float | None = None) -> DialectResponse:
    return DIALECT.error_response(status, failure, DELIVERY, retry_after)


@pytest.mark.parametrize(("status", "kind"), STATUSES.items())
def test_an_http_error_names_its_kind_in_a_header(status: int, kind: str) -> None:
    response = refused(status, Failure("no"))
    assert (response.head.status, document(response)) == (status, {"message": "no"})
    assert header_value(response.head.headers, "x-amzn-errortype") == kind
    assert header_value(response.head.headers, "x-amzn-requestid") == DELIVERY.uuid("request")
    assert DIALECT.decode(response) == (Turn((), failure=Failure("no", kind)),)
    assert document(refused(status, Failure("")))["message"]


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("ServiceQuotaExceededException", "ServiceQuotaExceededException"),
        ("cassette_not_found", "cassette_not_found"),
        ("two\r\nlines: here", "ValidationException"),
    ],
)
def test_an_http_error_has_the_type_that_it_is_given_if_a_header_can_hold_it(
    given_: str, expected: str
) -> None:
    response = refused(400, Failure("no", given_))
    assert header_value(response.head.headers, "x-amzn-errortype") == expected


def test_an_http_error_says_when_to_ask_again() -> None:
    headers = dict(refused(429, Failure("no"), 1.5).head.headers)
    assert (headers["retry-after"], headers["x-amz-retry-after"]) == ("2", "1500")
    assert "retry-after" not in dict(refused(429, Failure("no")).head.headers)


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [
        ("ThrottlingException", 429, "ThrottlingException"),
        ("ModelNotReadyException", 429, "ModelNotReadyException"),
        ("ExpiredTokenException", 403, "ExpiredTokenException"),
        ("overloaded_error", 500, "InternalServerException"),
        ("", 500, "InternalServerException"),
    ],
)
@pytest.mark.parametrize("request_", [WHOLE, invoke("unheard-of", stream=False)])
def test_an_answer_that_failed_and_does_not_stream_is_an_http_error(
    request_: Request, kind: str, status: int, expected: str
) -> None:
    response = told(request_, Turn((Text("Hel"),), failure=Failure("no", kind)))
    assert response.head.status == status
    assert DIALECT.decode(response) == (Turn((), failure=Failure("no", expected)),)


@pytest.mark.parametrize(
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
    response = told(STREAM, turn)
    assert DIALECT.decode(response) == (Turn((Text("Hel"),), failure=expected),)
    assert [name for name, _ in events(response)] == [
        "messageStart",
        "contentBlockDelta",
        "contentBlockStop",
        expected.type,
    ]
    assert DIALECT.completeness(response).is_complete


def test_a_model_that_times_out_has_a_word_where_it_is_invoked() -> None:
    turn = Turn((), failure=Failure("no", "modelTimeoutException"))
    assert DIALECT.decode(told(invoke("meta.llama3"), turn)) == (turn,)


def counted(**asked: Json) -> int:
    body = orjson.dumps({"input": asked})
    response = DIALECT.auxiliary_response(
        Request("POST", "/model/m/count-tokens", "", (), body), DELIVERY
    )
    assert response is not None
    said = document(response)
    assert list(said) == ["inputTokens"]
    return int(said["inputTokens"])


def test_tokens_are_counted_by_what_the_model_would_read() -> None:
    said: dict[str, Json] = {"messages": [{"role": "user", "content": [{"text": "a" * 41}]}]}
    assert counted(converse=said) == 11
    picture: Json = {"image": {"format": "png", "source": {"bytes": PNG * 100}}}
    assert counted(converse={"messages": [{"role": "user", "content": [picture]}]}) == 1
    native = base64.b64encode(json.dumps(said).encode()).decode()
    assert counted(invokeModel={"body": native}) == 11
    assert counted(invokeModel={"body": "*"}) == counted() == 1


def test_tools_and_what_they_gave_are_counted_and_how_things_are_is_not() -> None:
    tool: Json = {"name": "f" * 4, "description": "d" * 4, "inputSchema": {"json": {"a": 1}}}
    assert counted(converse={"toolConfig": {"tools": [{"toolSpec": tool}]}}) == 4
    used: Json = {"toolUse": {"toolUseId": "t" * 40, "name": "f" * 4, "input": {"a": 1}}}
    gave: Json = {"toolResult": {"status": "success", "content": [{"json": {"b": 2}}]}}
    assert counted(converse={"messages": [{"role": "user", "content": [used, gave]}]}) == 5


@both
def test_nothing_else_is_answered_beside_turns(request_: Request) -> None:
    assert DIALECT.auxiliary_response(request_, DELIVERY) is None
