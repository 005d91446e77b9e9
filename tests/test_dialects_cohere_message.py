from __future__ import annotations

import json
from typing import Any

import pytest

from case_tables import each_row
from cohere_streams import (
    FAILED_STREAM,
    TEXT_STREAM,
    TOOLS_STREAM,
    content_event,
    framed_response,
    json_response,
    message_end_event,
    sse_body,
    v2_event,
)
from llm_proxy.dialects.cohere.dialect import Cohere
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    Turn,
    Usage,
)

DIALECT = Cohere()
BILLED: Metadata = (("billed_units", {"input_tokens": 9, "output_tokens": 5}),)
PLAN = (("type", "tool_plan"),)
DOCUMENT = {"id": "doc:0", "title": "Facts", "text": "Ruby is a gem.", "url": "https://example.com"}


def stream_turn(body: bytes) -> Turn:
    (turn,) = DIALECT.decode_response(framed_response("sse", body))
    return turn


def document_turn(message: Any, **fields: Any) -> Turn:
    (turn,) = DIALECT.decode_response(json_response({"id": "co-3", "message": message, **fields}))
    return turn


def citation(**fields: Any) -> dict[str, Any]:
    source = {"type": "document", "id": "doc:0", "document": DOCUMENT}
    return {"start": 0, "end": 5, "text": "Hello", "sources": [source], **fields}


def test_a_stream_becomes_a_turn() -> None:
    assert stream_turn(TEXT_STREAM) == Turn(
        parts=(Reasoning("I should greet."), Text("Hello")),
        finish=FinishReason.STOP,
        finish_raw="COMPLETE",
        usage=Usage(input=9, output=5),
        id="co-1",
        metadata=BILLED,
    )


def test_the_plan_comes_before_the_calls() -> None:
    turn = stream_turn(TOOLS_STREAM)
    assert turn.parts == (
        Reasoning("I will check.", metadata=PLAN),
        ToolCall("a", "weather", '{"city":"Rome"}'),
        ToolCall("b", "clock", ""),
    )
    assert (turn.finish, turn.finish_raw) == (FinishReason.TOOL_CALLS, "TOOL_CALL")


def test_an_error_at_the_end_keeps_the_preceding_content() -> None:
    turn = stream_turn(FAILED_STREAM)
    assert turn.parts == (Reasoning("I will", metadata=PLAN),)
    assert (turn.finish, turn.usage) == (FinishReason.ERROR, None)
    assert turn.failure == Failure("invalid tool generation", type="INVALID_TOOLS")


def test_a_stream_that_was_cut_has_no_finish() -> None:
    turn = stream_turn(TEXT_STREAM[: TEXT_STREAM.index(b"event: message-end")])
    assert (turn.text, turn.finish, turn.finish_raw) == ("Hello", None, "")


def test_a_document_and_a_stream_decode_alike() -> None:
    counts = {"input_tokens": 9, "output_tokens": 5}
    calls = [("a", "weather", '{"city":"Rome"}'), ("b", "clock", "")]
    message = {
        "role": "assistant",
        "tool_plan": "I will check.",
        "tool_calls": [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id_, name, arguments in calls
        ],
    }
    (turn,) = DIALECT.decode_response(
        json_response(
            {
                "id": "co-1",
                "message": message,
                "finish_reason": "TOOL_CALL",
                "usage": {"billed_units": counts, "tokens": counts},
            }
        )
    )
    assert turn == stream_turn(TOOLS_STREAM)


@each_row(
    ("blocks", "parts"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], (Text("a"), Text("b"))),
        (
            [{"type": "thinking", "thinking": "a"}, {"type": "text", "text": "b"}],
            (Reasoning("a"), Text("b")),
        ),
        ("ab", (Text("ab"),)),
        ([{"type": "image", "image": "x"}, "a", None], ()),
        ([], ()),
        (None, ()),
    ],
    ids=["two blocks", "thoughts", "a string", "blocks of other kinds", "no block", "null"],
)
def test_content_is_read_block_by_block(blocks: Json, parts: tuple[Part, ...]) -> None:
    assert document_turn({"content": blocks}).parts == parts


def test_arguments_that_are_an_object_are_spelled_out() -> None:
    call = {"id": "a", "function": {"name": "f", "arguments": {"city": "Rome"}}}
    assert document_turn({"tool_calls": [call]}).parts == (ToolCall("a", "f", '{"city":"Rome"}'),)


def test_a_citation_in_the_midst_of_a_text_does_not_cut_it() -> None:
    turn = stream_turn(
        sse_body(
            content_event("start", 0, type="thinking", thinking="Hm"),
            content_event("delta", 1, text="Hello"),
            v2_event("citation-start", 0, {"citations": citation(content_index=1)}),
            v2_event("citation-end", 0),
            content_event("delta", 1, text=" you"),
            message_end_event("COMPLETE"),
        )
    )
    cited = Citation(
        url="https://example.com",
        title="Facts",
        quoted="Ruby is a gem.",
        span=(0, 5),
        metadata=(
            ("text", "Hello"),
            ("content_index", 1),
            ("source", "doc:0"),
            ("source_type", "document"),
        ),
    )
    assert turn.parts == (Reasoning("Hm"), Text("Hello you", citations=(cited,)))


def test_a_citation_without_a_content_index_is_of_the_first_block() -> None:
    tool: Any = {"type": "tool", "id": "t:0", "tool_output": {"content": "15 °C"}}
    message: dict[str, Any] = {
        "content": [{"type": "text", "text": "Hello"}],
        "citations": [citation(sources=[tool, tool]), citation(sources=[], start=5)],
    }
    (part,) = document_turn(message).parts
    assert isinstance(part, Text)
    assert [(item.quoted, item.span) for item in part.citations] == [
        ("15 °C", (0, 5)),
        ("15 °C", (0, 5)),
        ("", None),
    ]


def test_citations_of_the_plan_are_kept_as_metadata() -> None:
    plan_citation = citation(type="PLAN", sources=[])
    turn = document_turn({"tool_plan": "Hello", "citations": [plan_citation]})
    kept = {name: value for name, value in plan_citation.items() if value != []}
    assert turn.metadata == (("citations", [{**kept, "start": 0}]),)
    assert turn.parts == (Reasoning("Hello", metadata=PLAN),)


@each_row(
    ("raw", "finish"),
    [
        ("COMPLETE", FinishReason.STOP),
        ("STOP_SEQUENCE", FinishReason.STOP_SEQUENCE),
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("TOOL_CALL", FinishReason.TOOL_CALLS),
        ("ERROR", FinishReason.ERROR),
        ("TIMEOUT", FinishReason.ERROR),
        ("ERROR_LIMIT", FinishReason.CONTEXT_FULL),
        ("ERROR_TOXIC", FinishReason.CONTENT_FILTER),
        ("USER_CANCEL", FinishReason.OTHER),
        (None, None),
    ],
)
def test_finish_reasons_map_to_finish_values(raw: str | None, finish: FinishReason | None) -> None:
    turn = document_turn({"content": "a"}, finish_reason=raw)
    assert (turn.finish, turn.finish_raw) == (finish, raw or "")


@each_row(
    ("counts", "usage", "metadata"),
    [
        pytest.param(
            {
                "billed_units": {"input_tokens": 3, "output_tokens": 2},
                "tokens": {"input_tokens": 9.0, "output_tokens": 5, "reasoning_tokens": 4},
                "cached_tokens": 8,
            },
            Usage(input=9, output=5, cache_read=8, reasoning=4),
            (("billed_units", {"input_tokens": 3, "output_tokens": 2}),),
            id="what was read and written",
        ),
        pytest.param(
            {"billed_units": {"input_tokens": 3, "output_tokens": 2}},
            Usage(input=3, output=2),
            (("billed_units", {"input_tokens": 3, "output_tokens": 2}),),
            id="only what is paid for",
        ),
        pytest.param(
            {"tokens": {"input_tokens": 9, "image_tokens": 259}},
            Usage(input=9),
            (("image_tokens", 259),),
            id="an image",
        ),
        pytest.param({}, None, (), id="nothing"),
        pytest.param(None, None, (), id="null"),
    ],
)
def test_counts_are_what_the_model_read_and_wrote(
    counts: Json, usage: Usage | None, metadata: tuple[tuple[str, Json], ...]
) -> None:
    turn = document_turn({"content": "a"}, usage=counts)
    assert (turn.usage, turn.metadata) == (usage, metadata)


def test_a_character_split_across_two_events_is_joined() -> None:
    high, low = (
        json.dumps(content_event("delta", 0, text=surrogate)).encode()
        for surrogate in ("\ud83c", "\udf0a")
    )
    body = b"data: %s\n\ndata: %s\n\n" % (high, low)
    assert stream_turn(body).text == "\N{WATER WAVE}"
