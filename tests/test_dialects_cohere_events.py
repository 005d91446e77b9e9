from __future__ import annotations

from typing import Any

import pytest

from cohere_streams import CHAT, answer, document, lines
from llm_proxy.dialects.cohere.dialect import Cohere
from llm_proxy.turns import Citation, Failure, Finish, Json, Metadata, Text, ToolCall, Turn, Usage

DIALECT = Cohere()
META = {"billed_units": {"input_tokens": 4, "output_tokens": 2}}
BILLED: tuple[str, Json] = ("billed_units", {"input_tokens": 4, "output_tokens": 2})
CALLS = [{"name": "f", "parameters": {"city": "Rome"}}, {"name": "g", "parameters": {}}]
DOCUMENTS = [
    {"id": "d0", "title": "Facts", "snippet": "Ruby is a gem.", "url": "https://a.example"}
]
CITED = {"start": 0, "end": 5, "text": "Hello", "document_ids": ["d0", "d1"]}


def streamed(*events: dict[str, Any]) -> tuple[Turn, ...]:
    return DIALECT.decode(answer("ndjson", lines(*events)))


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"event_type": "text-generation", "text": said, "is_finished": False, **more}


def end(reason: str = "COMPLETE", **response: Any) -> dict[str, Any]:
    return {
        "event_type": "stream-end",
        "is_finished": True,
        "finish_reason": reason,
        "response": response,
    }


def test_a_chat_becomes_a_turn() -> None:
    assert DIALECT.decode(answer("ndjson", CHAT)) == (
        Turn(
            parts=(Text("Hello"),),
            finish=Finish.STOP,
            finish_raw="COMPLETE",
            usage=Usage(input=69, output=2),
            id="g-1",
            metadata=(("response_id", "r-1"), BILLED),
        ),
    )


def test_a_chat_that_was_cut_has_no_finish() -> None:
    (turn,) = DIALECT.decode(answer("ndjson", CHAT[: CHAT.rindex(b'{"is_finished":true')]))
    assert (turn.text, turn.finish, turn.usage, turn.id) == ("Hello", None, None, "g-1")


def test_a_document_tells_the_same() -> None:
    said = {
        "response_id": "r-1",
        "generation_id": "g-1",
        "text": "Hello",
        "chat_history": [],
        "finish_reason": "COMPLETE",
        "meta": {**META, "tokens": {"input_tokens": 69, "output_tokens": 2}},
    }
    assert DIALECT.decode(document(said)) == DIALECT.decode(answer("ndjson", CHAT))


def test_the_last_event_fills_in_what_was_left_out() -> None:
    (turn,) = streamed(end(text="Hello", citations=[CITED], documents=DOCUMENTS, tool_calls=CALLS))
    assert [type(part) for part in turn.parts] == [Text, ToolCall, ToolCall]
    assert turn.text == "Hello"


def test_what_the_last_event_repeats_is_told_once() -> None:
    told = [
        {"event_type": "search-results", "documents": DOCUMENTS},
        text("Hello"),
        {"event_type": "citation-generation", "citations": [CITED]},
    ]
    (turn,) = streamed(*told, end(text="Hello", citations=[CITED], documents=DOCUMENTS))
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


def test_calls_that_were_cut_stand_as_far_as_they_were_written() -> None:
    (turn,) = streamed(*CHUNKS)
    assert turn.parts == (
        Text("I will look."),
        ToolCall("", "f", '{"city": "Rome"}'),
        ToolCall("", "g", ""),
    )
    assert turn.finish is None


def test_whole_calls_take_the_place_of_their_chunks() -> None:
    whole = {"event_type": "tool-calls-generation", "text": "I will look.", "tool_calls": CALLS}
    (turn,) = streamed(*CHUNKS, whole, end(text="I will look.", tool_calls=CALLS))
    assert turn.parts == (
        Text("I will look."),
        ToolCall("", "f", '{"city":"Rome"}'),
        ToolCall("", "g", "{}"),
    )
    assert (turn.finish, turn.finish_raw) == (Finish.TOOL_CALLS, "COMPLETE")


def test_a_plan_may_come_with_its_calls_alone() -> None:
    whole = {"event_type": "tool-calls-generation", "text": "I will look.", "tool_calls": CALLS}
    (turn,) = streamed(whole, end(text="I will look.", tool_calls=CALLS))
    assert turn.text == "I will look."


def test_calls_that_ran_out_of_tokens_end_by_length() -> None:
    (turn,) = streamed(end("MAX_TOKENS", tool_calls=CALLS))
    assert turn.finish is Finish.LENGTH


def test_searches_are_kept_beside() -> None:
    queries = [{"text": "ruby", "generation_id": "g"}]
    results = [{"search_query": queries[0], "document_ids": ["d0"], "connector": {"id": "web"}}]
    (turn,) = streamed(
        {"event_type": "search-queries-generation", "search_queries": queries},
        {"event_type": "search-results", "search_results": results, "documents": []},
        end(text="a", is_search_required=True),
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
    beside: Metadata = (BILLED, ("warnings", ["deprecated"]))
    usage = Usage(input=4, output=2)
    said = {"id": "c", "generations": generations, "prompt": "Hello", "meta": meta}
    assert DIALECT.decode(document(said)) == (
        Turn((Text(" Hi"),), Finish.STOP, "COMPLETE", usage, id="g-1", metadata=beside),
        Turn((Text(" Ho"),), Finish.LENGTH, "MAX_TOKENS", usage, id="g-2", metadata=beside),
    )


def test_streamed_completions_are_told_apart_by_index() -> None:
    generations = [
        {"id": "g-1", "index": 0, "text": "ab", "finish_reason": "COMPLETE"},
        {"id": "g-2", "index": 1, "text": "xy", "finish_reason": "MAX_TOKENS"},
    ]
    turns = streamed(
        text("a", index=0),
        text("x", index=1),
        text("b", index=0),
        text("y", index=1),
        end(id="c", generations=generations),
    )
    assert [(turn.text, turn.finish, turn.id) for turn in turns] == [
        ("ab", Finish.STOP, "g-1"),
        ("xy", Finish.LENGTH, "g-2"),
    ]


def test_lines_of_old_servers_have_no_event_type() -> None:
    (turn,) = streamed(
        {"text": " Hi", "is_finished": False},
        {"is_finished": True, "finish_reason": "COMPLETE"},
    )
    assert (turn.text, turn.finish) == (" Hi", Finish.STOP)


@pytest.mark.parametrize(
    ("last", "failure", "finish"),
    [
        (
            {"event_type": "stream-error", "finish_reason": "ERROR_LIMIT", "err": "too long"},
            Failure("too long"),
            Finish.CONTEXT_FULL,
        ),
        ({"message": "busy"}, Failure("busy"), None),
        (end("ERROR_TOXIC", text="Hi"), None, Finish.CONTENT_FILTER),
    ],
    ids=["an event", "a bare error", "a finish"],
)
def test_an_error_keeps_what_was_said_before(
    last: dict[str, Any], failure: Failure | None, finish: Finish | None
) -> None:
    (turn,) = streamed(text("Hi"), last)
    assert (turn.text, turn.failure, turn.finish) == ("Hi", failure, finish)


def test_no_generation_is_no_turn() -> None:
    assert DIALECT.decode(document({"id": "c", "generations": []})) == ()
