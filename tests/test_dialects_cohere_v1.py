"""Chats and completions of version 1, which are decoded alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from case_tables import each_row
from cohere_streams import (
    V1_DOCUMENT,
    V1_STREAM,
    json_response,
    ndjson_body,
)
from dialect_responses import framed_response
from llm_proxy.dialects.cohere.dialect import Cohere
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Metadata,
    Part,
    Text,
    ToolCall,
    Turn,
    Usage,
)

DIALECT = Cohere()
BILLED: tuple[str, Json] = ("billed_units", {"input_tokens": 4, "output_tokens": 2})
HELLO = Turn(
    (Text("Hello"),), FinishReason.STOP, "COMPLETE", Usage(input=69, output=2), id="g-1",
    metadata=(("response_id", "r-1"), BILLED),
)  # fmt: skip
FACTS = {"id": "d0", "title": "Facts", "snippet": "Ruby is a gem.", "url": "https://a.example"}
RAW_CITATION = {"start": 0, "end": 5, "text": "Hello", "document_ids": ["d0", "d1"]}
CITED = Text(
    "Hello",
    citations=(
        Citation(
            "https://a.example", "Facts", "Ruby is a gem.", (0, 5),
            (("text", "Hello"), ("source", "d0")),
        ),
        Citation(span=(0, 5), metadata=(("text", "Hello"), ("source", "d1"))),
    ),
)  # fmt: skip
CALLS = [{"name": "f", "parameters": {"city": "Rome"}}, {"name": "g", "parameters": {}}]
CALL_PARTS = (ToolCall("", "f", '{"city":"Rome"}'), ToolCall("", "g", "{}"))
CALLS_EVENT = {"event_type": "tool-calls-generation", "text": "I will look.", "tool_calls": CALLS}
CHUNKS = [
    {"event_type": "tool-calls-chunk", **fields}
    for fields in (
        {"text": "I will "},
        {"tool_call_delta": {"text": "look."}},
        {"tool_call_delta": {"name": "f", "index": 0}},
        {"tool_call_delta": {"parameters": '{"city": ', "index": 0}},
        {"tool_call_delta": {"parameters": '"Rome"}', "index": 0}},
        {"tool_call_delta": {"name": "g", "index": 1}},
    )
]


def decode_events(*events: dict[str, Any]) -> tuple[Turn, ...]:
    return DIALECT.decode_response(framed_response("ndjson", ndjson_body(*events)))


def text_event(content: str, **more: Any) -> dict[str, Any]:
    return {"event_type": "text-generation", "text": content, "is_finished": False, **more}


def end_event(reason: str = "COMPLETE", **response: Any) -> dict[str, Any]:
    fields = {"event_type": "stream-end", "is_finished": True, "finish_reason": reason}
    return {**fields, "response": response}


def test_a_stream_and_its_document_become_a_turn() -> None:
    assert DIALECT.decode_response(framed_response("ndjson", V1_STREAM)) == (HELLO,)
    assert DIALECT.decode_response(json_response(V1_DOCUMENT)) == (HELLO,)
    cut_stream = V1_STREAM[: V1_STREAM.rindex(b'{"is_finished":true')]
    assert DIALECT.decode_response(framed_response("ndjson", cut_stream)) == (
        replace(HELLO, finish=None, finish_raw="", usage=None, metadata=()),
    )


@each_row(
    ("events", "parts", "finish"),
    [
        pytest.param(
            [end_event(text="Hello", citations=[RAW_CITATION], documents=[FACTS],
                       tool_calls=CALLS)],
            (CITED, *CALL_PARTS), FinishReason.TOOL_CALLS,
            id="the last event has what was left out",
        ),
        pytest.param(
            [
                {"event_type": "search-results", "documents": [FACTS]},
                text_event("Hello"),
                {"event_type": "citation-generation", "citations": [RAW_CITATION]},
                end_event(text="Hello", citations=[RAW_CITATION], documents=[FACTS]),
            ],
            (CITED,), FinishReason.STOP,
            id="the last event repeats it",
        ),
        pytest.param(
            CHUNKS,
            (Text("I will look."), ToolCall("", "f", '{"city": "Rome"}'), ToolCall("", "g", "")),
            None,
            id="calls in chunks, cut",
        ),
        pytest.param(
            [*CHUNKS, CALLS_EVENT, end_event(text="I will look.", tool_calls=CALLS)],
            (Text("I will look."), *CALL_PARTS), FinishReason.TOOL_CALLS,
            id="whole calls take the place of their chunks",
        ),
        pytest.param(
            [CALLS_EVENT, end_event(text="I will look.", tool_calls=CALLS)],
            (Text("I will look."), *CALL_PARTS), FinishReason.TOOL_CALLS,
            id="a plan comes with its calls alone",
        ),
        pytest.param(
            [end_event("MAX_TOKENS", tool_calls=CALLS)], CALL_PARTS, FinishReason.LENGTH,
            id="calls that ran out of tokens",
        ),
        pytest.param(
            [
                {"text": " Hi", "is_finished": False},
                {"is_finished": True, "finish_reason": "COMPLETE"},
            ],
            (Text(" Hi"),), FinishReason.STOP,
            id="an old server, without event types",
        ),
    ],
)  # fmt: skip
def test_events_become_parts(
    events: list[dict[str, Any]], parts: tuple[Part, ...], finish: FinishReason | None
) -> None:
    (turn,) = decode_events(*events)
    assert (turn.parts, turn.finish) == (parts, finish)
    assert turn.finish_raw == events[-1].get("finish_reason", "")


def test_searches_are_kept_as_metadata() -> None:
    queries = [{"text": "ruby", "generation_id": "g"}]
    results = [{"search_query": queries[0], "document_ids": ["d0"], "connector": {"id": "web"}}]
    (turn,) = decode_events(
        {"event_type": "search-queries-generation", "search_queries": queries},
        {"event_type": "search-results", "search_results": results, "documents": [FACTS]},
        end_event(text="a", is_search_required=True),
    )
    assert dict(turn.metadata) == {
        "search_queries": queries,
        "search_results": results,
        "documents": [FACTS],
        "is_search_required": True,
    }


GENERATIONS = [
    {"id": "g-1", "text": " Hi", "finish_reason": "COMPLETE"},
    {"id": "g-2", "text": " Ho", "finish_reason": "MAX_TOKENS"},
]


def test_completions_are_a_turn_each() -> None:
    metadata: Metadata = (BILLED, ("warnings", ["deprecated"]))
    usage = Usage(input=4, output=2)
    meta = {**dict([BILLED]), "warnings": ["deprecated"]}
    body = {"id": "c", "generations": GENERATIONS, "prompt": "Hello", "meta": meta}
    assert DIALECT.decode_response(json_response(body)) == (
        Turn((Text(" Hi"),), FinishReason.STOP, "COMPLETE", usage, id="g-1", metadata=metadata),
        Turn((Text(" Ho"),), FinishReason.LENGTH, "MAX_TOKENS", usage, id="g-2", metadata=metadata),
    )
    assert DIALECT.decode_response(json_response({"id": "c", "generations": []})) == ()


def test_streamed_completions_are_separated_by_index() -> None:
    turns = decode_events(
        text_event(" H", index=0),
        text_event(" ", index=1),
        text_event("i", index=0),
        text_event("Ho", index=1),
        end_event(
            id="c",
            generations=[
                {**generation, "index": index} for index, generation in enumerate(GENERATIONS)
            ],
        ),
    )
    assert turns == (
        Turn((Text(" Hi"),), FinishReason.STOP, "COMPLETE", id="g-1"),
        Turn((Text(" Ho"),), FinishReason.LENGTH, "MAX_TOKENS", id="g-2"),
    )


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
