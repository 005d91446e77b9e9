"""Anthropic messages and the turns that they are: most cases hold in both directions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import pytest

from anthropic_events import (
    COMPLETION_STREAM,
    DIALECT,
    ERROR_EVENT,
    MESSAGE_STOP,
    PING,
    STREAM_REQUEST,
    TEXT_STREAM,
    TOOLS_STREAM,
    WHOLE_REQUEST,
    Fields,
    block_and_deltas,
    block_delta,
    block_events,
    block_start,
    encode_events,
    encode_message,
    event_documents,
    json_response,
    message_delta,
    message_start,
    sse_event,
    text_delta,
)
from case_tables import each_row
from dialect_manners import SPLIT_CONTEXT, typed
from dialect_responses import stream_response, whole_response
from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

MCP_RESULT: Final = {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": True}
SEARCH_RESULT: Final = {"type": "web_search_tool_result", "tool_use_id": "s"}
BASH_ERROR: Final = '{"type":"bash_code_execution_tool_result_error","error_code":"x"}'
HUGE: Final = '{"huge":1.1805916207174113e+21,"line":"\u2028"}'


def call(kind: str, call_id: str, name: str, arguments: Any, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": call_id, "name": name, "input": arguments, **fields}


def pieces(*texts: str) -> list[Fields]:
    """The deltas of a call's arguments."""
    return [{"type": "input_json_delta", "partial_json": text} for text in ("", *texts)]


def decode_stream(*events: bytes) -> Turn:
    (turn,) = DIALECT.decode_response(stream_response(b"".join(events)))
    return turn


def decode_blocks(*content: Fields) -> tuple[Part, ...]:
    """The parts of a message with these blocks; asserts that they decode alike in a stream."""
    (turn,) = DIALECT.decode_response(json_response(type="message", content=content))
    events = (block_events(block, index=index) for index, block in enumerate(content))
    assert decode_stream(*events) == turn
    return turn.parts


CITATIONS: Final[tuple[tuple[Citation, Fields], ...]] = (
    (
        Citation("https://a.example", "A page", "It is.",
                 metadata=typed("web_search_result_location", encrypted_index="e")),
        {"type": "web_search_result_location", "cited_text": "It is.", "title": "A page",
         "url": "https://a.example", "encrypted_index": "e"},
    ),
    (
        Citation("", "Doc", "It is.",
                 metadata=typed("char_location", document_index=0, start_char_index=0,
                                end_char_index=6)),
        {"type": "char_location", "cited_text": "It is.", "document_index": 0,
         "document_title": "Doc", "start_char_index": 0, "end_char_index": 6},
    ),
    (
        Citation(metadata=typed("new_location", at=1)),
        {"type": "new_location", "cited_text": "", "document_title": None, "at": 1},
    ),
    (
        Citation("kb://1", "", "It is.",
                 metadata=typed("search_result_location", search_result_index=1,
                                start_block_index=0, end_block_index=2)),
        {"type": "search_result_location", "cited_text": "It is.", "source": "kb://1",
         "title": "", "search_result_index": 1, "start_block_index": 0, "end_block_index": 2},
    ),
)  # fmt: skip


@each_row(
    ("part", "block", "streamed"),
    [
        (
            Text("Hello"), {"type": "text", "text": "Hello"},
            [{"type": "text", "text": ""},
             {"type": "text_delta", "text": "Hel"}, {"type": "text_delta", "text": "lo"}],
        ),
        (
            Text("Hi", tuple(citation for citation, _ in CITATIONS)),
            {"type": "text", "text": "Hi", "citations": [document for _, document in CITATIONS]},
            [{"type": "text", "text": "", "citations": []},
             *({"type": "citations_delta", "citation": document} for _, document in CITATIONS),
             {"type": "text_delta", "text": "Hi"}],
        ),
        (
            Reasoning("Hm", "c2ln"), {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
            [{"type": "thinking", "thinking": "", "signature": ""},
             {"type": "thinking_delta", "thinking": "Hm"},
             {"type": "signature_delta", "signature": "c2ln"}],
        ),
        (
            Reasoning("", "c2ln"), {"type": "thinking", "thinking": "", "signature": "c2ln"},
            [{"type": "thinking", "thinking": "", "signature": ""},
             {"type": "signature_delta", "signature": "c2ln"}],
        ),
        (Reasoning(redacted="sealed"), {"type": "redacted_thinking", "data": "sealed"}, []),
        (
            Reasoning("So far.", "s", "e", typed("compaction")),
            {"type": "compaction", "content": "So far.", "encrypted_content": "e",
             "signature": "s"},
            [{"type": "compaction", "content": None, "signature": "s"},
             {"type": "compaction_delta", "content": "So far.", "encrypted_content": "e"}],
        ),
        (
            Reasoning(metadata=typed("compaction")), {"type": "compaction", "content": None},
            [{"type": "compaction", "content": None},
             {"type": "compaction_delta", "content": None}],
        ),
        (
            ToolCall("t", "f", "{}", (("caller", {"type": "direct"}),)),
            call("tool_use", "t", "f", {}, caller={"type": "direct"}),
            [call("tool_use", "t", "f", {}, caller={"type": "direct"}), *pieces()],
        ),
        (
            ToolCall("t", "f", HUGE), call("tool_use", "t", "f", json.loads(HUGE)),
            [call("tool_use", "t", "f", {}), *pieces(HUGE[:3], HUGE[3:])],
        ),
        (
            ToolCall("s", "web_search", '{"q":"a"}', typed("server_tool_use")),
            call("server_tool_use", "s", "web_search", {"q": "a"}),
            [call("server_tool_use", "s", "web_search", {}), *pieces('{"q', '":"a"}')],
        ),
        (
            ToolCall("m", "ask", '{"b":1,"a":[1.5]}', typed("mcp_tool_use", server_name="w")),
            call("mcp_tool_use", "m", "ask", {"b": 1, "a": [1.5]}, server_name="w"),
            [call("mcp_tool_use", "m", "ask", {}, server_name="w"),
             *pieces('{"b', '":1,"a":[1.5]}')],
        ),
        (
            ToolResult("s", '[{"url":"u"}]', "web_search",
                       metadata=typed("web_search_tool_result")),
            {**SEARCH_RESULT, "content": [{"url": "u"}]}, [],
        ),
        (
            ToolResult("s", "[]", "web_search", metadata=typed("web_search_tool_result")),
            {**SEARCH_RESULT, "content": []}, [],
        ),
        (
            ToolResult("s", BASH_ERROR, "bash_code_execution", failed=True,
                       metadata=typed("bash_code_execution_tool_result")),
            {"type": "bash_code_execution_tool_result", "tool_use_id": "s",
             "content": json.loads(BASH_ERROR)},
            [],
        ),
        (
            ToolResult("m", "no", failed=True, metadata=typed("mcp_tool_result")),
            {**MCP_RESULT, "content": [{"type": "text", "text": "no"}]}, [],
        ),
        (
            Media("*/*", metadata=typed("container_upload", file_id="file_1")),
            {"type": "container_upload", "file_id": "file_1"}, [],
        ),
    ],
)  # fmt: skip
def test_parts_and_blocks_convert_in_both_directions(
    part: Part, block: Fields, streamed: list[Fields]
) -> None:
    streamed = streamed or [block]  # a block that is whole at its start

    assert encode_message(part)["content"] == [block]
    assert decode_blocks(block) == (part,)
    assert block_and_deltas(encode_events(part)) == streamed
    assert decode_stream(block_events(*streamed)).parts == (part,)


USAGE: Final = {"input_tokens": 9, "output_tokens": 2}
ENDED: Final = Turn((), FinishReason.STOP, "end_turn", Usage(9, 2), id="msg_2", model="claude-b")
DETAILS: Final = {"type": "refusal", "category": "cyber", "explanation": "It is not allowed."}
REFUSED: Final = replace(
    ENDED, parts=(Text("Hi"), Refusal("It is not allowed.", (("category", "cyber"),))),
    finish=FinishReason.REFUSAL, finish_raw="refusal",
)  # fmt: skip
FAILED: Final = replace(
    ENDED, parts=(Text("Hi"),), finish=None, finish_raw="", usage=Usage(9, 1),
    failure=Failure("Overloaded", "overloaded_error"), metadata=(("request_id", "req_1"),),
)  # fmt: skip
FALLBACK: Final[dict[str, Json]] = {
    "type": "fallback",
    "from": {"model": "claude-a"},
    "to": {"model": "claude-b"},
}
LISTING: Final[dict[str, Json]] = {
    "type": "mcp_tool_listing",
    "mcp_server_name": "w",
    "tools": [{"name": "ask"}],
}
HI: Final = {"type": "text", "text": "Hi"}
HI_EVENTS: Final = message_start(
    model="claude-b", usage={"input_tokens": 9, "output_tokens": 1}
) + block_events({"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi"}, ping=PING)


def message(*content: Fields, stop_reason: str = "end_turn", **fields: Any) -> bytes:
    """A whole message."""
    document = {
        "id": "msg_2", "type": "message", "role": "assistant", "model": "claude-b",
        "content": content, "stop_reason": stop_reason, "stop_sequence": None, "usage": USAGE,
    }  # fmt: skip
    return json.dumps({**document, **fields}).encode()


@each_row(
    ("turn", "body"),
    [
        pytest.param(
            Turn(
                (Text("Hello"),), FinishReason.STOP, "end_turn",
                Usage(input=9, output=2, cache_read=4, cache_write=3),
                id="msg_1", model="claude-sonnet-5",
                metadata=(("usage", {"service_tier": "standard"}),),
            ),
            TEXT_STREAM,
            id="a stream with the padding of real ones",
        ),
        pytest.param(
            Turn(
                (
                    Reasoning("Two cities.", signature="c2lnbmF0dXJl"),
                    Text("Checking."),
                    ToolCall("toolu_a", "get_weather", '{"city": "Rome"}'),
                    ToolCall("toolu_b", "get_time", "{}"),
                ),
                FinishReason.TOOL_CALLS, "tool_use", Usage(input=9, output=40, reasoning=7),
                id="msg_2", model="claude-sonnet-5",
                metadata=(
                    ("diagnostics", {"cache": 1}),
                    ("container", {"id": "c"}),
                    ("context_management", {"applied_edits": []}),
                    ("usage", {"service_tier": "standard",
                               "server_tool_use": {"web_search_requests": 1}}),
                ),
            ),
            TOOLS_STREAM,
            id="a stream of thoughts and calls",
        ),
        pytest.param(
            REFUSED,
            HI_EVENTS
            + sse_event(
                "message_delta", usage=USAGE,
                delta={"stop_reason": "refusal", "stop_sequence": None, "stop_details": DETAILS},
            )
            + MESSAGE_STOP,
            id="a stream that is refused",
        ),
        pytest.param(
            replace(
                ENDED, parts=(Text("Hi"),), finish=FinishReason.STOP_SEQUENCE,
                finish_raw="stop_sequence", metadata=(("stop_sequence", "END"),),
            ),
            HI_EVENTS
            + sse_event(
                "message_delta", usage=USAGE,
                delta={"stop_reason": "stop_sequence", "stop_sequence": "END"},
            )
            + MESSAGE_STOP,
            id="a stream that ends at a stop sequence",
        ),
        pytest.param(FAILED, HI_EVENTS + ERROR_EVENT, id="a stream with an error"),
        pytest.param(
            replace(
                ENDED, parts=(Text("Hi"), ToolCall("toolu_1", "f", '{"b":1,"a":[2.5]}')),
                finish=FinishReason.STOP_SEQUENCE, finish_raw="stop_sequence",
                usage=Usage(9, 2, cache_read=3, reasoning=1),
                metadata=(("stop_sequence", "END"), ("usage", {"speed": "fast"})),
            ),
            message(
                HI, call("tool_use", "toolu_1", "f", {"b": 1, "a": [2.5]}),
                stop_reason="stop_sequence", stop_sequence="END",
                usage={**USAGE, "cache_read_input_tokens": 3, "speed": "fast",
                       "output_tokens_details": {"thinking_tokens": 1}},
            ),
            id="a document",
        ),
        pytest.param(
            REFUSED, message(HI, stop_reason="refusal", stop_details=DETAILS),
            id="a document that is refused",
        ),
        pytest.param(
            replace(
                ENDED, finish=FinishReason.REFUSAL, finish_raw="refusal",
                metadata=(("stop_details", {**DETAILS, "explanation": None}),),
            ),
            message(stop_reason="refusal", stop_details={**DETAILS, "explanation": None}),
            id="a refusal without an explanation",
        ),
        pytest.param(
            replace(
                ENDED, parts=(Text("Hi"), Text("Hi")),
                metadata=(
                    ("other_blocks", [{"index": 0, "content_block": FALLBACK},
                                      {"index": 3, "content_block": LISTING}]),
                ),
            ),
            message(FALLBACK, HI, HI, LISTING),
            id="blocks of other types, at their index",
        ),
        pytest.param(
            replace(
                ENDED,
                parts=(
                    ToolCall("m", "ask", "{}", typed("mcp_tool_use", server_name="w")),
                    ToolResult("m", '[{"type":"text","text":"Hi"},{"type":"text","text":"Hi"}]',
                               "ask", metadata=typed("mcp_tool_result")),
                ),
            ),
            message(
                call("mcp_tool_use", "m", "ask", {}, server_name="w"),
                {**MCP_RESULT, "is_error": False, "content": [HI, HI]},
            ),
            id="a result with the name of its call",
        ),
    ],
)  # fmt: skip
def test_turns_and_responses_convert_in_both_directions(turn: Turn, body: bytes) -> None:
    is_stream = body.startswith(b"event:")
    provider_response = stream_response(body) if is_stream else whole_response(body)
    response = DIALECT.encode_response(
        STREAM_REQUEST if is_stream else WHOLE_REQUEST, (turn,), SPLIT_CONTEXT
    )

    assert response_documents(response) == response_documents(provider_response)
    assert DIALECT.decode_response(provider_response) == (turn,)


def response_documents(response: DialectResponse) -> list[Any]:
    if response.codec_name == "sse":
        return event_documents(response)
    return [json.loads(message) for message in response.framed_messages]


@each_row(
    ("raw", "finish"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP_SEQUENCE),
        ("max_tokens", FinishReason.LENGTH),
        ("tool_use", FinishReason.TOOL_CALLS),
        ("pause_turn", FinishReason.PAUSED),
        ("compaction", FinishReason.PAUSED),
        ("refusal", FinishReason.REFUSAL),
        ("model_context_window_exceeded", FinishReason.CONTEXT_FULL),
        ("something_new", FinishReason.OTHER),
    ],
)
def test_stop_reasons_and_finishes_convert_in_both_directions(
    raw: str, finish: FinishReason
) -> None:
    (turn,) = DIALECT.decode_response(whole_response(message(stop_reason=raw)))
    assert turn == replace(ENDED, finish=finish, finish_raw=raw)
    assert decode_stream(message_delta(raw)).finish is finish
    assert encode_message(finish=finish, finish_raw=raw)["stop_reason"] == raw


@each_row("raw", ["", None])
def test_an_empty_stop_reason_is_none(raw: str | None) -> None:
    turn = decode_stream(text_delta("Hi"), message_delta(raw))
    assert (turn.finish, turn.finish_raw) == (None, "")


# What providers send and the encoder does not.


def test_a_legacy_completion_becomes_a_turn() -> None:
    turn = Turn(
        parts=(Text(" Hi you"),),
        finish=FinishReason.STOP_SEQUENCE,
        finish_raw="stop_sequence",
        id="compl_1",
        model="claude-2.1",
        metadata=(("stop", "\n\nHuman:"),),
    )
    last = json.loads(parse_event(framing.split_messages("sse", COMPLETION_STREAM)[-1]).data or b"")
    assert decode_stream(COMPLETION_STREAM) == turn
    assert DIALECT.decode_response(json_response(**(last | {"completion": " Hi you"}))) == (turn,)


@each_row(
    ("block", "parts"),
    [
        ({"type": "text", "text": ""}, ()),
        ({"type": "thinking", "thinking": "", "signature": ""}, ()),
        ({}, ()),
        (
            {"type": "text", "text": "Hi",
             "citations": [{"type": "search_result_location", "source": "kb://1", "title": None}]},
            (Text("Hi", (Citation("kb://1", metadata=typed("search_result_location")),)),),
        ),
        (
            {"type": "text", "text": "Hi",
             "citations": [{"type": "char_location", "document_title": "Doc", "file_id": None}]},
            (Text("Hi", (Citation(title="Doc", metadata=typed("char_location")),)),),
        ),
    ],
    ids=["empty text", "empty thinking", "no block at all", "no title", "no file"],
)  # fmt: skip
def test_a_block_that_is_never_encoded_is_decoded(block: Fields, parts: tuple[Part, ...]) -> None:
    assert decode_blocks(block) == parts


@each_row(
    ("events", "parts"),
    [
        pytest.param(
            block_delta("thinking_delta", thinking="Hm"), (Reasoning("Hm"),),
            id="thinking without a start",
        ),
        pytest.param(
            block_delta("input_json_delta", partial_json='{"a"'), (ToolCall("", "", '{"a"'),),
            id="a call without a start",
        ),
        pytest.param(
            block_delta("compaction_delta", content="So far."),
            (Reasoning("So far.", metadata=typed("compaction")),),
            id="compaction without a start",
        ),
        pytest.param(
            block_delta("signature_delta", signature="a")
            + block_delta("signature_delta", signature="b"),
            (Reasoning("", "b"),),
            id="a second signature in place of the first, without a start",
        ),
        pytest.param(
            sse_event("content_block_delta", delta={"type": "text_delta", "text": "a"})
            + text_delta("b", -1),
            (Text("ab"),),
            id="text without a start or an index",
        ),
        pytest.param(
            block_start({"type": "text", "text": "Yes", "citations": [{"url": "a"}]})
            + block_delta("citations_delta", citation={"url": "b"}),
            (Text("Yes", (Citation("a"), Citation("b"))),),
            id="citations of the start and of deltas",
        ),
        pytest.param(
            text_delta("a1") + text_delta("b1", 1) + text_delta("a2") + text_delta("b2", 1),
            (Text("a1a2"), Text("b1b2")),
            id="blocks side by side",
        ),
        pytest.param(
            text_delta("a") + block_delta("new_delta", new="x") + sse_event("new")
            + sse_event("content_block_stop", index=7)
            + b'event: content_block_delta\ndata: {"type":"cont\n\n' + text_delta("b"),
            (Text("ab"),),
            id="an unknown delta, event and block, and an event that is no JSON",
        ),
    ],
)  # fmt: skip
def test_events_that_are_never_encoded_are_decoded(events: bytes, parts: tuple[Part, ...]) -> None:
    assert decode_stream(events).parts == parts


@each_row(
    ("initial_input", "deltas", "is_closed", "arguments"),
    [
        ({}, [], False, ""),
        ({}, [], True, "{}"),
        ({}, [""], True, "{}"),
        ({}, ['{"city": "R'], False, '{"city": "R'),
        ({"player": 1}, [], True, '{"player":1}'),
        ({"player": 1}, ['{"player": 2}'], True, '{"player": 2}'),
        (None, [], True, ""),
    ],
    ids=["cut", "none", "empty", "cut inside", "in its start", "deltas win", "not said"],
)
def test_arguments_keep_the_streamed_text(
    initial_input: dict[str, Any] | None, deltas: list[str], is_closed: bool, arguments: str
) -> None:
    body = block_start(call("tool_use", "t", "f", initial_input))
    body += b"".join(block_delta("input_json_delta", partial_json=delta) for delta in deltas)
    body += sse_event("content_block_stop", index=0) if is_closed else b""
    assert decode_stream(body).parts == (ToolCall("t", "f", arguments),)


def test_the_model_is_the_last_fallback() -> None:
    start = sse_event("message_start", message={"model": "claude-a"})
    turn = decode_stream(
        start, block_start(FALLBACK),
        block_start({**FALLBACK, "to": {"model": "claude-c"}}, 1), text_delta("Hi", 2),
    )  # fmt: skip
    assert (turn.text, turn.model) == ("Hi", "claude-c")
    turn = decode_stream(start, block_start(FALLBACK))
    assert turn.model == "claude-b"
    assert turn.metadata == (("other_blocks", [{"index": 0, "content_block": FALLBACK}]),)


def test_the_last_value_of_each_count_and_field_that_is_not_null_is_kept() -> None:
    first = {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 1, "speed": "fast"}
    last = {"input_tokens": None, "output_tokens": 7, "server_tool_use": {"web_fetch_requests": 1}}
    container = {"id": "container_1"}
    turn = decode_stream(
        message_start(stop_reason="tool_use", container=container, usage=first),
        sse_event("message_delta", delta={"stop_reason": None, "container": None}, usage=last),
    )
    assert turn.usage == Usage(input=9, output=7, cache_read=4)
    assert turn.finish_raw == "tool_use"
    assert dict(turn.metadata) == {
        "container": container,
        "usage": {"speed": "fast", "server_tool_use": {"web_fetch_requests": 1}},
    }


@each_row("usage", [None, [], {}], ids=["null", "not an object", "empty"])
def test_usage_may_be_absent(usage: object) -> None:
    assert DIALECT.decode_response(json_response(content=[], usage=usage))[0].usage is None


def test_message_start_may_hold_the_whole_message() -> None:
    response = stream_response(
        message_start(
            content=[call("tool_use", "t", "f", {"player": 1})], stop_reason="tool_use"
        )
        + MESSAGE_STOP
    )  # fmt: skip
    assert DIALECT.completeness(response).is_complete
    (turn,) = DIALECT.decode_response(response)
    assert turn.parts == (ToolCall("t", "f", '{"player":1}'),)
    assert (turn.finish, turn.id) == (FinishReason.TOOL_CALLS, "msg_2")


def test_a_message_that_begins_anew_is_another_turn() -> None:
    cut = TOOLS_STREAM[: TOOLS_STREAM.index(b'ity\\": \\"Rome')]
    first, second = DIALECT.decode_response(
        stream_response(cut[: cut.rindex(b"event:")] + TEXT_STREAM)
    )
    assert (first.id, first.finish, second.id, second.text) == ("msg_2", None, "msg_1", "Hello")
    assert first.parts[-1] == ToolCall("toolu_a", "get_weather", '{"c')


def test_the_first_error_of_a_stream_counts_and_may_stand_alone() -> None:
    errors = (sse_event("error", error={"message": text}) for text in ("first", "second"))
    assert decode_stream(*errors) == Turn((), failure=Failure("first"))


def test_pings_and_unknown_events_are_no_turn() -> None:
    body = PING + sse_event("something_new") + MESSAGE_STOP
    assert DIALECT.decode_response(stream_response(body)) == ()
