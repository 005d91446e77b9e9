"""`gemini-interactions`: requests, framing, completeness, and turns in both directions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from corpus_framing import with_framing
from dialect_manners import ENCODE_CONTEXT, SPLIT_CONTEXT, typed
from dialect_responses import head, stream_response, whole_response
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.base import ConvertedResponseTurns
from llm_proxy.dialects.google.interactions import GeminiInteractions
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)
from thoroughness import quick_or_thorough

DIALECT: Final = GeminiInteractions()

TEXT: Final = b"""\
event: interaction.created
data: {"event_type":"interaction.created","interaction":{"id":"v1_1","object":"interaction",\
"model":"gemini-3-flash","status":"in_progress","created":"2023-11-14T22:13:20Z",\
"updated":"2023-11-14T22:13:20Z"}}

event: interaction.status_update
data: {"event_type":"interaction.status_update","interaction_id":"v1_1","status":"in_progress"}

event: step.start
data: {"event_type":"step.start","index":0,"step":{"type":"model_output"}}

event: step.delta
data: {"event_type":"step.delta","index":0,"delta":{"type":"text","text":"Hel"}}

event: step.delta
data: {"event_type":"step.delta","index":0,"delta":{"type":"text","text":"lo"}}

event: step.stop
data: {"event_type":"step.stop","index":0}

event: interaction.completed
data: {"event_type":"interaction.completed","interaction":{"id":"v1_1","object":"interaction",\
"model":"gemini-3-flash","status":"completed","created":"2023-11-14T22:13:20Z",\
"updated":"2023-11-14T22:13:20Z",\
"usage":{"total_input_tokens":9,"total_output_tokens":2,"total_tokens":11}}}

data: [DONE]

"""
"""A minimal stream."""

HELLO: Final = Turn(
    (Text("Hello"),), FinishReason.STOP, "completed", Usage(input=9, output=2, total=11),
    id="v1_1", model="gemini-3-flash",
)  # fmt: skip
DOCUMENT: Final = {
    "id": "v1_1", "object": "interaction", "model": "gemini-3-flash", "status": "completed",
    "created": "2023-11-14T22:13:20Z", "updated": "2023-11-14T22:13:20Z",
    "usage": {"total_input_tokens": 9, "total_output_tokens": 2, "total_tokens": 11},
    "steps": [{"type": "model_output", "content": [{"type": "text", "text": "Hello"}]}],
}  # fmt: skip
ERROR: Final = (
    b'event: error\ndata: {"event_type":"error","error":{"code":"internal","message":"No."}}\n\n'
)
PATH: Final = "/v1beta/interactions"


def make_request(
    path: str = PATH, method: str = "POST", query: str = "", **body: object
) -> Request:
    return Request(method, path, query, (), json.dumps(body).encode())


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


STREAM: Final = make_request(model="gemini-3-flash", stream=True)
WHOLE: Final = make_request(model="gemini-3-flash")


def encode(turn: Turn, request: Request = STREAM) -> DialectResponse:
    return DIALECT.encode_response(request, (turn,), SPLIT_CONTEXT)


def events(response: DialectResponse) -> list[dict[str, Any]]:
    """The documents of a stream, without the `[DONE]`."""
    parsed_events = (parse_event(message) for message in response.framed_messages)
    return [json.loads(item.data or b"") for item in parsed_events if item.event_type]


def document(turn: Turn) -> dict[str, Any]:
    document_fields: dict[str, Any] = json.loads(encode(turn, WHOLE).framed_messages[0])
    return document_fields


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
        (stream_response(TEXT), True, "[DONE]"),
        (stream_response(TEXT_WITHOUT_DONE), True, "interaction completed"),
        (stream_response(event("interaction.created") + ERROR), True, "in-band error: No."),
        (
            stream_response(event("step.stop", index=0)), False,
            "no [DONE], interaction not completed",
        ),
        (stream_response(b""), False, "empty stream"),
        (whole_response(b'{"id":"i"}'), True, "JSON body"),
        (whole_response(b"", 404), True, "HTTP 404"),
    ],
    ids=["the usual end", "no DONE", "error", "cut", "nothing", "a document", "an HTTP error"],
)  # fmt: skip
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


def ended(*parts: Part, finish: FinishReason = FinishReason.STOP, raw: str = "completed") -> Turn:
    return replace(HELLO, parts=parts, finish=finish, finish_raw=raw)


def output(*content: Any) -> dict[str, Any]:
    return {"type": "model_output", "content": [*content]}


ANNOTATIONS: Final[Json] = [
    {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 7},
    {"type": "file_citation", "document_uri": "f", "file_name": "F", "source": "said",
     "page_number": 2, "start_index": 2, "end_index": 6},
    {"type": "place_citation", "url": "https://p", "name": "P"},
]  # fmt: skip
CITATIONS: Final = (
    Citation("https://a", "A", span=(0, 5)),
    Citation("f", "F", "said", (2, 4), typed("file_citation", page_number=2)),
    Citation("https://p", "P", metadata=typed("place_citation")),
)
SEARCH_CALL: Final = {"type": "google_search_call", "id": "a", "signature": "s"}
MCP_CALL: Final = {"type": "mcp_server_tool_call", "id": "c", "name": "look", "server_name": "w"}
MCP_RESULT: Final = {"type": "mcp_server_tool_result", "call_id": "c", "name": "look"}
CODE_RESULT: Final = {"type": "code_execution_result", "call_id": "a", "signature": "s"}


@each_row(
    ("part", "step", "streamed"),
    [
        (
            Text("Grüße", CITATIONS),
            output({"type": "text", "text": "Grüße", "annotations": ANNOTATIONS}),
            [
                {"type": "model_output"},
                {"type": "text", "text": "Grü"}, {"type": "text", "text": "ße"},
                {"type": "text_annotation_delta", "annotations": ANNOTATIONS},
            ],
        ),
        (
            Reasoning("Hm, so", "c2ln"),
            {"type": "thought", "summary": [{"type": "text", "text": "Hm, so"}],
             "signature": "c2ln"},
            [
                {"type": "thought"},
                {"type": "thought_summary", "content": {"type": "text", "text": "Hm,"}},
                {"type": "thought_summary", "content": {"type": "text", "text": " so"}},
                {"type": "thought_signature", "signature": "c2ln"},
            ],
        ),
        (
            ToolCall("a", "f", '{"x":1}'),
            {"type": "function_call", "id": "a", "name": "f", "arguments": {"x": 1}},
            [
                {"type": "function_call", "id": "a", "name": "f", "arguments": {}},
                {"type": "arguments_delta", "arguments": '{"x'},
                {"type": "arguments_delta", "arguments": '":1}'},
            ],
        ),
        (
            ToolCall("a", "google_search", '{"queries":["q"]}',
                     typed("google_search_call", signature="s")),
            {**SEARCH_CALL, "arguments": {"queries": ["q"]}},
            [
                {**SEARCH_CALL, "arguments": {}},
                {"type": "google_search_call", "arguments": {"queries": ["q"]}},
            ],
        ),
        (
            ToolCall("c", "look", "{}", typed("mcp_server_tool_call", server_name="w")),
            {**MCP_CALL, "arguments": {}},
            [
                {**MCP_CALL, "arguments": {}},
                {"type": "mcp_server_tool_call", "arguments": {}},
            ],
        ),
        (
            ToolResult("a", '[{"x":1}]', "google_search", metadata=typed("google_search_result")),
            {"type": "google_search_result", "call_id": "a", "result": [{"x": 1}]},
            [
                {"type": "google_search_result", "call_id": "a"},
                {"type": "google_search_result", "result": [{"x": 1}]},
            ],
        ),
        (
            ToolResult("a", "[1]", "code_execution", failed=True,
                       metadata=typed("code_execution_result", signature="s")),
            {**CODE_RESULT, "result": "[1]", "is_error": True},
            [
                CODE_RESULT,
                {"type": "code_execution_result", "result": "[1]", "is_error": True},
            ],
        ),
        (
            ToolResult("c", "[cut", "look", metadata=typed("mcp_server_tool_result")),
            {**MCP_RESULT, "result": "[cut"},
            [MCP_RESULT, {"type": "mcp_server_tool_result", "result": "[cut"}],
        ),
        *(
            (media, output(wire), [{"type": "model_output"}, wire])
            for media, wire in (
                (
                    Media("image/png", base64="AAA="),
                    {"type": "image", "mime_type": "image/png", "data": "AAA="},
                ),
                (
                    Media("audio/l16", base64="AAE=", metadata=(("sample_rate", 24000),)),
                    {"type": "audio", "mime_type": "audio/l16", "data": "AAE=",
                     "sample_rate": 24000},
                ),
                (
                    Media("application/pdf", url="https://f"),
                    {"type": "document", "mime_type": "application/pdf", "uri": "https://f"},
                ),
            )
        ),
    ],
)  # fmt: skip
def test_parts_and_steps_convert_in_both_directions(
    part: Part, step: dict[str, Any], streamed: list[dict[str, Any]]
) -> None:
    turn = ended(part)
    if step["type"] == "function_call":
        turn = ended(part, finish=FinishReason.TOOL_CALLS, raw="requires_action")
    whole, stream = encode(turn, WHOLE), encode(turn)
    starts_and_deltas = [item.get("step") or item.get("delta") for item in events(stream)]

    assert document(turn)["steps"] == [step]
    assert [*filter(None, starts_and_deltas)] == streamed
    assert DIALECT.decode_response(whole) == DIALECT.decode_response(stream) == (turn,)


def test_turns_and_interactions_convert_in_both_directions() -> None:
    assert b"".join(encode(HELLO).framed_messages) == TEXT
    assert DIALECT.decode_response(stream_response(TEXT)) == (HELLO,)
    assert document(HELLO) == DOCUMENT
    assert DIALECT.decode_response(whole_response(json.dumps(DOCUMENT).encode())) == (HELLO,)


def test_an_error_in_a_turn_is_the_last_event_in_both_directions() -> None:
    failing = replace(HELLO, finish=None, finish_raw="", failure=Failure("No.", code="internal"))
    body = TEXT[: TEXT.index(b"event: interaction.completed")] + ERROR

    assert b"".join(encode(failing).framed_messages) == body
    assert DIALECT.decode_response(stream_response(body)) == (replace(failing, usage=None),)


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
def test_statuses_and_finishes_convert_in_both_directions(
    status: str, finish: FinishReason
) -> None:
    completed = event("interaction.completed", interaction={"status": status})
    (turn,) = DIALECT.decode_response(stream_response(completed))
    assert (turn.finish, turn.finish_raw) == (finish, status)
    assert document(Turn((), finish, status))["status"] == status


# What Google sends and the encoder does not.


def test_an_old_document_has_outputs_and_the_input_may_be_a_step() -> None:
    user = {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]}
    with_input = {**DOCUMENT, "steps": [user, *DOCUMENT["steps"]]}
    old = {**DOCUMENT, "steps": [], "outputs": [{"type": "text", "text": "Hello"}]}
    for item in (with_input, old):
        assert DIALECT.decode_response(whole_response(json.dumps(item).encode())) == (HELLO,)


def test_fields_of_a_step_may_be_in_its_start_or_in_its_deltas() -> None:
    summary = {"type": "text", "text": "mm"}
    assert parts_of(
        step_start(0, "thought", summary=[summary, summary], signature="t"),
        step_start(1, "function_call", id="b", name="g", arguments={"y": 2}),
        step_start(2, "function_call", id="c", name="h"),
        step_start(3, "google_search_call", id="a", signature="", arguments={"q": 1}),
        step_start(4, "code_execution_result", call_id="a"),
        step_delta(4, "code_execution_result", result="no", is_error=True, signature="s"),
    ) == (
        Reasoning("mmmm", "t"),
        ToolCall("b", "g", '{"y":2}'),
        ToolCall("c", "h", "{}"),
        ToolCall("a", "google_search", '{"q":1}', typed("google_search_call")),
        ToolResult(
            "a", "no", "code_execution", failed=True,
            metadata=typed("code_execution_result", signature="s"),
        ),
    )  # fmt: skip


def test_sound_comes_in_pieces_and_a_media_type_may_be_absent() -> None:
    assert parts_of(
        step_delta(0, "audio", data="AAE=", mime_type="audio/l16", sample_rate=24000),
        step_delta(0, "audio", data="AgM="),
        step_delta(0, "video", uri="https://v"),
    ) == (
        Media("audio/l16", base64="AAECAw==", metadata=(("sample_rate", 24000),)),
        Media("video/*", url="https://v"),
    )


def test_an_interaction_that_runs_has_not_finished() -> None:
    update = event("interaction.status_update", interaction_id="i", status="in_progress")
    (turn,) = DIALECT.decode_response(stream_response(update))
    assert (turn.id, turn.finish, turn.finish_raw) == ("i", None, "")


def test_a_document_has_its_error_in_a_list() -> None:
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


KINDS = st.sampled_from([
    *("text", "thought", "thought_summary", "model_output", "arguments_delta", "audio"),
    *("function_call", "x_call", "x_result", "text_annotation_delta"),
])  # fmt: skip
KEYS = st.sampled_from([
    *("type", "text", "content", "summary", "signature", "arguments", "annotations", "result"),
    *("data", "uri", "id", "name", "start_index", "end_index", "url", "total_tokens", "\ud800"),
])  # fmt: skip
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | KINDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)
STEPS = st.fixed_dictionaries(
    {"type": KINDS}, optional=dict.fromkeys(["text", "content"], JSON_VALUES)
)
EVENTS = st.fixed_dictionaries(
    {"event_type": st.sampled_from(["step.start", "step.delta", "interaction.completed"])},
    optional={
        "index": JSON_VALUES,
        "step": STEPS | JSON_VALUES,
        "delta": STEPS | JSON_VALUES,
        "error": JSON_VALUES,
        "interaction": st.dictionaries(st.sampled_from(["steps", "usage", "status"]), JSON_VALUES),
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


# What only the encoder does.


def test_arguments_that_are_no_object_can_be_streamed_but_not_in_a_document() -> None:
    turn = Turn((ToolCall("a", "f", '{"x'),))

    assert DIALECT.decode_response(encode(turn))[0].parts == turn.parts
    with pytest.raises(NotRepresentable, match="the arguments of f are not"):
        encode(turn, WHOLE)
    with pytest.raises(NotRepresentable, match="media"):
        encode(Turn((Media("audio/wav", transcript="Hi"),)))


def test_tools_of_another_provider_are_encoded_as_googles_or_as_mcp_tools() -> None:
    turn = Turn(
        (
            ToolCall("a", "google_search", '{"queries":["q"]}'),
            ToolResult("a", '[{"x":1}]', "google_search"),
            ToolCall("b", "code_execution", '{"code":"1"}'),
            ToolResult("b", "[1]", "code_execution"),
            ToolCall("c", "look", "{}"), ToolResult("c", "found", "look"),
        )
    )  # fmt: skip
    interaction = document(turn)

    assert interaction["status"] == "completed"
    assert interaction["steps"] == [
        {"type": "google_search_call", "id": "a", "arguments": {"queries": ["q"]}},
        {"type": "google_search_result", "call_id": "a", "result": [{"x": 1}]},
        {"type": "code_execution_call", "id": "b", "arguments": {"code": "1"}},
        {"type": "code_execution_result", "call_id": "b", "result": "[1]"},
        {"type": "mcp_server_tool_call", "id": "c", "name": "look", "server_name": "look",
         "arguments": {}},
        {"type": "mcp_server_tool_result", "call_id": "c", "name": "look", "result": "found"},
    ]  # fmt: skip


def test_equal_and_empty_citations_are_left_out_and_the_quote_of_a_page() -> None:
    page = Citation("https://a", "A", "said", (0, 5))
    [step] = document(Turn((Text("Grüße!", (page, page, Citation())),)))["steps"]
    annotation = {
        "type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 7,
    }  # fmt: skip

    assert step["content"] == [{"type": "text", "text": "Grüße!", "annotations": [annotation]}]


def test_an_ended_interaction_has_a_final_status() -> None:
    assert document(Turn((), FinishReason.OTHER, "queued"))["status"] == "cancelled"


def test_an_agent_is_named_in_place_of_a_model() -> None:
    request = make_request(agent="research")
    interaction = json.loads(encode(Turn((Text("Hi"),)), request).framed_messages[0])

    assert (interaction["agent"], "model" in interaction) == ("research", False)


def test_a_fetched_interaction_has_the_requested_id() -> None:
    get_request = Request("GET", f"{PATH}/v1_7", "stream=true", (), b"")

    assert (
        DIALECT.decode_response(encode(Turn((Text("Hi"),), id="other"), get_request))[0].id
        == "v1_7"
    )


def test_cancel_and_delete_have_auxiliary_responses() -> None:
    cancel = Request("POST", f"{PATH}/v1_7/cancel", "", (), b"")
    delete = Request("DELETE", f"{PATH}/v1_7", "", (), b"")

    cancelled, deleted = (
        DIALECT.auxiliary_response(item, ENCODE_CONTEXT) for item in (cancel, delete)
    )

    assert cancelled is not None
    assert deleted is not None
    assert json.loads(cancelled.framed_messages[0])["status"] == "cancelled"
    assert json.loads(cancelled.framed_messages[0])["id"] == "v1_7"
    assert json.loads(deleted.framed_messages[0]) == {}
    assert DIALECT.auxiliary_response(STREAM, ENCODE_CONTEXT) is None


def test_an_error_has_a_default_code_and_message() -> None:
    *_, error = events(encode(Turn((), failure=Failure("", "UNAVAILABLE", "503"))))
    message = "The model is overloaded. Please try again later."
    assert error["error"] == {"code": "UNAVAILABLE", "message": message}
    *_, error = events(encode(Turn((), failure=Failure("No."))))
    assert error["error"] == {"code": "internal", "message": "No."}


def test_an_error_in_place_of_an_answer_has_its_status() -> None:
    response = encode(Turn((), failure=Failure("Busy.", "UNAVAILABLE")), WHOLE)

    assert response.head.status == 503
    assert json.loads(response.framed_messages[0]) == {
        "error": {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}
    }
    assert DIALECT.error_response(404, Failure("No."), ENCODE_CONTEXT).head.status == 404


def test_the_sample_request_asks_for_an_interaction() -> None:
    for stream in (True, False):
        request = DIALECT.sample_request("gemini-3-flash", stream=stream)
        assert DIALECT.matches(request)
        assert (DIALECT.model(request), DIALECT.streams(request)) == ("gemini-3-flash", stream)


NAMES = st.sampled_from([
    *("type", "page_number", "place_id", "signature", "server_name", "search_type"),
    *("sample_rate", "agent", "previous_interaction_id", "service_tier"),
])  # fmt: skip
VALUES: st.SearchStrategy[Json] = st.sampled_from([
    *("google_search_call", "google_search_result", "code_execution_call", "mcp_server_tool"),
    *("code_execution_result", "mcp_server_tool_call", "function_result", "file_citation"),
    *("place_citation", "function_call", "c2ln", 1, True, {}, ["a"]),
])  # fmt: skip
METADATA: st.SearchStrategy[Metadata] = st.dictionaries(NAMES, VALUES, max_size=3).map(
    lambda items: tuple(items.items())
)
SHORT = st.sampled_from(["", "a", "ü 🌊 b"])
SPANS = st.none() | st.tuples(st.integers(0, 5), st.integers(0, 9))
TOOL_NAMES = st.sampled_from(["", "f", "google_search", "code_execution"])
CITATION_LISTS = st.lists(st.builds(Citation, SHORT, SHORT, SHORT, SPANS, METADATA), max_size=3)
RESULT_CONTENTS = st.sampled_from(["", "a", "{}", "[1]", "[1, 2]", '{"a":"ü"}', "[", "{"])
PARTS = (
    st.builds(Text, SHORT, CITATION_LISTS.map(tuple), METADATA)
    | st.builds(Reasoning, SHORT, st.sampled_from([None, "c2ln", "§"]), metadata=METADATA)
    | st.builds(ToolCall, SHORT, TOOL_NAMES, st.sampled_from(["", '{"id": 1}']), METADATA)
    | st.builds(ToolResult, SHORT, RESULT_CONTENTS, TOOL_NAMES, st.booleans(), METADATA)
    | st.builds(
        Media, st.sampled_from(["", "image/png", "audio/wav"]), SHORT, SHORT, metadata=METADATA
    )
)
TURNS = st.builds(
    Turn,
    st.lists(PARTS, max_size=5).map(tuple),
    finish=st.none() | st.sampled_from(FinishReason),
    finish_raw=st.sampled_from(["", "completed", "queued", "in_progress", "budget_exceeded"]),
    failure=st.none() | st.just(Failure("No.", "INTERNAL", "500")),
    metadata=METADATA,
)


@settings(max_examples=quick_or_thorough(40, 200))
@given(TURNS, st.sampled_from([STREAM, WHOLE, make_request(agent="a", stream=True)]))
def test_any_google_metadata_decodes_as_it_was_converted(turn: Turn, request: Request) -> None:
    converted = DIALECT.representable_turns(request, (turn,), ENCODE_CONTEXT)
    response = encode(turn, request)

    assert DIALECT.decode_response(response) == converted.turns
    assert DIALECT.representable_turns(
        request, converted.turns, ENCODE_CONTEXT
    ) == ConvertedResponseTurns(converted.turns, ())
    assert framing.split_messages(response.codec_name, b"".join(response.framed_messages)) == list(
        response.framed_messages
    )
    assert DIALECT.completeness(response).is_complete


KNOWN_EVENTS = {
    *("interaction.created", "interaction.status_update", "interaction.completed"),
    *("step.start", "step.delta", "step.stop"),
}


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_recorded_interaction_is_complete_decoded_and_round_trips() -> None:
    rows = [row for row in corpus.rows() if row.wire == "gemini.interactions.payload"]
    assert len(rows) == 8
    for row in rows:
        assert dialects.dialect_of_request(row.request).name == DIALECT.name, row.id
        response = stream_response(with_framing(row).body)
        recorded = events(response)
        assert {item["event_type"] for item in recorded} <= KNOWN_EVENTS, row.id
        assert DIALECT.completeness(response).is_complete, row.id
        (turn,) = DIALECT.decode_response(response)
        deltas = [item.get("delta", {}) for item in recorded]
        texts = [delta["text"] for delta in deltas if delta.get("type") == "text"]
        assert turn.text == "".join(texts), row.id
        assert turn.finish in (FinishReason.STOP, FinishReason.TOOL_CALLS), row.id
        assert turn.usage is not None, row.id
        converted = DIALECT.representable_turns(STREAM, (turn,), ENCODE_CONTEXT)
        assert converted.losses == (), row.id
        assert DIALECT.decode_response(encode(turn)) == converted.turns, row.id
        turn_with_id = replace(turn, id=turn.id or converted.turns[0].id)  # not all were recorded
        assert converted.turns == (turn_with_id,), row.id
