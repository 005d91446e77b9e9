"""`gemini-interactions` encoding, beyond what holds for every dialect."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from dialect_manners import ENCODE_CONTEXT, json_request
from llm_proxy import framing
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
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)
from thoroughness import quick_or_thorough

DIALECT: Final = GeminiInteractions()
PATH: Final = "/v1beta/interactions"
STREAM: Final = json_request(PATH, model="gemini-3-flash", input="", stream=True)
WHOLE: Final = json_request(PATH, model="gemini-3-flash", input="")
CREATED: Final = "2023-11-14T22:13:20Z"


def encode(turn: Turn, request: Request = STREAM) -> DialectResponse:
    return DIALECT.encode_response(request, (turn,), ENCODE_CONTEXT)


def events(response: DialectResponse) -> list[dict[str, Any]]:
    """The documents of a stream, without the `[DONE]`."""
    parsed_events = (parse_event(message) for message in response.framed_messages)
    return [json.loads(item.data or b"") for item in parsed_events if item.event_type]


def document(turn: Turn) -> dict[str, Any]:
    document_fields: dict[str, Any] = json.loads(encode(turn, WHOLE).framed_messages[0])
    return document_fields


def step_starts_and_deltas(turn: Turn) -> list[dict[str, Any]]:
    """The step starts and deltas of the stream."""
    stream_events = events(encode(turn))
    return [
        item.get("step") or item["delta"]
        for item in stream_events
        if "step" in item or "delta" in item
    ]


def test_an_interaction_is_streamed_in_named_events_up_to_done() -> None:
    turn = Turn((Text("Hello"),), usage=Usage(input=9, output=2, total=11), id="v1_1")
    response = encode(turn)

    identity = {"id": "v1_1", "object": "interaction", "model": "gemini-3-flash"}
    timestamps = {"created": CREATED, "updated": CREATED}
    usage = {"total_input_tokens": 9, "total_output_tokens": 2, "total_tokens": 11}
    completed = {**identity, "status": "completed", **timestamps, "usage": usage}
    assert events(response) == [
        {
            "event_type": "interaction.created",
            "interaction": {**identity, "status": "in_progress", **timestamps},
        },
        {
            "event_type": "interaction.status_update",
            "interaction_id": "v1_1",
            "status": "in_progress",
        },
        {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "Hello"}},
        {"event_type": "step.stop", "index": 0},
        {"event_type": "interaction.completed", "interaction": completed},
    ]
    event_names = [parse_event(message).event_type for message in response.framed_messages]
    assert event_names == [*(event["event_type"] for event in events(response)), ""]
    assert response.framed_messages[-1] == b"data: [DONE]\n\n"


def test_a_document_holds_the_same_interaction_with_its_steps() -> None:
    turn = Turn((Reasoning("mm", "c2ln"), Text("Hi")), id="v1_1")

    interaction = document(turn)

    assert interaction == {
        "id": "v1_1",
        "object": "interaction",
        "model": "gemini-3-flash",
        "status": "completed",
        "created": CREATED,
        "updated": CREATED,
        "steps": [
            {"type": "thought", "summary": [{"type": "text", "text": "mm"}], "signature": "c2ln"},
            {"type": "model_output", "content": [{"type": "text", "text": "Hi"}]},
        ],
    }


def test_each_part_is_a_step_with_start_deltas_and_stop() -> None:
    turn = Turn(
        (
            Reasoning("I think", "c2ln"),
            ToolCall("a", "f", '{"x": 1}'),
            Media("image/png", base64="AAA="),
            Media("application/pdf", url="https://f"),
        )
    )

    assert step_starts_and_deltas(turn) == [
        {"type": "thought"},
        {"type": "thought_summary", "content": {"type": "text", "text": "I"}},
        {"type": "thought_summary", "content": {"type": "text", "text": " think"}},
        {"type": "thought_signature", "signature": "c2ln"},
        {"type": "function_call", "id": "a", "name": "f", "arguments": {}},
        {"type": "arguments_delta", "arguments": '{"x":'},
        {"type": "arguments_delta", "arguments": " 1}"},
        {"type": "model_output"},
        {"type": "image", "mime_type": "image/png", "data": "AAA="},
        {"type": "model_output"},
        {"type": "document", "mime_type": "application/pdf", "uri": "https://f"},
    ]
    assert events(encode(turn))[-1]["interaction"]["status"] == "requires_action"


def test_arguments_that_are_no_object_can_be_streamed_but_not_in_a_document() -> None:
    turn = Turn((ToolCall("a", "f", '{"x'),))

    assert DIALECT.decode_response(encode(turn))[0].parts == turn.parts
    with pytest.raises(NotRepresentable, match="the arguments of a call"):
        encode(turn, WHOLE)
    with pytest.raises(NotRepresentable, match="media"):
        encode(Turn((Media("audio/wav", transcript="Hi"),)))


def test_provider_tools_have_their_own_step_types_or_are_mcp_steps() -> None:
    turn = Turn(
        (
            ToolCall("a", "google_search", '{"queries":["q"]}'),
            ToolResult("a", '[{"x":1}]', "google_search"),
            ToolCall("b", "code_execution", '{"code":"1"}'),
            ToolResult("b", "[1]", "code_execution", failed=True),
            ToolCall("c", "look", "{}"),
            ToolResult("c", "found", "look"),
            ToolResult("c", "[cut", "look"),
        )
    )
    server = {"type": "mcp_server_tool_call", "id": "c", "name": "look", "server_name": "look"}

    assert step_starts_and_deltas(turn) == [
        {"type": "google_search_call", "id": "a", "arguments": {}},
        {"type": "google_search_call", "arguments": {"queries": ["q"]}},
        {"type": "google_search_result", "call_id": "a"},
        {"type": "google_search_result", "result": [{"x": 1}]},
        {"type": "code_execution_call", "id": "b", "arguments": {}},
        {"type": "code_execution_call", "arguments": {"code": "1"}},
        {"type": "code_execution_result", "call_id": "b"},
        {"type": "code_execution_result", "result": "[1]", "is_error": True},
        {**server, "arguments": {}},
        {"type": "mcp_server_tool_call", "arguments": {}},
        {"type": "mcp_server_tool_result", "call_id": "c", "name": "look"},
        {"type": "mcp_server_tool_result", "result": "found"},
        {"type": "mcp_server_tool_result", "call_id": "c", "name": "look"},
        {"type": "mcp_server_tool_result", "result": "[cut"},
    ]
    assert DIALECT.decode_response(encode(turn))[0].finish is FinishReason.STOP


def test_citations_become_annotations_with_byte_offsets() -> None:
    citations = (
        Citation("https://a", "A", "said", (0, 5)),
        Citation("f", "F", "said", (2, 4), (("type", "file_citation"), ("page_number", 2))),
        Citation("https://p", "P", metadata=(("type", "place_citation"),)),
        Citation("https://a", "A", "said", (0, 5)),
        Citation(),
    )
    expected_annotations = [
        {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0,
         "end_index": 7},
        {"type": "file_citation", "document_uri": "f", "file_name": "F", "source": "said",
         "page_number": 2, "start_index": 2, "end_index": 6},
        {"type": "place_citation", "url": "https://p", "name": "P"},
    ]  # fmt: skip
    turn = Turn((Text("Grüße!", citations),))

    assert step_starts_and_deltas(turn)[-1] == {
        "type": "text_annotation_delta",
        "annotations": expected_annotations,
    }
    [step] = document(turn)["steps"]
    assert step["content"] == [
        {"type": "text", "text": "Grüße!", "annotations": expected_annotations}
    ]


@each_row(
    ("finish", "status"),
    [
        (FinishReason.STOP, "completed"),
        (FinishReason.STOP_SEQUENCE, "completed"),
        (FinishReason.TOOL_CALLS, "requires_action"),
        (FinishReason.LENGTH, "incomplete"),
        (FinishReason.PAUSED, "requires_continuation"),
        (FinishReason.ERROR, "failed"),
        (FinishReason.CONTENT_FILTER, "completed"),
        (FinishReason.OTHER, "cancelled"),
    ],
)
def test_each_finish_has_a_status(finish: FinishReason, status: str) -> None:
    assert document(Turn((), finish))["status"] == status


def test_an_ended_interaction_has_a_final_status() -> None:
    assert document(Turn((), FinishReason.OTHER, "queued"))["status"] == "cancelled"


def test_an_agent_is_named_in_place_of_a_model() -> None:
    request = json_request(PATH, agent="research", input="")
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


def test_an_error_amid_a_stream_is_an_event_and_ends_it() -> None:
    failure = Failure("Busy.", "UNAVAILABLE", "503")
    response = encode(Turn((Text("Hel"),), usage=Usage(input=9), failure=failure))

    error = {"code": "UNAVAILABLE", "message": "Busy."}
    assert events(response)[-1] == {"event_type": "error", "error": error}
    assert parse_event(response.framed_messages[-1]).event_type == "error"
    (turn,) = DIALECT.decode_response(response)
    assert (turn.text, turn.finish, turn.usage) == ("Hel", None, None)
    assert turn.failure == Failure("Busy.", code="UNAVAILABLE")


def test_an_error_without_a_message_has_the_default_of_its_status() -> None:
    response = encode(Turn((), failure=Failure("", "UNAVAILABLE")))

    message = "The model is overloaded. Please try again later."
    assert events(response)[-1]["error"] == {"code": "UNAVAILABLE", "message": message}


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


NAMES = st.sampled_from(
    [
        *("type", "page_number", "place_id", "signature", "server_name", "search_type"),
        *("sample_rate", "agent", "previous_interaction_id", "service_tier"),
    ]
)
VALUES: st.SearchStrategy[Json] = st.sampled_from(
    [
        *("google_search_call", "google_search_result", "code_execution_call", "mcp_server_tool"),
        *("code_execution_result", "mcp_server_tool_call", "function_result", "file_citation"),
        *("place_citation", "function_call", "c2ln", 1, True, {}, ["a"]),
    ]
)
METADATA: st.SearchStrategy[Metadata] = st.dictionaries(NAMES, VALUES, max_size=3).map(
    lambda items: tuple(items.items())
)
SHORT = st.sampled_from(["", "a", "ü 🌊 b"])
SPANS = st.none() | st.tuples(st.integers(0, 5), st.integers(0, 9))
TOOL_NAMES = st.sampled_from(["", "f", "google_search", "code_execution"])
CITATIONS = st.lists(st.builds(Citation, SHORT, SHORT, SHORT, SPANS, METADATA), max_size=3)
RESULT_CONTENTS = st.sampled_from(["", "a", "{}", "[1]", "[1, 2]", '{"a":"ü"}', "[", "{"])
PARTS = (
    st.builds(Text, SHORT, CITATIONS.map(tuple), METADATA)
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
@given(TURNS, st.sampled_from([STREAM, WHOLE, json_request(PATH, agent="a", stream=True)]))
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


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_recorded_interaction_round_trips() -> None:
    rows = [row for row in corpus.rows() if row.wire == "gemini.interactions.payload"]
    for row in rows:
        messages = [b"data: " + line + b"\n\n" for line in row.body.splitlines()]
        (turn,) = DIALECT.decode_response(DialectResponse(row.head, "sse", messages))
        converted = DIALECT.representable_turns(STREAM, (turn,), ENCODE_CONTEXT)
        assert converted.losses == (), row.id
        assert DIALECT.decode_response(encode(turn)) == converted.turns, row.id
        turn_with_id = replace(
            turn, id=turn.id or converted.turns[0].id
        )  # some were recorded without an id
        assert converted.turns == (turn_with_id,), row.id
    assert len(rows) == 8
