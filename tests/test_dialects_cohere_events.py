from __future__ import annotations

from typing import Any

from case_tables import each_row
from cohere_streams import V1_STREAM, framed_response, json_response, ndjson_body
from llm_proxy.dialects.cohere.dialect import Cohere
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Metadata,
    Text,
    ToolCall,
    Turn,
    Usage,
)

DIALECT = Cohere()
META = {"billed_units": {"input_tokens": 4, "output_tokens": 2}}
BILLED: tuple[str, Json] = ("billed_units", {"input_tokens": 4, "output_tokens": 2})
CALLS = [{"name": "f", "parameters": {"city": "Rome"}}, {"name": "g", "parameters": {}}]
DOCUMENTS = [
    {"id": "d0", "title": "Facts", "snippet": "Ruby is a gem.", "url": "https://a.example"}
]
RAW_CITATION = {"start": 0, "end": 5, "text": "Hello", "document_ids": ["d0", "d1"]}


def decode_events(*events: dict[str, Any]) -> tuple[Turn, ...]:
    return DIALECT.decode_response(framed_response("ndjson", ndjson_body(*events)))


def text_event(content: str, **more: Any) -> dict[str, Any]:
    return {"event_type": "text-generation", "text": content, "is_finished": False, **more}


def end_event(reason: str = "COMPLETE", **response: Any) -> dict[str, Any]:
    return {
        "event_type": "stream-end",
        "is_finished": True,
        "finish_reason": reason,
        "response": response,
    }


def test_a_chat_becomes_a_turn() -> None:
    assert DIALECT.decode_response(framed_response("ndjson", V1_STREAM)) == (
        Turn(
            parts=(Text("Hello"),),
            finish=FinishReason.STOP,
            finish_raw="COMPLETE",
            usage=Usage(input=69, output=2),
            id="g-1",
            metadata=(("response_id", "r-1"), BILLED),
        ),
    )


def test_a_chat_that_was_cut_has_no_finish() -> None:
    (turn,) = DIALECT.decode_response(
        framed_response("ndjson", V1_STREAM[: V1_STREAM.rindex(b'{"is_finished":true')])
    )
    assert (turn.text, turn.finish, turn.usage, turn.id) == ("Hello", None, None, "g-1")


def test_a_document_decodes_like_its_stream() -> None:
    body = {
        "response_id": "r-1",
        "generation_id": "g-1",
        "text": "Hello",
        "chat_history": [],
        "finish_reason": "COMPLETE",
        "meta": {**META, "tokens": {"input_tokens": 69, "output_tokens": 2}},
    }
    assert DIALECT.decode_response(json_response(body)) == DIALECT.decode_response(
        framed_response("ndjson", V1_STREAM)
    )


def test_the_last_event_fills_in_what_was_left_out() -> None:
    (turn,) = decode_events(
        end_event(text="Hello", citations=[RAW_CITATION], documents=DOCUMENTS, tool_calls=CALLS)
    )
    assert [type(part) for part in turn.parts] == [Text, ToolCall, ToolCall]
    assert turn.text == "Hello"


def test_content_repeated_in_the_last_event_is_not_duplicated() -> None:
    events = [
        {"event_type": "search-results", "documents": DOCUMENTS},
        text_event("Hello"),
        {"event_type": "citation-generation", "citations": [RAW_CITATION]},
    ]
    (turn,) = decode_events(
        *events, end_event(text="Hello", citations=[RAW_CITATION], documents=DOCUMENTS)
    )
    assert turn.parts == (
        Text(
            "Hello",
            citations=(
                Citation(
                    url="https://a.example",
                    title="Facts",
                    quoted="Ruby is a gem.",
                    span=(0, 5),
                    metadata=(("text", "Hello"), ("source", "d0")),
                ),
                Citation(span=(0, 5), metadata=(("text", "Hello"), ("source", "d1"))),
            ),
        ),
    )
    assert turn.metadata == (("documents", DOCUMENTS),)


CHUNKS = (
    {"event_type": "tool-calls-chunk", "text": "I will "},
    {"event_type": "tool-calls-chunk", "tool_call_delta": {"text": "look."}},
    {"event_type": "tool-calls-chunk", "tool_call_delta": {"name": "f", "index": 0}},
    {"event_type": "tool-calls-chunk", "tool_call_delta": {"parameters": '{"city": ', "index": 0}},
    {"event_type": "tool-calls-chunk", "tool_call_delta": {"parameters": '"Rome"}', "index": 0}},
    {"event_type": "tool-calls-chunk", "tool_call_delta": {"name": "g", "index": 1}},
)


def test_truncated_calls_keep_what_was_received() -> None:
    (turn,) = decode_events(*CHUNKS)
    assert turn.parts == (
        Text("I will look."),
        ToolCall("", "f", '{"city": "Rome"}'),
        ToolCall("", "g", ""),
    )
    assert turn.finish is None


def test_whole_calls_take_the_place_of_their_chunks() -> None:
    calls_event = {
        "event_type": "tool-calls-generation",
        "text": "I will look.",
        "tool_calls": CALLS,
    }
    (turn,) = decode_events(*CHUNKS, calls_event, end_event(text="I will look.", tool_calls=CALLS))
    assert turn.parts == (
        Text("I will look."),
        ToolCall("", "f", '{"city":"Rome"}'),
        ToolCall("", "g", "{}"),
    )
    assert (turn.finish, turn.finish_raw) == (FinishReason.TOOL_CALLS, "COMPLETE")


def test_a_plan_may_come_with_its_calls_alone() -> None:
    calls_event = {
        "event_type": "tool-calls-generation",
        "text": "I will look.",
        "tool_calls": CALLS,
    }
    (turn,) = decode_events(calls_event, end_event(text="I will look.", tool_calls=CALLS))
    assert turn.text == "I will look."


def test_calls_that_ran_out_of_tokens_end_by_length() -> None:
    (turn,) = decode_events(end_event("MAX_TOKENS", tool_calls=CALLS))
    assert turn.finish is FinishReason.LENGTH


def test_searches_are_kept_as_metadata() -> None:
    queries = [{"text": "ruby", "generation_id": "g"}]
    results = [{"search_query": queries[0], "document_ids": ["d0"], "connector": {"id": "web"}}]
    (turn,) = decode_events(
        {"event_type": "search-queries-generation", "search_queries": queries},
        {"event_type": "search-results", "search_results": results, "documents": []},
        end_event(text="a", is_search_required=True),
    )
    assert dict(turn.metadata) == {
        "search_queries": queries,
        "search_results": results,
        "is_search_required": True,
    }


def test_completions_are_a_turn_each() -> None:
    generations = [
        {"id": "g-1", "text": " Hi", "finish_reason": "COMPLETE"},
        {"id": "g-2", "text": " Ho", "finish_reason": "MAX_TOKENS"},
    ]
    meta = {**META, "warnings": ["deprecated"]}
    metadata: Metadata = (BILLED, ("warnings", ["deprecated"]))
    usage = Usage(input=4, output=2)
    body = {"id": "c", "generations": generations, "prompt": "Hello", "meta": meta}
    assert DIALECT.decode_response(json_response(body)) == (
        Turn((Text(" Hi"),), FinishReason.STOP, "COMPLETE", usage, id="g-1", metadata=metadata),
        Turn((Text(" Ho"),), FinishReason.LENGTH, "MAX_TOKENS", usage, id="g-2", metadata=metadata),
    )


def test_streamed_completions_are_separated_by_index() -> None:
    generations = [
        {"id": "g-1", "index": 0, "text": "ab", "finish_reason": "COMPLETE"},
        {"id": "g-2", "index": 1, "text": "xy", "finish_reason": "MAX_TOKENS"},
    ]
    turns = decode_events(
        text_event("a", index=0),
        text_event("x", index=1),
        text_event("b", index=0),
        text_event("y", index=1),
        end_event(id="c", generations=generations),
    )
    assert [(turn.text, turn.finish, turn.id) for turn in turns] == [
        ("ab", FinishReason.STOP, "g-1"),
        ("xy", FinishReason.LENGTH, "g-2"),
    ]


def test_lines_of_old_servers_have_no_event_type() -> None:
    (turn,) = decode_events(
        {"text": " Hi", "is_finished": False},
        {"is_finished": True, "finish_reason": "COMPLETE"},
    )
    assert (turn.text, turn.finish) == (" Hi", FinishReason.STOP)


@each_row(
    ("last", "failure", "finish"),
    [
        (
            {"event_type": "stream-error", "finish_reason": "ERROR_LIMIT", "err": "too long"},
            Failure("too long"),
            FinishReason.CONTEXT_FULL,
        ),
        ({"message": "busy"}, Failure("busy"), None),
        (end_event("ERROR_TOXIC", text="Hi"), None, FinishReason.CONTENT_FILTER),
    ],
    ids=["an event", "a bare error", "a finish"],
)
def test_an_error_keeps_the_preceding_content(
    last: dict[str, Any], failure: Failure | None, finish: FinishReason | None
) -> None:
    (turn,) = decode_events(text_event("Hi"), last)
    assert (turn.text, turn.failure, turn.finish) == ("Hi", failure, finish)


def test_no_generation_is_no_turn() -> None:
    assert DIALECT.decode_response(json_response({"id": "c", "generations": []})) == ()
