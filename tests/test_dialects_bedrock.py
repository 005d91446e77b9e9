from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from bedrock_streams import (
    BEGIN,
    DIALECT,
    METRICS,
    METRICS_FIELD,
    Event,
    converse_stream,
    delta,
    event,
    exception_frame,
    invoke_stream,
    start,
    stop,
    stream_response,
    whole_response,
)
from case_tables import each_row
from dialect_manners import ENCODE_CONTEXT
from llm_proxy import dialects, framing
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Headers, Request, ResponseHead
from llm_proxy.framing.eventstream import encode_frame, parse_frame
from llm_proxy.turns import Failure, FinishReason, Turn

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
    delta(0, text="Checking."),
    stop(0),
    start(1, toolUse={"toolUseId": "tooluse_a", "name": "get_weather"}),
    delta(1, toolUse={"input": '{"city":"Rome"}'}),
    stop(1),
    ("messageStop", {"stopReason": "tool_use"}),
    USAGE_EVENT,
)
CHAT: Final = converse_stream(BEGIN, delta(0, text="Hello"), stop(0), END, USAGE_EVENT)
CLAUDE: Final = invoke_stream(
    {
        "type": "message_start",
        "message": {"id": "msg_1", "model": "claude", "content": [], "usage": {"input_tokens": 9}},
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop", METRICS_FIELD: METRICS},
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
        METRICS_FIELD: METRICS,
    },
)
STREAMS: Final = {"converse": CHAT, "tools": TOOLS, "claude": CLAUDE, "nova": NOVA}
for_each_stream = each_row("body", STREAMS.values(), ids=STREAMS.keys())


def make_request(path: str, method: str = "POST") -> Request:
    return Request(method, path, "", (), b"{}")


def head(status: int = 200, headers: Headers = ()) -> ResponseHead:
    return ResponseHead(status, "", headers, "chunked")


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
NO_FRAME: Final = "invalid frame"
NO_END: Final = "no final event"


@each_row(
    ("body", "is_complete", "reason"),
    [
        pytest.param(CHAT, True, "messageStop: end_turn", id="converse"),
        pytest.param(TOOLS, True, "messageStop: tool_use", id="converse with tools"),
        pytest.param(CLAUDE, True, "message_stop", id="claude"),
        pytest.param(NOVA, True, "messageStop: end_turn", id="nova"),
        pytest.param(invoke_stream(TITAN), True, "every choice finished", id="titan"),
        pytest.param(
            invoke_stream({"event_type": "odd", METRICS_FIELD: METRICS}), True,
            "invocation metrics", id="a model that nobody knows",
        ),
        pytest.param(
            converse_stream(BEGIN)
            + exception_frame("throttlingException", message="Too many requests"), True,
            "in-band error: Too many requests", id="an exception",
        ),
        pytest.param(
            encode_frame([(":message-type", "error"), (":error-code", "InternalFailure")], b""),
            True, "in-band error: InternalFailure", id="an error that has no name",
        ),
        pytest.param(
            invoke_stream(
                {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}
            ),
            True, "in-band error: Busy", id="an error of the model",
        ),
        pytest.param(b"", False, "empty stream", id="nothing"),
        pytest.param(b"<html>", False, NO_FRAME, id="a page"),
        pytest.param(converse_stream(BEGIN, delta(0, text="H")), False, NO_END, id="cut"),
        pytest.param(converse_stream(BEGIN, USAGE_EVENT), False, NO_END, id="counts alone"),
        pytest.param(CHAT[:-1], False, NO_FRAME, id="cut inside the last frame"),
        pytest.param(
            converse_stream(BEGIN)[:-1] + b"?" + CHAT, False, NO_FRAME, id="a broken checksum"
        ),
        pytest.param(
            invoke_stream({"outputText": "Hi", "index": 0}), False, NO_END, id="titan, cut"
        ),
        pytest.param(invoke_stream({"type": "ping"}), False, NO_END, id="a ping"),
        pytest.param(
            event("chunk", {"bytes": "*"}) + event("chunk", []), False, NO_END, id="no base64"
        ),
        pytest.param(
            exception_frame("throttlingException", message="no")[:-1] + b"?", False, NO_FRAME,
            id="a broken exception",
        ),
    ],
)  # fmt: skip
def test_completeness_of_a_stream(body: bytes, is_complete: bool, reason: str) -> None:
    completeness = DIALECT.completeness(stream_response(body))
    assert (completeness.is_complete, completeness.reason) == (is_complete, reason)


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
        pytest.param(
            DialectResponse(head(500), "eventstream", []), True, "HTTP 500", id="an empty error"
        ),
    ],
)
def test_completeness_of_a_document_or_an_error(
    response: DialectResponse, is_complete: bool, reason: str
) -> None:
    completeness = DIALECT.completeness(response)
    assert (completeness.is_complete, completeness.reason) == (is_complete, reason)


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


ROWS_WITHOUT_TURN: Final = {"b200bbadd58864ec"}
"""An embedding, which InvokeModel also returns."""
ROWS_REFUSED: Final = {
    "12f4b1178e71bfda",  # of a model that does not exist, whose stream format is therefore unknown
    *("3c64d871ce7bd1bb", "4075f1314a3adf41", "77de1cfa759c28f8", "cdd0d6ad3f1cc1e1"),
}
"""Four are of Titan's text completions, which are decoded and not encoded."""
FINISHES: Final = (FinishReason.STOP, FinishReason.TOOL_CALLS)
KNOWN_PARTS: Final = {"text", "toolUse", "toolResult", "reasoningContent"}
KNOWN_EVENTS: Final = {"messageStart", "contentBlockStop", "messageStop", "metadata"}
NATIVE_KEYS: Final = {
    "type", "outputText", "messageStart", "contentBlockStart", "contentBlockDelta",
    "contentBlockStop", "messageStop", "metadata",
}  # fmt: skip
needs_corpus: Final = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)


def recorded_responses() -> Iterator[tuple[corpus.Row, DialectResponse]]:
    """Every recorded response; rows recorded without frames are framed first."""
    for row in corpus.rows():
        if row.wire.startswith("bedrock."):
            codec, body = DIALECT.codec_name(row.request, row.head), row.body
            if row.wire.endswith(".payload"):
                events = [orjson.loads(line) for line in body.splitlines() if line]
                codec = "eventstream"
                body = converse_stream(*(pair for item in events for pair in item.items()))
            yield row, DialectResponse(row.head, codec, framing.split_messages(codec, body))


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_response_is_decoded_and_round_trips_without_losses() -> None:
    counts = Counter[bool]()
    refused: set[str] = set()
    for row, response in recorded_responses():
        framed_here = row.wire.endswith(".payload")
        counts[framed_here] += 1
        assert dialects.dialect_of_request(row.request).name == DIALECT.name, row.id
        assert DIALECT.model(row.request), row.id
        is_stream = framed_here or "eventstream" in row.wire
        assert response.codec_name == ("eventstream" if is_stream else "whole"), row.id
        assert DIALECT.completeness(response).is_complete, row.id
        turns = DIALECT.decode_response(response)
        assert len(turns) == (0 if row.id in ROWS_WITHOUT_TURN else 1), row.id
        for turn in turns:
            assert (turn.failure is not None) == (row.status >= 400), row.id
            if row.status < 400:
                assert turn.parts, row.id
                assert turn.usage or framed_here, row.id
                assert turn.finish in FINISHES if framed_here else turn.finish, row.id
            try:
                converted = DIALECT.representable_turns(row.request, turns, ENCODE_CONTEXT)
            except NotRepresentable:
                refused.add(row.id)
                continue
            assert converted.losses == (), row.id
            encoded = DIALECT.encode_response(row.request, turns, ENCODE_CONTEXT)
            assert DIALECT.decode_response(encoded) == converted.turns, row.id
            assert DIALECT.completeness(encoded).is_complete, row.id
            assert row.status >= 400 or is_unchanged(turn, converted.turns[0]), row.id
    assert counts == {False: 117, True: 4}
    assert refused == ROWS_REFUSED


def is_unchanged(turn: Turn, converted: Turn) -> bool:
    """Whether the turn is unchanged but for metrics and usage that the wire requires."""
    original_metadata, converted_metadata = dict(turn.metadata), dict(converted.metadata)
    if "metrics" not in original_metadata:
        converted_metadata.pop("metrics", None)
    usage = converted.usage if turn.usage else None
    return converted_metadata == original_metadata and replace(
        converted, usage=usage, metadata=()
    ) == replace(turn, metadata=())


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
                unknown[str(native)] += NATIVE_KEYS.isdisjoint(native)
            elif name in ("contentBlockStart", "contentBlockDelta"):
                parts = payload.get("start") or payload["delta"]
                unknown[name] += not KNOWN_PARTS.issuperset(parts)
            else:
                unknown[name] += name not in KNOWN_EVENTS
    assert count == 1338
    assert unknown.total() == 0, +unknown
