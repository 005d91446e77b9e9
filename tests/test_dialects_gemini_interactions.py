from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.google.interactions import GeminiInteractions
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Media,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

DIALECT = GeminiInteractions()

TEXT = b"""\
event: interaction.created
data: {"event_type":"interaction.created","interaction":{"id":"int_1","status":"in_progress"}}

event: step.start
data: {"event_type":"step.start","index":0,"step":{"type":"model_output"}}

event: step.delta
data: {"event_type":"step.delta","index":0,"delta":{"type":"text","text":"Hello"}}

event: step.stop
data: {"event_type":"step.stop","index":0}

event: interaction.completed
data: {"event_type":"interaction.completed","interaction":{"id":"int_1","status":"completed",\
"usage":{"total_input_tokens":9,"total_output_tokens":2,"total_tokens":11}}}

data: [DONE]

"""
"""A minimal stream."""

HELLO = Turn(
    (Text("Hello"),),
    finish=FinishReason.STOP,
    finish_raw="completed",
    usage=Usage(input=9, output=2, total=11),
    id="int_1",
)
ERROR = (
    b'event: error\ndata: {"event_type":"error","error":{"code":"internal","message":"No."}}\n\n'
)


def make_request(
    path: str = "/v1beta/interactions", method: str = "POST", query: str = "", **body: object
) -> Request:
    return Request(method, path, query, (), json.dumps(body).encode())


def head(status: int = 200, content_type: str = "text/event-stream") -> ResponseHead:
    headers = (("Content-Type", content_type),) if content_type else ()
    return ResponseHead(status, "", headers, "chunked")


def stream_response(body: bytes) -> DialectResponse:
    return DialectResponse(head(), "sse", framing.split_messages("sse", body))


def whole_response(body: bytes, status: int = 200) -> DialectResponse:
    return DialectResponse(
        head(status, "application/json"), "whole", framing.split_messages("whole", body)
    )


def event(kind: str, **fields: object) -> bytes:
    data = json.dumps({"event_type": kind, **fields})
    return f"event: {kind}\ndata: {data}\n\n".encode()


def step_start(index: int, kind: str, **fields: object) -> bytes:
    return event("step.start", index=index, step={"type": kind, **fields})


def step_delta(index: int, kind: str, **fields: object) -> bytes:
    return event("step.delta", index=index, delta={"type": kind, **fields})


def parts_of(*events: bytes) -> tuple[Part, ...]:
    (turn,) = DIALECT.decode_response(stream_response(b"".join(events)))
    return turn.parts


VERTEX_PATH = "/v1beta1/projects/p/locations/global/interactions"


@each_row(
    ("method", "path", "claimed"),
    [
        ("POST", "/v1beta/interactions", True),
        ("POST", "/v1/interactions", True),
        ("POST", VERTEX_PATH, True),
        ("GET", f"{VERTEX_PATH}/i1", True),
        ("GET", "/v1beta/interactions/i1", True),
        ("DELETE", "/v1beta/interactions/i1", True),
        ("POST", "/v1beta/interactions/i1/cancel", True),
        ("POST", "/v1beta/interactions/i1", False),
        ("GET", "/v1beta/interactions", False),
        ("POST", "/interactions", False),
        ("POST", "/v1beta/interactions/i1/other", False),
    ],
)
def test_the_paths_of_interactions_are_matched(method: str, path: str, claimed: bool) -> None:
    assert DIALECT.matches(make_request(path, method)) is claimed


@each_row(
    ("body", "model"),
    [
        ({"model": "models/gemini-3"}, "gemini-3"),
        ({"agent": "deep-research"}, "deep-research"),
        ({}, ""),
    ],
)
def test_the_model_or_the_agent_is_found(body: dict[str, Any], model: str) -> None:
    assert DIALECT.model(make_request(**body)) == model


@each_row(
    ("request_", "content_type", "streams", "codec"),
    [
        pytest.param(make_request(stream=True), "text/event-stream", True, "sse", id="a stream"),
        pytest.param(make_request(stream=True), "", True, "sse", id="a stream without a type"),
        pytest.param(
            make_request(stream=True), "application/json", True, "whole", id="an answer at once"
        ),
        pytest.param(make_request(), "application/json", False, "whole", id="a document"),
        pytest.param(make_request(), "", False, "whole", id="a document without a type"),
        pytest.param(
            make_request("/v1beta/interactions/i", "GET", "stream=true&last_event_id=7"),
            "text/event-stream",
            True,
            "sse",
            id="taken up again",
        ),
    ],
)
def test_request_and_type_choose_the_framing(
    request_: Request, content_type: str, streams: bool, codec: str
) -> None:
    assert DIALECT.streams(request_) is streams
    assert DIALECT.codec_name(request_, head(200, content_type)) == codec
    assert DIALECT.codec_name(request_, head(429, content_type)) == "whole"


TEXT_WITHOUT_DONE = TEXT.removesuffix(b"data: [DONE]\n\n")


@each_row(
    ("response", "is_complete", "reason"),
    [
        pytest.param(stream_response(TEXT), True, "[DONE]", id="the usual end"),
        pytest.param(
            stream_response(TEXT_WITHOUT_DONE), True, "interaction completed", id="no DONE"
        ),
        pytest.param(
            stream_response(event("interaction.created") + ERROR),
            True,
            "in-band error: No.",
            id="error",
        ),
        pytest.param(
            stream_response(event("step.stop", index=0)),
            False,
            "no [DONE], interaction not completed",
            id="cut",
        ),
        pytest.param(stream_response(b""), False, "empty stream", id="nothing"),
        pytest.param(whole_response(b'{"id":"i"}'), True, "JSON body", id="a document"),
        pytest.param(whole_response(b"", 404), True, "HTTP 404", id="an error"),
    ],
)
def test_completeness_of_a_response(
    response: DialectResponse, is_complete: bool, reason: str
) -> None:
    completeness = DIALECT.completeness(response)
    assert (completeness.is_complete, completeness.reason) == (is_complete, reason)


@given(st.integers(0, len(TEXT) - 1))
def test_a_stream_cut_before_its_completed_event_is_incomplete(cut: int) -> None:
    assert DIALECT.completeness(stream_response(TEXT[:cut])).is_complete is (
        cut >= len(TEXT_WITHOUT_DONE.rstrip())
    )


def test_a_stream_becomes_a_turn() -> None:
    assert DIALECT.decode_response(stream_response(TEXT)) == (HELLO,)


def test_a_document_becomes_the_same_turn() -> None:
    content = [{"type": "text", "text": "Hello"}]
    document = {
        "id": "int_1",
        "status": "completed",
        "steps": [
            {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]},
            {"type": "model_output", "content": content},
        ],
        "usage": {"total_input_tokens": 9, "total_output_tokens": 2, "total_tokens": 11},
    }
    assert DIALECT.decode_response(whole_response(json.dumps(document).encode())) == (HELLO,)
    document["outputs"] = content
    del document["steps"]
    assert DIALECT.decode_response(whole_response(json.dumps(document).encode())) == (HELLO,)


def test_thoughts_have_summaries_and_a_signature() -> None:
    summary = {"type": "text", "text": "mm"}
    assert parts_of(
        step_start(0, "thought"),
        step_delta(0, "thought_summary", content=summary),
        step_delta(0, "thought_signature", signature="s"),
        step_start(1, "thought", summary=[summary, summary], signature="t"),
    ) == (Reasoning("mm", "s"), Reasoning("mmmm", "t"))


def test_calls_come_whole_or_in_deltas() -> None:
    assert parts_of(
        step_start(0, "function_call", id="a", name="f", arguments={}),
        step_delta(0, "arguments_delta", arguments='{"x"'),
        step_delta(0, "arguments_delta", arguments=":1}"),
        step_start(1, "function_call", id="b", name="g", arguments={"y": 2}),
        step_start(2, "function_call", id="c", name="h"),
    ) == (ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g", '{"y":2}'), ToolCall("c", "h", "{}"))


def test_tools_that_google_runs_are_calls_and_results() -> None:
    call, result = parts_of(
        step_start(0, "google_search_call", id="a", signature=""),
        step_delta(0, "google_search_call", arguments={"queries": ["q"]}),
        step_start(1, "code_execution_result", call_id="a"),
        step_delta(1, "code_execution_result", result="no", is_error=True, signature="s"),
    )
    kind = ("type", "google_search_call")
    assert call == ToolCall("a", "google_search", '{"queries":["q"]}', (kind,))
    metadata = (("type", "code_execution_result"), ("signature", "s"))
    assert result == ToolResult("a", "no", "code_execution", failed=True, metadata=metadata)


def test_annotations_become_citations_with_character_spans() -> None:
    page = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0}
    file = {"type": "file_citation", "document_uri": "f", "file_name": "F", "source": "said"}
    (text,) = parts_of(
        step_start(0, "model_output"),
        step_delta(0, "text", text="Grüße"),
        step_delta(0, "text_annotation_delta", annotations=[page | {"end_index": 7}, file]),
    )
    assert text == Text(
        "Grüße",
        (
            Citation("https://a", "A", span=(0, 5)),
            Citation("f", "F", "said", metadata=(("type", "file_citation"),)),
        ),
    )


def test_media_come_inline_or_by_reference() -> None:
    assert parts_of(
        step_start(0, "model_output"),
        step_delta(0, "image", data="AAA=", mime_type="image/png"),
        step_delta(0, "audio", data="AAE=", mime_type="audio/l16", sample_rate=24000),
        step_delta(0, "audio", data="AgM="),
        step_delta(0, "video", uri="https://v"),
    ) == (
        Media("image/png", base64="AAA="),
        Media("audio/l16", base64="AAECAw==", metadata=(("sample_rate", 24000),)),
        Media("video/*", url="https://v"),
    )


@each_row(
    ("status", "finish"),
    [
        ("completed", FinishReason.STOP),
        ("requires_action", FinishReason.TOOL_CALLS),
        ("incomplete", FinishReason.LENGTH),
        ("budget_exceeded", FinishReason.LENGTH),
        ("requires_continuation", FinishReason.PAUSED),
        ("failed", FinishReason.ERROR),
        ("cancelled", FinishReason.OTHER),
    ],
)
def test_statuses_map_to_finish_values(status: str, finish: FinishReason) -> None:
    (turn,) = DIALECT.decode_response(
        stream_response(event("interaction.completed", interaction={"status": status}))
    )
    assert (turn.finish, turn.finish_raw) == (finish, status)


def test_an_interaction_that_runs_has_not_finished() -> None:
    update = event("interaction.status_update", interaction_id="i", status="in_progress")
    (turn,) = DIALECT.decode_response(stream_response(update))
    assert (turn.id, turn.finish, turn.finish_raw) == ("i", None, "")


def test_errors_keep_the_preceding_content() -> None:
    body = step_start(0, "model_output") + step_delta(0, "text", text="Hi") + ERROR
    (turn,) = DIALECT.decode_response(stream_response(body))
    assert (turn.text, turn.failure) == ("Hi", Failure("No.", code="internal"))
    failed = {"status": "failed", "errors": [{"code": "internal", "message": "No."}]}
    (turn,) = DIALECT.decode_response(whole_response(json.dumps(failed).encode()))
    assert (turn.finish, turn.failure) == (FinishReason.ERROR, Failure("No.", code="internal"))


def test_an_http_error_is_one_turn_with_a_failure() -> None:
    body = DIALECT.error_body(424, "cassette_not_found", "text")
    failure = Failure("text", "cassette_not_found", "424")
    assert DIALECT.decode_response(whole_response(body, 424)) == (Turn((), failure=failure),)


@each_row("body", [b"", b"null", b"{}", b"<"])
def test_a_body_that_is_no_interaction_has_no_turn(body: bytes) -> None:
    assert DIALECT.decode_response(whole_response(body)) == ()


KINDS = st.sampled_from(
    [
        *("text", "thought", "thought_summary", "model_output", "arguments_delta", "audio"),
        *("function_call", "x_call", "x_result", "text_annotation_delta"),
    ]
)
KEYS = st.sampled_from(
    [
        *("type", "text", "content", "summary", "signature", "arguments", "annotations", "result"),
        *("data", "uri", "id", "name", "start_index", "end_index", "url", "total_tokens", "\ud800"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | KINDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)
STEPS = st.fixed_dictionaries({"type": KINDS}, optional=dict.fromkeys(["text", "content"], VALUES))
EVENTS = st.fixed_dictionaries(
    {"event_type": st.sampled_from(["step.start", "step.delta", "interaction.completed"])},
    optional={
        "index": VALUES,
        "step": STEPS | VALUES,
        "delta": STEPS | VALUES,
        "error": VALUES,
        "interaction": st.dictionaries(st.sampled_from(["steps", "usage", "status"]), VALUES),
    },
)


@given(st.lists(EVENTS, min_size=1, max_size=4), st.sampled_from([200, 400]))
def test_events_of_any_shape_decode_to_serialisable_turns(
    events: list[dict[str, Any]], status: int
) -> None:
    encoded = [json.dumps(item).encode() for item in events]
    body = b"".join(b"data: " + item + b"\n\n" for item in encoded)
    for response in (stream_response(body), whole_response(encoded[0], status)):
        assert DIALECT.completeness(response).reason
        assert orjson.dumps(DIALECT.decode_response(response))


KNOWN_EVENTS = (
    *("interaction.created", "interaction.status_update", "interaction.completed"),
    *("step.start", "step.delta", "step.stop"),
)


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_recorded_interaction_is_matched_complete_and_decoded() -> None:
    rows = [row for row in corpus.rows() if row.wire == "gemini.interactions.payload"]
    assert len(rows) == 8
    for row in rows:
        assert dialects.dialect_of_request(row.request).name == DIALECT.name, row.id
        events = [json.loads(line) for line in row.body.splitlines()]
        assert {item["event_type"] for item in events} <= set(KNOWN_EVENTS), row.id
        response = stream_response(
            b"".join(event(item.pop("event_type"), **item) for item in events)
        )
        assert DIALECT.completeness(response).is_complete, row.id
        (turn,) = DIALECT.decode_response(response)
        texts = [
            item["delta"]["text"] for item in events if item.get("delta", {}).get("type") == "text"
        ]
        assert turn.text == "".join(texts), row.id
        assert turn.finish in (FinishReason.STOP, FinishReason.TOOL_CALLS), row.id
        assert turn.usage is not None, row.id
