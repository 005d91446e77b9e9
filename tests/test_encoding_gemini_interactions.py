"""How `gemini-interactions` is spoken, beyond what holds for every dialect."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpus
from dialect_manners import DELIVERY, asking
from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.dialects.google.interactions import GeminiInteractions
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Citation,
    Failure,
    Finish,
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

DIALECT: Final = GeminiInteractions()
PATH: Final = "/v1beta/interactions"
STREAM: Final = asking(PATH, model="gemini-3-flash", input="", stream=True)
WHOLE: Final = asking(PATH, model="gemini-3-flash", input="")
CREATED: Final = "2023-11-14T22:13:20Z"


def told(turn: Turn, request: Request = STREAM) -> DialectResponse:
    return DIALECT.encode(request, (turn,), DELIVERY)


def events(response: DialectResponse) -> list[dict[str, Any]]:
    """The documents of a stream, without the `[DONE]`."""
    said = (parse_event(message) for message in response.messages)
    return [json.loads(item.data or b"") for item in said if item.encode_event]


def document(turn: Turn) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(told(turn, WHOLE).messages[0])
    return said


def grown(turn: Turn) -> list[dict[str, Any]]:
    """The starts and deltas of the steps of a stream."""
    said = events(told(turn))
    return [item.get("step") or item["delta"] for item in said if "step" in item or "delta" in item]


def test_an_interaction_is_told_in_named_events_up_to_done() -> None:
    turn = Turn((Text("Hello"),), usage=Usage(input=9, output=2, total=11), id="v1_1")
    response = told(turn)

    about = {"id": "v1_1", "object": "interaction", "model": "gemini-3-flash"}
    moments = {"created": CREATED, "updated": CREATED}
    usage = {"total_input_tokens": 9, "total_output_tokens": 2, "total_tokens": 11}
    ended = {**about, "status": "completed", **moments, "usage": usage}
    assert events(response) == [
        {
            "event_type": "interaction.created",
            "interaction": {**about, "status": "in_progress", **moments},
        },
        {
            "event_type": "interaction.status_update",
            "interaction_id": "v1_1",
            "status": "in_progress",
        },
        {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "Hello"}},
        {"event_type": "step.stop", "index": 0},
        {"event_type": "interaction.completed", "interaction": ended},
    ]
    named = [parse_event(message).encode_event for message in response.messages]
    assert named == [*(event["event_type"] for event in events(response)), ""]
    assert response.messages[-1] == b"data: [DONE]\n\n"


def test_a_document_holds_the_same_interaction_with_its_steps() -> None:
    turn = Turn((Reasoning("mm", "c2ln"), Text("Hi")), id="v1_1")

    said = document(turn)

    assert said == {
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


def test_each_part_is_a_step_that_starts_grows_and_stops() -> None:
    turn = Turn(
        (
            Reasoning("I think", "c2ln"),
            ToolCall("a", "f", '{"x": 1}'),
            Media("image/png", base64="AAA="),
            Media("application/pdf", url="https://f"),
        )
    )

    assert grown(turn) == [
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
    assert events(told(turn))[-1]["interaction"]["status"] == "requires_action"


def test_arguments_that_are_no_object_can_be_streamed_but_not_told_whole() -> None:
    turn = Turn((ToolCall("a", "f", '{"x'),))

    assert DIALECT.decode(told(turn))[0].parts == turn.parts
    with pytest.raises(NotRepresentable, match="the arguments of a call"):
        told(turn, WHOLE)
    with pytest.raises(NotRepresentable, match="media"):
        told(Turn((Media("audio/wav", transcript="Hi"),)))


def test_the_tools_of_a_provider_have_steps_of_their_kind_or_are_of_some_server() -> None:
    turn = Turn(
        (
            ToolCall("a", "google_search", '{"queries":["q"]}'),
            ToolResult("a", '[{"x":1}]', "google_search"),
            ToolCall("b", "code_execution", '{"code":"1"}'),
            ToolResult("b", "[1]", "code_execution", failed=True),
            ToolCall("c", "look", "{}"),
            ToolResult("c", "found", "look"),
        )
    )
    server = {"type": "mcp_server_tool_call", "id": "c", "name": "look", "server_name": "look"}

    assert grown(turn) == [
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
    ]
    assert DIALECT.decode(told(turn))[0].finish is Finish.STOP


def test_sources_are_annotations_in_bytes_of_their_text() -> None:
    cited = (
        Citation("https://a", "A", "said", (0, 5)),
        Citation("f", "F", "said", (2, 4), (("type", "file_citation"), ("page_number", 2))),
        Citation("https://p", "P", metadata=(("type", "place_citation"),)),
        Citation("https://a", "A", "said", (0, 5)),
        Citation(),
    )
    said = [
        {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0,
         "end_index": 7},
        {"type": "file_citation", "document_uri": "f", "file_name": "F", "source": "said",
         "page_number": 2, "start_index": 2, "end_index": 6},
        {"type": "place_citation", "url": "https://p", "name": "P"},
    ]  # fmt: skip
    turn = Turn((Text("Grüße!", cited),))

    assert grown(turn)[-1] == {"type": "text_annotation_delta", "annotations": said}
    [step] = document(turn)["steps"]
    assert step["content"] == [{"type": "text", "text": "Grüße!", "annotations": said}]


@pytest.mark.parametrize(
    ("finish", "status"),
    [
        (Finish.STOP, "completed"),
        (Finish.STOP_SEQUENCE, "completed"),
        (Finish.TOOL_CALLS, "requires_action"),
        (Finish.LENGTH, "incomplete"),
        (Finish.PAUSED, "requires_continuation"),
        (Finish.ERROR, "failed"),
        (Finish.CONTENT_FILTER, "completed"),
        (Finish.OTHER, "cancelled"),
    ],
)
def test_each_finish_has_a_status(finish: Finish, status: str) -> None:
    assert document(Turn((), finish))["status"] == status


def test_an_interaction_that_ended_is_not_said_to_run() -> None:
    assert document(Turn((), Finish.OTHER, "queued"))["status"] == "cancelled"


def test_an_agent_is_named_in_place_of_a_model() -> None:
    asked = asking(PATH, agent="research", input="")
    said = json.loads(told(Turn((Text("Hi"),)), asked).messages[0])

    assert (said["agent"], "model" in said) == ("research", False)


def test_an_interaction_is_told_again_under_the_id_it_is_asked_by() -> None:
    again = Request("GET", f"{PATH}/v1_7", "stream=true", (), b"")

    assert DIALECT.decode(told(Turn((Text("Hi"),), id="other"), again))[0].id == "v1_7"


def test_what_is_cancelled_or_deleted_says_nothing_more() -> None:
    cancel = Request("POST", f"{PATH}/v1_7/cancel", "", (), b"")
    delete = Request("DELETE", f"{PATH}/v1_7", "", (), b"")

    cancelled, deleted = (DIALECT.auxiliary_response(item, DELIVERY) for item in (cancel, delete))

    assert cancelled is not None
    assert deleted is not None
    assert json.loads(cancelled.messages[0])["status"] == "cancelled"
    assert json.loads(cancelled.messages[0])["id"] == "v1_7"
    assert json.loads(deleted.messages[0]) == {}
    assert DIALECT.auxiliary_response(STREAM, DELIVERY) is None


def test_an_error_amid_a_stream_is_an_event_and_ends_it() -> None:
    failure = Failure("Busy.", "UNAVAILABLE", "503")
    response = told(Turn((Text("Hel"),), usage=Usage(input=9), failure=failure))

    error = {"code": "UNAVAILABLE", "message": "Busy."}
    assert events(response)[-1] == {"event_type": "error", "error": error}
    assert parse_event(response.messages[-1]).encode_event == "error"
    (turn,) = DIALECT.decode(response)
    assert (turn.text, turn.finish, turn.usage) == ("Hel", None, None)
    assert turn.failure == Failure("Busy.", code="UNAVAILABLE")


def test_an_error_without_words_has_those_of_its_status() -> None:
    response = told(Turn((), failure=Failure("", "UNAVAILABLE")))

    message = "The model is overloaded. Please try again later."
    assert events(response)[-1]["error"] == {"code": "UNAVAILABLE", "message": message}


def test_an_error_in_place_of_an_answer_has_its_status() -> None:
    response = told(Turn((), failure=Failure("Busy.", "UNAVAILABLE")), WHOLE)

    assert response.head.status == 503
    assert json.loads(response.messages[0]) == {
        "error": {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}
    }
    assert DIALECT.error_response(404, Failure("No."), DELIVERY).head.status == 404


def test_a_typical_request_asks_for_an_interaction() -> None:
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
    lambda it: tuple(it.items())
)
SHORT = st.sampled_from(["", "a", "ü 🌊 b"])
SPANS = st.none() | st.tuples(st.integers(0, 5), st.integers(0, 9))
CALLED = st.sampled_from(["", "f", "google_search", "code_execution"])
CITATIONS = st.lists(st.builds(Citation, SHORT, SHORT, SHORT, SPANS, METADATA), max_size=3)
GIVEN = st.sampled_from(["", "a", "{}", "[1]", "[1, 2]", '{"a":"ü"}', "[", "{"])
PARTS = (
    st.builds(Text, SHORT, CITATIONS.map(tuple), METADATA)
    | st.builds(Reasoning, SHORT, st.sampled_from([None, "c2ln", "§"]), metadata=METADATA)
    | st.builds(ToolCall, SHORT, CALLED, st.sampled_from(["", '{"id": 1}']), METADATA)
    | st.builds(ToolResult, SHORT, GIVEN, CALLED, st.booleans(), METADATA)
    | st.builds(
        Media, st.sampled_from(["", "image/png", "audio/wav"]), SHORT, SHORT, metadata=METADATA
    )
)
TURNS = st.builds(
    Turn,
    st.lists(PARTS, max_size=5).map(tuple),
    finish=st.none() | st.sampled_from(Finish),
    finish_raw=st.sampled_from(["", "completed", "queued", "in_progress", "budget_exceeded"]),
    failure=st.none() | st.just(Failure("No.", "INTERNAL", "500")),
    metadata=METADATA,
)


@settings(max_examples=150)
@given(TURNS, st.sampled_from([STREAM, WHOLE, asking(PATH, agent="a", stream=True)]))
def test_googles_own_words_are_told_and_read_as_they_fit(turn: Turn, request: Request) -> None:
    fits = DIALECT.convert(request, (turn,), DELIVERY)
    response = told(turn, request)

    assert DIALECT.decode(response) == fits.turns
    assert DIALECT.convert(request, fits.turns, DELIVERY) == ConvertedTurns(fits.turns, ())
    assert framing.split_messages(response.codec, b"".join(response.messages)) == list(
        response.messages
    )
    assert DIALECT.completeness(response).is_complete


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_real_interaction_can_be_told_again_and_says_the_same() -> None:
    rows = [row for row in corpus.rows() if row.wire == "gemini.interactions.payload"]
    for row in rows:
        said = [b"data: " + line + b"\n\n" for line in row.body.splitlines()]
        (turn,) = DIALECT.decode(DialectResponse(row.head, "sse", said))
        fits = DIALECT.convert(STREAM, (turn,), DELIVERY)
        assert fits.losses == (), row.id
        assert DIALECT.decode(told(turn)) == fits.turns, row.id
        named = replace(turn, id=turn.id or fits.turns[0].id)  # some were recorded without
        assert fits.turns == (named,), row.id
    assert len(rows) == 8
