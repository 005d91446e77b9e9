"""Messages of version 2: most rows are the turn of a body, and the body of that turn."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from case_tables import each_row
from cohere_streams import (
    CALL_EVENTS,
    DONE_EVENT,
    FAILED_STREAM,
    TEXT_EVENTS,
    TEXT_STREAM,
    USAGE,
    block_events,
    call_events,
    citation_events,
    compact_json,
    json_response,
    plan_events,
    v2_event,
    v2_stream,
)
from dialect_manners import SPLIT_CONTEXT, json_request
from dialect_responses import framed_response
from llm_proxy import framing
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
TURN = Turn(
    (), FinishReason.STOP, "COMPLETE", Usage(500, 20, cache_read=448, reasoning=7), id="co-1",
    metadata=(
        ("billed_units", {"input_tokens": 12, "output_tokens": 13}), ("warnings", ["old"]),
        ("image_tokens", 259),
    ),
)  # fmt: skip
NO_COUNTS = {"input_tokens": 0, "output_tokens": 0}
PLAN_METADATA: Metadata = (("type", "tool_plan"),)
PLAN = Reasoning("I will check.", metadata=PLAN_METADATA)
CALLS = (ToolCall("a", "weather", '{"city":"Rome"}'), ToolCall("b", "clock", "{}"))


def encode_body(turn: Turn, *, stream: bool, path: str = "/v2/chat") -> bytes:
    request = json_request(path, model="command-a", stream=stream)
    response = DIALECT.encode_response(request, [turn], SPLIT_CONTEXT)
    content_type = "text/event-stream" if stream else "application/json"
    assert response.head.headers[0] == ("Content-Type", content_type)
    messages = framing.split_messages(response.codec_name, response.body)
    assert list(response.framed_messages) == messages
    return response.body


def decode_stream(body: bytes) -> Turn:
    (turn,) = DIALECT.decode_response(framed_response("sse", body))
    return turn


def decode_message(message: Any, **fields: Any) -> Turn:
    (turn,) = DIALECT.decode_response(json_response({"id": "co-1", "message": message, **fields}))
    return turn


def block(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, kind: text}


def tool_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def cited(text: str, start: int, *sources: Any, **index: int) -> dict[str, Any]:
    fields = {"start": start, "end": start + len(text), "text": text, "type": "TEXT_CONTENT"}
    return {**fields, **index, "sources": sources}


def citation(text: str, start: int, source: Metadata = (), index: Metadata = ()) -> Citation:
    metadata: Metadata = (("text", text), ("type", "TEXT_CONTENT"), *index, *source)
    return Citation(span=(start, start + len(text)), metadata=metadata)


GEM = {"type": "document", "id": "d0", "document": {"text": "Ruby is a gem."}}
LINK = {"url": "https://a.example", "title": "Facts", "text": "Gems are stones."}
LINKED = {"type": "document", "id": "d1", "document": LINK}
RUBY = cited("Ruby", 0, GEM, LINKED, content_index=1)
AGAIN = cited("Ruby", 8, GEM, content_index=1)
IN_GEM: Metadata = (("source", "d0"), ("source_type", "document"))
IN_LINKED: Metadata = (("source", "d1"), ("source_type", "document"))
RUBY_CITATIONS = (
    replace(citation("Ruby", 0, IN_GEM, (("content_index", 1),)), quoted="Ruby is a gem."),
    replace(
        citation("Ruby", 0, IN_LINKED, (("content_index", 1),)),
        url=LINK["url"], title=LINK["title"], quoted=LINK["text"],
    ),
    replace(citation("Ruby", 8, IN_GEM, (("content_index", 1),)), quoted="Ruby is a gem."),
)  # fmt: skip
RUBY_TURN = replace(TURN, parts=(Reasoning("Hm."), Text("Ruby is Ruby", RUBY_CITATIONS)))
WARM = cited("15 °", 0, {"type": "tool", "id": "t:0", "tool_output": {"content": "15 °C"}})
UNPLACED = {"text": "C", "type": "TEXT_CONTENT", "sources": []}
TOOL: Metadata = (("source", "t:0"), ("source_type", "tool"))
WARM_CITATIONS = (
    replace(citation("15 °", 0, TOOL), quoted="15 °C"),
    citation("C", 4),
    replace(citation("C", 4), span=None),
)
OF_PLAN: dict[str, Json] = {
    "start": 0,
    "end": 1,
    "text": "I",
    "type": "PLAN",
    "sources": [{"id": "d"}],
}


@each_row(
    ("turn", "events", "message"),
    [
        pytest.param(
            replace(TURN, parts=(Reasoning("I should greet."), Text("Hello"))), TEXT_EVENTS,
            {"content": [block("thinking", "I should greet."), block("text", "Hello")]},
            id="thoughts and a text",
        ),
        pytest.param(
            replace(
                TURN, parts=(PLAN, *CALLS), finish=FinishReason.TOOL_CALLS, finish_raw="TOOL_CALL"
            ),
            CALL_EVENTS,
            {"tool_plan": PLAN.text, "tool_calls": [*map(tool_call, CALLS)]},
            id="a plan and its calls",
        ),
        pytest.param(
            replace(TURN, parts=(ToolCall("a", "f", '{"a":'),)),
            call_events(0, "a", "f", '{"a', '":'),
            {"tool_calls": [tool_call(ToolCall("a", "f", '{"a":'))]},
            id="broken arguments",
        ),
        pytest.param(
            TURN, [], {"content": [block("text", "")]}, id="nothing",
        ),
        pytest.param(
            RUBY_TURN,
            [
                *block_events(0, "thinking", "Hm."),
                *block_events(1, "text", "Rub", "y is Ruby", within=citation_events(RUBY, AGAIN)),
            ],
            {
                "content": [block("thinking", "Hm."), block("text", "Ruby is Ruby")],
                "citations": [RUBY, AGAIN],
            },
            id="citations, those of one span together, in the block that they refer to",
        ),
        pytest.param(
            replace(TURN, parts=(Text("15 °C", WARM_CITATIONS),)),
            block_events(
                0, "text", "15 ", "°C", within=citation_events(WARM, cited("C", 4), UNPLACED)
            ),
            {"content": [block("text", "15 °C")], "citations": [WARM, cited("C", 4), UNPLACED]},
            id="citations of a tool, of nothing, and of no place",
        ),
        pytest.param(
            replace(TURN, parts=(PLAN,), metadata=(*TURN.metadata, ("citations", [OF_PLAN]))),
            [*plan_events("I w", "ill check."), *citation_events(OF_PLAN)],
            {"tool_plan": PLAN.text, "citations": [OF_PLAN]},
            id="a citation of a plan",
        ),
    ],
)  # fmt: skip
def test_a_turn_becomes_events_or_a_document_and_both_become_the_turn(
    turn: Turn, events: list[Any], message: dict[str, Any]
) -> None:
    stream = v2_stream(*events, reason=turn.finish_raw)
    fields = {"finish_reason": turn.finish_raw, "usage": USAGE}
    document = {"id": "co-1", "message": {"role": "assistant", **message}, **fields}

    for path in ("/v2/chat", "/cohere/v2/chat"):
        assert encode_body(turn, stream=True, path=path) == stream + DONE_EVENT
    assert encode_body(turn, stream=False) == compact_json(document)
    assert decode_stream(stream + DONE_EVENT) == turn
    assert DIALECT.decode_response(json_response(document)) == (turn,)


def test_a_failure_amid_a_stream_is_its_last_event() -> None:
    failure = Failure("invalid tool generation", "INVALID_TOOLS")
    plan = Reasoning("I will", metadata=PLAN_METADATA)
    turn = Turn((plan,), FinishReason.ERROR, "ERROR", failure=failure, id="co-1")

    assert decode_stream(FAILED_STREAM) == turn
    for encoded in (turn, replace(TURN, parts=(plan,), failure=replace(failure, code="422"))):
        assert encode_body(encoded, stream=True) == FAILED_STREAM + DONE_EVENT


@each_row(
    ("raw", "finish", "sent_for"),
    [
        ("COMPLETE", FinishReason.STOP, (FinishReason.STOP, FinishReason.PAUSED)),
        ("STOP_SEQUENCE", FinishReason.STOP_SEQUENCE, (FinishReason.STOP_SEQUENCE,)),
        ("MAX_TOKENS", FinishReason.LENGTH, (FinishReason.LENGTH, FinishReason.CONTEXT_FULL)),
        ("TOOL_CALL", FinishReason.TOOL_CALLS, (FinishReason.TOOL_CALLS,)),
        (
            "ERROR", FinishReason.ERROR,
            (FinishReason.ERROR, FinishReason.CONTENT_FILTER, FinishReason.REFUSAL),
        ),
        ("TIMEOUT", FinishReason.ERROR, ()),
        ("ERROR_LIMIT", FinishReason.CONTEXT_FULL, ()),
        ("ERROR_TOXIC", FinishReason.CONTENT_FILTER, ()),
        ("USER_CANCEL", FinishReason.OTHER, ()),
        (None, None, ()),
    ],
)  # fmt: skip
def test_each_finish_reason_is_decoded_and_sent_for_the_nearest_finishes(
    raw: str | None, finish: FinishReason | None, sent_for: tuple[FinishReason, ...]
) -> None:
    turn = decode_message({"content": "a"}, finish_reason=raw)
    assert (turn.finish, turn.finish_raw) == (finish, raw or "")
    for sent in sent_for:
        document = json.loads(encode_body(Turn((Text("a"),), sent), stream=False))
        assert document["finish_reason"] == raw


# What only the encoder does.


@each_row(
    ("turn", "filled_turn"),
    [
        pytest.param(
            Turn((), id="co-1"),
            replace(TURN, usage=Usage(0, 0), metadata=(("billed_units", {**NO_COUNTS}),)),
            id="a finish and counts",
        ),
        pytest.param(
            replace(TURN, parts=(ToolCall("b", "clock", ""),)),
            replace(TURN, parts=(ToolCall("b", "clock", "{}"),)),
            id="arguments",
        ),
        pytest.param(
            replace(TURN, parts=(Text("15 °C", tuple(
                replace(citation, metadata=citation.metadata[2:])
                for citation in WARM_CITATIONS[:2]
            )),)),
            replace(TURN, parts=(Text("15 °C", WARM_CITATIONS[:2]),)),
            id="the text that is cited",
        ),
        pytest.param(
            replace(RUBY_TURN, parts=(RUBY_TURN.parts[0], Text("Ruby is Ruby", tuple(
                replace(citation, metadata=citation.metadata[3:]) for citation in RUBY_CITATIONS
            )))),
            RUBY_TURN,
            id="the text that is cited, and the index of its block",
        ),
        pytest.param(
            replace(TURN, metadata=(*TURN.metadata, ("citations", [{"start": 0}, 7, {"type": 7}]))),
            TURN,
            id="citations of no type are left out",
        ),
    ],
)  # fmt: skip
def test_what_a_turn_lacks_is_filled_in(turn: Turn, filled_turn: Turn) -> None:
    for stream in (True, False):
        assert encode_body(turn, stream=stream) == encode_body(filled_turn, stream=stream)


# What Cohere sends and the encoder does not.


@each_row(
    ("message", "parts"),
    [
        pytest.param({"content": [{"text": "a"}, {"text": "b"}]}, (Text("a"), Text("b")), id="two"),
        pytest.param({"content": "ab"}, (Text("ab"),), id="a string"),
        pytest.param({"content": [{"type": "image", "image": "x"}, "a", None]}, (), id="others"),
        pytest.param({"content": []}, (), id="no block"),
        pytest.param({"content": None}, (), id="null"),
        pytest.param(
            {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"b": "c"}}}]},
            (ToolCall("a", "f", '{"b":"c"}'),),
            id="arguments that are an object",
        ),
        pytest.param(
            {
                "content": [{"text": "15 °C"}],
                "citations": [
                    {"start": 0, "end": 2, "sources": [WARM["sources"][0]] * 2},
                    {"start": 5, "end": 5},
                ],
            },
            (Text("15 °C", (*([replace(WARM_CITATIONS[0], span=(0, 2), metadata=TOOL)] * 2),
                            Citation())),),
            id="citations without a content index, which are of the first block",
        ),
    ],
)  # fmt: skip
def test_other_forms_of_a_document_are_decoded(message: Json, parts: tuple[Part, ...]) -> None:
    assert decode_message(message).parts == parts


HIGH, LOW = (
    b"data: %s\n\n" % json.dumps(v2_event("content-delta", 0, content={"text": half})).encode()
    for half in ("\ud83c", "\udf0a")
)


@each_row(
    ("stream", "turn"),
    [
        pytest.param(
            TEXT_STREAM[: TEXT_STREAM.index(b"event: message-end")],
            Turn((Reasoning("I should greet."), Text("Hello")), id="co-1"),
            id="cut, without a finish",
        ),
        pytest.param(
            v2_stream(*call_events(0, "b", "clock")),
            replace(TURN, parts=(ToolCall("b", "clock", ""),)),
            id="a call without arguments",
        ),
        pytest.param(
            v2_stream(
                *block_events(0, "thinking", "Hm."),
                v2_event("content-delta", 1, content={"text": "Ruby"}),
                *citation_events(RUBY, AGAIN),
                v2_event("content-delta", 1, content={"text": " is Ruby"}),
            ),
            RUBY_TURN,
            id="citations in the midst of their text",
        ),
        pytest.param(
            v2_stream(*plan_events("I"), *citation_events(OF_PLAN | {"sources": []})),
            replace(
                TURN, parts=(Reasoning("I", metadata=PLAN_METADATA),),
                metadata=(*TURN.metadata, ("citations", [
                    {"start": 0, "end": 1, "text": "I", "type": "PLAN"}
                ])),
            ),
            id="a citation of a plan, without a source",
        ),
        pytest.param(
            HIGH + LOW, Turn((Text("\N{WATER WAVE}"),)), id="a character split across two events"
        ),
    ],
)  # fmt: skip
def test_other_forms_of_a_stream_are_decoded(stream: bytes, turn: Turn) -> None:
    assert decode_stream(stream) == turn


BILLED = {"input_tokens": 3, "output_tokens": 2}


@each_row(
    ("counts", "usage", "metadata"),
    [
        ({"billed_units": BILLED}, Usage(input=3, output=2), (("billed_units", BILLED),)),
        (
            {"billed_units": BILLED, "tokens": {"input_tokens": 9.0, "image_tokens": 259}},
            Usage(input=9), (("billed_units", BILLED), ("image_tokens", 259)),
        ),
        ({}, None, ()),
        (None, None, ()),
    ],
    ids=["only what is paid for", "a float, and some counts alone", "nothing", "null"],
)  # fmt: skip
def test_partial_counts_are_decoded(counts: Json, usage: Usage | None, metadata: Metadata) -> None:
    turn = decode_message({"content": "a"}, usage=counts)
    assert (turn.usage, turn.metadata) == (usage, metadata)
