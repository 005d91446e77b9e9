from __future__ import annotations

import base64
import json
from collections import Counter
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from linear_time import assert_linear
from llm_proxy import dialects, framing
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.bedrock.dialect import Bedrock
from llm_proxy.exchange import Headers, Request, ResponseHead
from llm_proxy.framing.eventstream import encode_frame, parse_frame
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Media,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

DIALECT: Final = Bedrock()
Event = tuple[str, dict[str, Any]]


def event(name: str, payload: Any) -> bytes:
    headers = [
        (":event-type", name),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ]
    return encode_frame(headers, orjson.dumps(payload))


def converse_stream(*events: Event) -> bytes:
    """Build a body of ConverseStream, padded like real ones."""
    return b"".join(event(name, {**payload, "p": "abcd"}) for name, payload in events)


def invoke_stream(*events: Any) -> bytes:
    """Build a body of InvokeModelWithResponseStream."""
    return b"".join(
        event("chunk", {"bytes": base64.b64encode(orjson.dumps(item)).decode(), "p": "abc"})
        for item in events
    )


def exception_frame(name: str, **payload: object) -> bytes:
    headers = [(":exception-type", name), (":message-type", "exception")]
    return encode_frame(headers, orjson.dumps(payload))


def delta(index: int, **fields: object) -> Event:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": fields}


def start(index: int, **fields: object) -> Event:
    return "contentBlockStart", {"contentBlockIndex": index, "start": fields}


def stop(index: int) -> Event:
    return "contentBlockStop", {"contentBlockIndex": index}


BEGIN: Final[Event] = ("messageStart", {"role": "assistant"})
END: Final[Event] = ("messageStop", {"stopReason": "end_turn"})
USAGE_EVENT: Final[Event] = (
    "metadata",
    {
        "usage": {"inputTokens": 9, "outputTokens": 20, "totalTokens": 29},
        "metrics": {"latencyMs": 120},
    },
)
TOOLS: Final = converse_stream(
    BEGIN,
    delta(0, reasoningContent={"text": "Two "}),
    delta(0, reasoningContent={"text": "cities."}),
    delta(0, reasoningContent={"signature": "c2ln"}),
    stop(0),
    delta(1, text="Check"),
    delta(1, text="ing."),
    stop(1),
    start(2, toolUse={"toolUseId": "tooluse_a", "name": "get_weather"}),
    delta(2, toolUse={"input": '{"city":'}),
    delta(2, toolUse={"input": '"Rome"}'}),
    stop(2),
    ("messageStop", {"stopReason": "tool_use"}),
    USAGE_EVENT,
)
CHAT: Final = converse_stream(BEGIN, delta(0, text="Hello"), stop(0), END, USAGE_EVENT)
METRICS: Final[dict[str, Json]] = {
    "inputTokenCount": 9,
    "outputTokenCount": 2,
    "invocationLatency": 120,
    "firstByteLatency": 60,
}
CLAUDE: Final = invoke_stream(
    {
        "type": "message_start",
        "message": {"id": "msg_1", "model": "claude", "content": [], "usage": {"input_tokens": 9}},
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop", "amazon-bedrock-invocationMetrics": METRICS},
)
NOVA: Final = invoke_stream(
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"delta": {"text": "Hel"}, "contentBlockIndex": 0}},
    {"contentBlockStop": {"contentBlockIndex": 0}},
    {"contentBlockDelta": {"delta": {"text": "lo"}, "contentBlockIndex": 1}},
    {"contentBlockStop": {"contentBlockIndex": 1}},
    {"messageStop": {"stopReason": "end_turn"}},
    {
        "metadata": {"usage": {"inputTokens": 9, "outputTokens": 2}, "metrics": {}, "trace": {}},
        "amazon-bedrock-invocationMetrics": METRICS,
    },
)
STREAMS: Final = {"converse": CHAT, "tools": TOOLS, "claude": CLAUDE, "nova": NOVA}
for_each_stream = each_row("body", STREAMS.values(), ids=STREAMS.keys())


def make_request(path: str, method: str = "POST") -> Request:
    return Request(method, path, "", (), b"{}")


def head(status: int = 200, headers: Headers = ()) -> ResponseHead:
    return ResponseHead(status, "", headers, "chunked")


def stream_response(body: bytes) -> DialectResponse:
    return DialectResponse(head(), "eventstream", framing.split_messages("eventstream", body))


def whole_response(document: object, status: int = 200, headers: Headers = ()) -> DialectResponse:
    body = document if isinstance(document, bytes) else orjson.dumps(document)
    return DialectResponse(head(status, headers), "whole", framing.split_messages("whole", body))


ARN: Final = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/x"


@each_row(
    ("path", "model", "streams"),
    [
        ("/model/amazon.nova-lite-v1%3A0/converse", "amazon.nova-lite-v1:0", False),
        ("/model/amazon.nova-lite-v1:0/converse-stream", "amazon.nova-lite-v1:0", True),
        ("/model/us.anthropic.claude-x/invoke", "us.anthropic.claude-x", False),
        ("/model/m/invoke-with-response-stream", "m", True),
        (f"/model/{ARN.replace(':', '%3A').replace('/', '%2F')}/converse", ARN, False),
        (f"/model/{ARN}/invoke", ARN, False),
        ("/bedrock/model/m/converse", "m", False),
    ],
    ids=["encoded", "bare", "invoke", "invoke stream", "ARN", "bare ARN", "a gateway's prefix"],
)
def test_the_path_says_the_model_and_whether_it_streams(
    path: str, model: str, streams: bool
) -> None:
    request = make_request(path)
    assert dialects.dialect_of_request(request).name == DIALECT.name
    assert DIALECT.matches(request)
    assert (DIALECT.model(request), DIALECT.streams(request)) == (model, streams)


@each_row(
    ("method", "path"),
    [
        ("GET", "/model/m/converse"),
        ("POST", "/model//converse"),
        ("POST", "/model/converse"),
        ("POST", "/converse"),
        ("POST", "/async-invoke"),
        ("POST", "/guardrail/g/version/1/apply"),
        ("POST", "/v1/models/m/invoke"),
        ("POST", "/v1/messages"),
        ("POST", "/openai/v1/chat/completions"),
        ("POST", ""),
    ],
)
def test_other_requests_are_not_matched(method: str, path: str) -> None:
    assert not DIALECT.matches(make_request(path, method))


@each_row(
    ("path", "name"),
    [
        ("/model/m/converse", "bedrock"),
        ("/model/m/converse-stream", "bedrock"),
        ("/model/m/invoke", "bedrock"),
        ("/model/m/invoke-with-response-stream", "bedrock"),
        ("/model/chat/completions", "openai-chat"),
        ("/model/v1/chat/completions", "openai-chat"),
        ("/api/chat", "ollama"),
        ("/model/m/count-tokens", "bedrock"),
        ("/model/m/count-words", "opaque"),
    ],
)
def test_each_request_is_claimed_by_one_dialect_at_most(path: str, name: str) -> None:
    claimed = [dialect.name for dialect in dialects.DIALECTS if dialect.matches(make_request(path))]
    assert claimed == ([] if name == "opaque" else [name])


@each_row(
    ("operation", "status", "content_type", "expected"),
    [
        ("converse-stream", 200, "application/vnd.amazon.eventstream", "eventstream"),
        ("converse-stream", 200, None, "eventstream"),
        ("converse-stream", 200, "text/html", "whole"),
        ("converse-stream", 400, "application/vnd.amazon.eventstream", "whole"),
        ("converse", 200, "application/json", "whole"),
        ("converse", 200, None, "whole"),
    ],
)
def test_the_content_type_chooses_the_framing(
    operation: str, status: int, content_type: str | None, expected: str
) -> None:
    headers = () if content_type is None else (("Content-Type", content_type),)
    assert (
        DIALECT.codec_name(make_request(f"/model/m/{operation}"), head(status, headers)) == expected
    )


TITAN: Final = {"outputText": "Hi", "index": 0, "completionReason": "FINISH"}


@each_row(
    ("body", "reason"),
    [
        pytest.param(CHAT, "messageStop: end_turn", id="converse"),
        pytest.param(TOOLS, "messageStop: tool_use", id="converse with tools"),
        pytest.param(CLAUDE, "message_stop", id="claude"),
        pytest.param(NOVA, "messageStop: end_turn", id="nova"),
        pytest.param(invoke_stream(TITAN), "every choice finished", id="titan"),
        pytest.param(
            invoke_stream({"event_type": "odd", "amazon-bedrock-invocationMetrics": METRICS}),
            "invocation metrics",
            id="a model that nobody knows",
        ),
        pytest.param(
            converse_stream(BEGIN)
            + exception_frame("throttlingException", message="Too many requests"),
            "in-band error: Too many requests",
            id="an exception",
        ),
        pytest.param(
            encode_frame([(":message-type", "error"), (":error-code", "InternalFailure")], b""),
            "in-band error: InternalFailure",
            id="an error that has no name",
        ),
        pytest.param(
            invoke_stream(
                {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}
            ),
            "in-band error: Busy",
            id="an error of the model",
        ),
    ],
)
def test_a_stream_with_an_end_marker_is_complete(body: bytes, reason: str) -> None:
    completeness = DIALECT.completeness(stream_response(body))
    assert (completeness.is_complete, completeness.reason) == (True, reason)


@each_row(
    ("body", "reason"),
    [
        pytest.param(b"", "empty stream", id="nothing"),
        pytest.param(b"<html>", "bytes that are no frame", id="a page"),
        pytest.param(converse_stream(BEGIN, delta(0, text="H")), "no event ends it", id="cut"),
        pytest.param(converse_stream(BEGIN, USAGE_EVENT), "no event ends it", id="counts alone"),
        pytest.param(CHAT[:-1], "bytes that are no frame", id="cut inside the last frame"),
        pytest.param(
            converse_stream(BEGIN)[:-1] + b"?" + CHAT,
            "bytes that are no frame",
            id="a broken checksum",
        ),
        pytest.param(
            invoke_stream({"outputText": "Hi", "index": 0}), "no event ends it", id="titan"
        ),
        pytest.param(invoke_stream({"type": "ping"}), "no event ends it", id="a ping"),
        pytest.param(
            event("chunk", {"bytes": "*"}) + event("chunk", []), "no event ends it", id="no base64"
        ),
        pytest.param(
            exception_frame("throttlingException", message="no")[:-1] + b"?",
            "bytes that are no frame",
            id="a broken exception",
        ),
    ],
)
def test_a_stream_without_an_end_marker_is_incomplete(body: bytes, reason: str) -> None:
    completeness = DIALECT.completeness(stream_response(body))
    assert (completeness.is_complete, completeness.reason) == (False, reason)


@for_each_stream
def test_a_stream_cut_before_its_end_is_incomplete(body: bytes) -> None:
    boundaries = [0]
    for message in framing.split_messages("eventstream", body):
        boundaries.append(boundaries[-1] + len(message))
    for at in range(len(body) + 1):
        expected = at in boundaries and at >= boundaries[-2]  # the last message holds the usage
        assert DIALECT.completeness(stream_response(body[:at])).is_complete is expected, at


@for_each_stream
def test_a_frame_split_at_the_message_limit_is_reassembled(body: bytes) -> None:
    response = DialectResponse(
        head(), "eventstream", [body[at : at + 7] for at in range(0, len(body), 7)]
    )
    assert DIALECT.decode_response(response) == DIALECT.decode_response(stream_response(body))
    assert DIALECT.completeness(response).is_complete


@each_row(
    ("response", "is_complete", "reason"),
    [
        pytest.param(whole_response({"output": {}}), True, "JSON body", id="a document"),
        pytest.param(whole_response(b'{"output'), False, "body is not JSON", id="a cut document"),
        pytest.param(whole_response({"message": "no"}, 429), True, "HTTP 429", id="an error"),
    ],
)
def test_completeness_of_a_json_body(
    response: DialectResponse, is_complete: bool, reason: str
) -> None:
    completeness = DIALECT.completeness(response)
    assert (completeness.is_complete, completeness.reason) == (is_complete, reason)


def test_an_http_error_is_always_complete() -> None:
    assert DIALECT.completeness(DialectResponse(head(500), "eventstream", [])).reason == "HTTP 500"


def test_a_converse_stream_becomes_a_turn() -> None:
    assert DIALECT.decode_response(stream_response(TOOLS)) == (
        Turn(
            parts=(
                Reasoning("Two cities.", signature="c2ln"),
                Text("Checking."),
                ToolCall("tooluse_a", "get_weather", '{"city":"Rome"}'),
            ),
            finish=FinishReason.TOOL_CALLS,
            finish_raw="tool_use",
            usage=Usage(input=9, output=20, total=29),
            metadata=(("metrics", {"latencyMs": 120}),),
        ),
    )


def test_a_converse_document_becomes_the_same_turn() -> None:
    document = {
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "Two cities."}}},
                    {"reasoningContent": {"redactedContent": "c2Vj"}},
                    {"text": "Checking."},
                    {"toolUse": {"toolUseId": "a", "name": "f", "input": {}, "type": "tool_use"}},
                ],
            }
        },
        "stopReason": "tool_use",
        "usage": {
            "inputTokens": 9,
            "outputTokens": 20,
            "totalTokens": 29,
            "cacheReadInputTokens": 4,
            "cacheWriteInputTokens": 5,
            "serverToolUsage": {},
            "cacheDetails": [{"ttl": "1h", "inputTokens": 5}],
        },
        "metrics": {"latencyMs": 120},
        "serviceTier": {"type": "flex"},
        "trace": {"promptRouter": {"invokedModelId": "arn:aws:x"}},
    }
    assert DIALECT.decode_response(whole_response(document)) == (
        Turn(
            parts=(
                Reasoning("Two cities."),
                Reasoning(redacted="c2Vj"),
                Text("Checking."),
                ToolCall("a", "f", "{}"),
            ),
            finish=FinishReason.TOOL_CALLS,
            finish_raw="tool_use",
            usage=Usage(input=9, output=20, total=29, cache_read=4, cache_write=5),
            model="arn:aws:x",
            metadata=(
                ("metrics", {"latencyMs": 120}),
                ("trace", {"promptRouter": {"invokedModelId": "arn:aws:x"}}),
                ("serviceTier", {"type": "flex"}),
                ("usage", {"cacheDetails": [{"ttl": "1h", "inputTokens": 5}]}),
            ),
        ),
    )


SEARCH: Final = {"toolUseId": "a", "name": "search", "type": "server_tool_use"}
SEARCH_RESULT: Final = {"toolUseId": "a", "status": "error", "type": "search_result"}
SERVER_TOOL: Final = (
    ToolCall("a", "search", '{"q":1}', (("type", "server_tool_use"),)),
    ToolResult("a", 'x{"n":1}', "search", failed=True, metadata=(("type", "search_result"),)),
)


def test_a_server_tool_call_has_its_result() -> None:
    result_content = [{"text": "x"}, {"json": {"n": 1}}]
    stream = converse_stream(
        start(0, toolUse=SEARCH),
        delta(0, toolUse={"input": '{"q":1}'}),
        start(1, toolResult=SEARCH_RESULT),
        delta(1, toolResult=result_content),
    )
    content = [
        {"toolUse": {**SEARCH, "input": {"q": 1}}},
        {"toolResult": {**SEARCH_RESULT, "content": result_content}},
    ]
    document = {"output": {"message": {"content": content}}}
    assert DIALECT.decode_response(stream_response(stream))[0].parts == SERVER_TOOL
    assert DIALECT.decode_response(whole_response(document))[0].parts == SERVER_TOOL


RAW_CITATION: Final[dict[str, Json]] = {
    "title": "sample",
    "location": {"web": {"url": "https://example.com/", "domain": "example.com"}},
    "sourceContent": [{"text": "Fun "}, {"text": "fun"}],
}
CITATION: Final = Citation(
    "https://example.com/", "sample", "Fun fun", metadata=(("location", RAW_CITATION["location"]),)
)


def test_a_citation_belongs_to_its_text() -> None:
    stream = converse_stream(
        delta(0, text="It is "), delta(0, citation=RAW_CITATION), delta(0, text="fun")
    )
    content = [
        {"citationsContent": {"content": [{"text": "It is fun"}], "citations": [RAW_CITATION]}}
    ]
    document = {"output": {"message": {"content": content}}}
    expected = (Text("It is fun", (CITATION,)),)
    assert DIALECT.decode_response(stream_response(stream))[0].parts == expected
    assert DIALECT.decode_response(whole_response(document))[0].parts == expected


def test_image_fragments_are_joined() -> None:
    stream = converse_stream(
        start(0, image={"format": "png"}),
        delta(0, image={"source": {"bytes": "iVBO"}}),
        delta(0, image={"source": {"bytes": "Rw0K"}}),
    )
    assert DIALECT.decode_response(stream_response(stream))[0].parts == (
        Media("image/png", base64="iVBORw0K"),
    )
    image_block = {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://a/b"}}}}
    document = {"output": {"message": {"content": [image_block]}}}
    assert DIALECT.decode_response(whole_response(document))[0].parts == (
        Media("image/png", url="s3://a/b"),
    )


def test_redacted_reasoning_is_kept() -> None:
    stream = converse_stream(
        delta(0, reasoningContent={"redactedContent": "c2Vj"}), delta(1, text="Hi")
    )
    assert DIALECT.decode_response(stream_response(stream))[0].parts == (
        Reasoning(redacted="c2Vj"),
        Text("Hi"),
    )


@each_row(
    ("reason", "finish"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP_SEQUENCE),
        ("max_tokens", FinishReason.LENGTH),
        ("guardrail_intervened", FinishReason.CONTENT_FILTER),
        ("content_filtered", FinishReason.CONTENT_FILTER),
        ("model_context_window_exceeded", FinishReason.CONTEXT_FULL),
        ("malformed_tool_use", FinishReason.ERROR),
        ("malformed_model_output", FinishReason.ERROR),
        ("brand_new", FinishReason.OTHER),
    ],
)
def test_stop_reasons_map_to_finish_values(reason: str, finish: FinishReason) -> None:
    (turn,) = DIALECT.decode_response(
        stream_response(converse_stream(("messageStop", {"stopReason": reason})))
    )
    assert (turn.finish, turn.finish_raw) == (finish, reason)


def test_a_stream_of_claude_becomes_a_turn() -> None:
    assert DIALECT.decode_response(stream_response(CLAUDE)) == (
        Turn(
            parts=(Text("Hello"),),
            finish=FinishReason.STOP,
            finish_raw="end_turn",
            usage=Usage(input=9, output=2),
            id="msg_1",
            model="claude",
            metadata=(("amazon-bedrock-invocationMetrics", METRICS),),
        ),
    )


def test_text_fragments_of_nova_are_joined() -> None:
    (turn,) = DIALECT.decode_response(stream_response(NOVA))
    assert turn.parts == (Text("Hello"),)
    assert (turn.finish, turn.usage) == (FinishReason.STOP, Usage(input=9, output=2))


COMPLETIONS: Final[dict[str, tuple[dict[str, Any], FinishReason, Usage | None]]] = {
    "titan, a piece": (
        {"outputText": "Hi", "completionReason": "LENGTH", "totalOutputTextTokenCount": 2.0},
        FinishReason.LENGTH,
        Usage(output=2),
    ),
    "titan": (
        {
            "inputTextTokenCount": 9,
            "results": [{"tokenCount": 2, "outputText": "Hi", "completionReason": "FINISH"}],
        },
        FinishReason.STOP,
        Usage(input=9, output=2),
    ),
    "llama": (
        {
            "generation": "Hi",
            "prompt_token_count": 9,
            "generation_token_count": 2,
            "stop_reason": "stop",
        },
        FinishReason.STOP,
        Usage(input=9, output=2),
    ),
    "mistral": ({"outputs": [{"text": "Hi", "stop_reason": "length"}]}, FinishReason.LENGTH, None),
    "cohere": (
        {"generations": [{"text": "Hi", "finish_reason": "COMPLETE"}]},
        FinishReason.STOP,
        None,
    ),
    "cohere, a piece": (
        {"text": "Hi", "is_finished": True, "finish_reason": "MAX_TOKENS"},
        FinishReason.LENGTH,
        None,
    ),
    "as of OpenAI": (
        {
            "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
        },
        FinishReason.STOP,
        Usage(input=9, output=2, total=11),
    ),
    "as of OpenAI, a piece": (
        {"choices": [{"index": 0, "delta": {"content": "Hi"}, "stop_reason": "odd"}]},
        FinishReason.OTHER,
        None,
    ),
    "claude 2": (
        {"completion": "Hi", "stop_reason": "stop_sequence"},
        FinishReason.STOP_SEQUENCE,
        None,
    ),
}


@each_row("case", COMPLETIONS.values(), ids=COMPLETIONS.keys())
def test_completions_of_each_vendor_become_turns(
    case: tuple[dict[str, Any], FinishReason, Usage | None],
) -> None:
    document, finish, usage = case
    for response in (whole_response(document), stream_response(invoke_stream(document))):
        (turn,) = DIALECT.decode_response(response)
        assert (turn.text, turn.finish, turn.usage) == ("Hi", finish, usage)
    assert DIALECT.completeness(stream_response(invoke_stream(document))).is_complete


def test_pieces_of_a_completion_are_joined() -> None:
    body = invoke_stream(
        {"generation": "Hel", "prompt_token_count": 9, "stop_reason": None},
        {"generation": "lo", "stop_reason": None},
        {"generation": "", "stop_reason": "stop", "amazon-bedrock-invocationMetrics": METRICS},
    )
    (turn,) = DIALECT.decode_response(stream_response(body))
    assert (turn.parts, turn.finish, turn.usage) == (
        (Text("Hello"),),
        FinishReason.STOP,
        Usage(input=9),
    )


def test_a_lone_surrogate_in_a_stop_reason_is_replaced() -> None:
    (turn,) = DIALECT.decode_response(
        whole_response(rb'{"generation":"Hi","stop_reason":"st\ud83d"}')
    )
    assert (turn.finish, turn.finish_raw) == (FinishReason.OTHER, "st\N{REPLACEMENT CHARACTER}")


def test_several_choices_are_several_turns() -> None:
    choices_document = {"generations": [{"text": "a", "finish_reason": "COMPLETE"}, {"text": "b"}]}
    first, second = DIALECT.decode_response(whole_response(choices_document))
    assert (first.text, first.finish, second.text, second.finish) == (
        "a",
        FinishReason.STOP,
        "b",
        None,
    )
    assert not DIALECT.completeness(stream_response(invoke_stream(choices_document))).is_complete


def test_invocation_metrics_are_the_fallback_for_usage() -> None:
    document = {"outputs": [{"text": "Hi"}], "amazon-bedrock-invocationMetrics": METRICS}
    assert DIALECT.decode_response(stream_response(invoke_stream(document)))[0].usage == Usage(
        input=9, output=2
    )


def test_an_exception_keeps_the_preceding_content() -> None:
    body = converse_stream(BEGIN, delta(0, text="Hel")) + exception_frame(
        "modelStreamErrorException",
        message="The model failed",
        originalStatusCode=500,
        originalMessage="out of memory",
    )
    (turn,) = DIALECT.decode_response(stream_response(body))
    assert (turn.text, turn.finish) == ("Hel", None)
    assert turn.failure == Failure(
        "The model failed (out of memory)", type="modelStreamErrorException", code="500"
    )


def test_an_exception_alone_is_a_turn() -> None:
    body = exception_frame("validationException", message="no")
    assert DIALECT.decode_response(stream_response(body)) == (
        Turn((), failure=Failure("no", type="validationException")),
    )


def test_an_error_without_a_name_is_a_turn() -> None:
    headers = [(":message-type", "error"), (":error-code", "500"), (":error-message", "no")]
    assert DIALECT.decode_response(stream_response(encode_frame(headers, b""))) == (
        Turn((), failure=Failure("no", type="500")),
    )


@each_row(
    ("document", "headers", "failure"),
    [
        (
            {"message": "no"},
            (("x-amzn-ErrorType", "ValidationException:http://internal.amazon.com/"),),
            Failure("no", type="ValidationException"),
        ),
        (
            {"Message": "no", "__type": "com.amazon.coral.service#AccessDeniedException"},
            (),
            Failure("no", type="AccessDeniedException"),
        ),
        (b"<html>", (), Failure("HTTP 403")),
    ],
    ids=["a header", "the body", "a page"],
)
def test_an_http_error_is_one_turn_with_a_failure(
    document: object, headers: Headers, failure: Failure
) -> None:
    assert DIALECT.decode_response(whole_response(document, 403, headers)) == (
        Turn((), failure=failure),
    )


@each_row(
    "document", [b"", b"[]", b"<html>", {"embedding": [0.5]}, {"inputTokens": 3}, {"images": []}]
)
def test_a_response_without_content_has_no_turn(document: object) -> None:
    assert DIALECT.decode_response(whole_response(document)) == ()


def test_an_error_has_the_shape_that_the_sdk_prints() -> None:
    assert orjson.loads(DIALECT.error_body(424, "cassette_not_found", "no cassette")) == {
        "message": "no cassette",
        "__type": "cassette_not_found",
    }


KEYS: Final = st.sampled_from(
    """contentBlockIndex start delta text toolUse toolResult toolUseId input name reasoningContent
    reasoningText signature redactedContent citation citationsContent citations content location
    sourceContent image format source bytes stopReason usage inputTokens output message type index
    content_block stop_reason completion outputText generation outputs choices results error
    messageStop contentBlockDelta metadata amazon-bedrock-invocationMetrics finish_reason
    tool_calls function arguments trace promptRouter""".split()  # noqa: SIM905 # readable
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=4)
    | st.sampled_from(["message", "message_start", "content_block_delta", "text_delta", "YQ=="]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=5)
NAMES = st.sampled_from(
    ["messageStart", "contentBlockStart", "contentBlockDelta", "messageStop", "metadata", "odd"]
)


@given(
    st.lists(st.tuples(NAMES, DOCUMENTS), max_size=4),
    st.lists(DOCUMENTS, max_size=4),
    st.sampled_from([200, 500]),
)
def test_documents_of_any_shape_decode_to_serialisable_turns(
    events: list[Event], documents: list[dict[str, Any]], status: int
) -> None:
    stream = b"".join(
        encode_frame([(":event-type", name)], json.dumps(payload).encode())
        for name, payload in events
    )
    for document in documents:
        encoded = base64.b64encode(json.dumps(document).encode()).decode()
        stream += encode_frame([(":event-type", "chunk")], orjson.dumps({"bytes": encoded}))
    responses = [
        stream_response(stream),
        *(whole_response(json.dumps(item).encode(), status) for item in documents),
    ]
    for response in responses:
        assert DIALECT.completeness(response).reason
        assert orjson.dumps(DIALECT.decode_response(response)) is not None


@given(st.sampled_from([CHAT, TOOLS, CLAUDE, NOVA]), st.data())
def test_a_damaged_stream_is_never_complete(body: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(body) - 1))
    bit = data.draw(st.integers(0, 7))
    damaged = body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :]
    assert not DIALECT.completeness(stream_response(damaged)).is_complete
    assert all(isinstance(turn, Turn) for turn in DIALECT.decode_response(stream_response(damaged)))


def test_the_time_of_a_chunk_is_the_same_however_many_choices_are_open() -> None:
    def decode(count: int) -> str:
        choices = [{"index": index, "delta": {}} for index in range(count)]
        text_chunks = invoke_stream({"outputText": "a", "index": 0}) * count
        response = stream_response(invoke_stream({"choices": choices}) + text_chunks)
        assert not DIALECT.completeness(response).is_complete
        return DIALECT.decode_response(response)[0].text

    assert decode(100) == "a" * 100
    assert_linear(decode, 3000)


needs_corpus = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
ROWS_WITHOUT_TURN: Final = {"b200bbadd58864ec"}
"""An embedding, which InvokeModel also returns."""
KNOWN_PARTS: Final = {"text", "toolUse", "toolResult", "reasoningContent"}
EVENTS_WITHOUT_CONTENT: Final = {"messageStart", "contentBlockStop"}
NATIVE_KEYS: Final = (
    "type",
    "outputText",
    "messageStart",
    "contentBlockStart",
    "contentBlockDelta",
)
NATIVE_END_KEYS: Final = ("contentBlockStop", "messageStop", "metadata")


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_response_is_matched_complete_and_decoded() -> None:
    rows = [
        row
        for row in corpus.rows()
        if row.wire.startswith("bedrock.") and row.fidelity in ("exact", "json-reserialised")
    ]
    assert len(rows) == 117
    for row in rows:
        assert dialects.dialect_of_request(row.request).name == DIALECT.name, row.id
        assert DIALECT.model(row.request), row.id
        name = DIALECT.codec_name(row.request, row.head)
        assert name == ("eventstream" if "eventstream" in row.wire else "whole"), row.id
        response = DialectResponse(row.head, name, framing.split_messages(name, row.body))
        assert DIALECT.completeness(response).is_complete, row.id
        turns = DIALECT.decode_response(response)
        assert len(turns) == (0 if row.id in ROWS_WITHOUT_TURN else 1), row.id
        for turn in turns:
            assert (turn.failure is not None) == (row.status >= 400), row.id
            assert row.status >= 400 or (turn.parts and turn.finish and turn.usage), row.id


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_event_is_known() -> None:
    unknown: Counter[str] = Counter()
    count = 0
    for row in corpus.rows():
        if not (row.wire.startswith("bedrock.") and row.wire.endswith("eventstream")):
            continue
        for message in framing.split_messages("eventstream", row.body):
            count += 1
            frame = parse_frame(message)
            assert frame is not None, row.id
            payload = orjson.loads(frame.payload)
            name = frame.header(":event-type")
            if name == "chunk":
                native = orjson.loads(base64.b64decode(payload["bytes"]))
                unknown[str(native)] += not any(
                    item in native for item in (*NATIVE_KEYS, *NATIVE_END_KEYS)
                )
            elif name in ("contentBlockStart", "contentBlockDelta"):
                unknown[name] += not KNOWN_PARTS.issuperset(
                    payload.get("start") or payload["delta"]
                )
            else:
                unknown[name] += name not in (*EVENTS_WITHOUT_CONTENT, "messageStop", "metadata")
    assert count == 1338
    assert unknown.total() == 0, +unknown


@pytest.mark.corpus
@needs_corpus
def test_events_recorded_without_frames_are_complete_once_framed() -> None:
    rows = [row for row in corpus.rows() if row.wire == "bedrock.converse.payload"]
    assert len(rows) == 4
    for row in rows:
        events = [orjson.loads(line) for line in row.body.splitlines() if line]
        stream = converse_stream(*(pair for item in events for pair in item.items()))
        assert DIALECT.completeness(stream_response(stream)).is_complete, row.id
        (turn,) = DIALECT.decode_response(stream_response(stream))
        assert turn.parts, row.id
        assert turn.finish in (FinishReason.STOP, FinishReason.TOOL_CALLS), row.id
