from __future__ import annotations

import json
from typing import Any

import pytest

from anthropic_events import (
    COMPLETION_STREAM,
    DIALECT,
    ERROR_EVENT,
    MESSAGE_STOP,
    TEXT_STREAM,
    TOOLS_STREAM,
    block_delta,
    block_start,
    decode_blocks,
    json_response,
    message_delta,
    sse_event,
    sse_response,
    text_delta,
)
from case_tables import each_row
from llm_proxy import framing
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
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


def test_a_text_stream_becomes_a_turn() -> None:
    assert DIALECT.decode_response(sse_response(TEXT_STREAM)) == (
        Turn(
            parts=(Text("Hello"),),
            finish=FinishReason.STOP,
            finish_raw="end_turn",
            usage=Usage(input=9, output=2, cache_read=4, cache_write=3),
            id="msg_1",
            model="claude-sonnet-5",
            metadata=(("usage", {"service_tier": "standard"}),),
        ),
    )


def test_thoughts_and_calls_become_a_turn() -> None:
    assert DIALECT.decode_response(sse_response(TOOLS_STREAM)) == (
        Turn(
            parts=(
                Reasoning("Two cities.", signature="c2lnbmF0dXJl"),
                Text("Checking."),
                ToolCall("toolu_a", "get_weather", '{"city": "Rome"}'),
                ToolCall("toolu_b", "get_time", "{}"),
            ),
            finish=FinishReason.TOOL_CALLS,
            finish_raw="tool_use",
            usage=Usage(input=9, output=40, reasoning=7),
            id="msg_2",
            model="claude-sonnet-5",
        ),
    )


def test_a_document_becomes_a_turn() -> None:
    response = json_response(
        id="msg_4",
        type="message",
        role="assistant",
        model="claude-sonnet-5",
        content=[
            {"type": "text", "text": "Hello"},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"b": 1, "a": [2.5]}},
        ],
        stop_reason="stop_sequence",
        stop_sequence="END",
        usage={"input_tokens": 9, "output_tokens": 2},
    )
    assert DIALECT.decode_response(response) == (
        Turn(
            parts=(Text("Hello"), ToolCall("toolu_1", "f", '{"b":1,"a":[2.5]}')),
            finish=FinishReason.STOP_SEQUENCE,
            finish_raw="stop_sequence",
            usage=Usage(input=9, output=2),
            id="msg_4",
            model="claude-sonnet-5",
            metadata=(("stop_sequence", "END"),),
        ),
    )


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
    assert DIALECT.decode_response(sse_response(COMPLETION_STREAM)) == (turn,)
    assert DIALECT.decode_response(json_response(**(last | {"completion": " Hi you"}))) == (turn,)


@each_row(
    ("block", "part"),
    [
        pytest.param({"type": "text", "text": "Hi"}, Text("Hi"), id="text"),
        pytest.param(
            {"type": "thinking", "thinking": "Hm", "signature": "s"},
            Reasoning("Hm", "s"),
            id="thinking",
        ),
        pytest.param(
            {"type": "thinking", "thinking": "", "signature": "s"},
            Reasoning("", "s"),
            id="omitted thinking",
        ),
        pytest.param(
            {"type": "redacted_thinking", "data": "sealed"},
            Reasoning(redacted="sealed"),
            id="redacted thinking",
        ),
        pytest.param(
            {"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "direct"}},
            ToolCall("t", "f", "{}", metadata=(("caller", {"type": "direct"}),)),
            id="a call and its caller",
        ),
        pytest.param(
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            ToolCall("s", "web_search", '{"query":"q"}', metadata=(("type", "server_tool_use"),)),
            id="a server tool",
        ),
        pytest.param(
            {"type": "mcp_tool_use", "id": "m", "name": "ask", "server_name": "w", "input": {}},
            ToolCall("m", "ask", "{}", metadata=(("type", "mcp_tool_use"), ("server_name", "w"))),
            id="an MCP tool",
        ),
        pytest.param(
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]},
            ToolResult(
                "s", '[{"url":"u"}]', "web_search", metadata=(("type", "web_search_tool_result"),)
            ),
            id="search results",
        ),
        pytest.param(
            {
                "type": "bash_code_execution_tool_result",
                "tool_use_id": "s",
                "content": {"type": "bash_code_execution_tool_result_error", "error_code": "x"},
            },
            ToolResult(
                "s",
                '{"type":"bash_code_execution_tool_result_error","error_code":"x"}',
                "bash_code_execution",
                failed=True,
                metadata=(("type", "bash_code_execution_tool_result"),),
            ),
            id="a server tool that failed",
        ),
        pytest.param(
            {
                "type": "mcp_tool_result",
                "tool_use_id": "m",
                "is_error": True,
                "content": [{"type": "text", "text": "no"}],
            },
            ToolResult("m", "no", failed=True, metadata=(("type", "mcp_tool_result"),)),
            id="an MCP tool that failed",
        ),
        pytest.param(
            {"type": "container_upload", "file_id": "file_1"},
            Media("*/*", metadata=(("type", "container_upload"), ("file_id", "file_1"))),
            id="a file in the container",
        ),
        pytest.param(
            {"type": "compaction", "content": "So far.", "encrypted_content": "e"},
            Reasoning("So far.", redacted="e", metadata=(("type", "compaction"),)),
            id="compaction",
        ),
    ],
)
def test_each_type_of_block_is_a_part(block: dict[str, Any], part: Part) -> None:
    assert decode_blocks(block) == (part,)


@each_row(
    "block",
    [{"type": "text", "text": ""}, {"type": "thinking", "thinking": "", "signature": ""}, {}],
    ids=["text", "thinking", "no block at all"],
)
def test_an_empty_block_is_no_part(block: dict[str, Any]) -> None:
    assert decode_blocks(block) == ()


def test_blocks_of_text_stay_apart() -> None:
    assert decode_blocks({"type": "text", "text": "a"}, {"type": "text", "text": "b"}) == (
        Text("a"),
        Text("b"),
    )


def test_a_tool_result_has_the_name_of_its_call() -> None:
    call = {"type": "mcp_tool_use", "id": "m", "name": "ask", "server_name": "w", "input": {}}
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    _, result = decode_blocks(
        call, {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": False, "content": texts}
    )
    assert isinstance(result, ToolResult)
    assert (result.name, result.failed) == ("ask", False)
    assert json.loads(result.content) == texts


def test_an_unknown_block_is_kept_with_its_index() -> None:
    block = {"type": "mcp_tool_listing", "mcp_server_name": "w", "tools": [{"name": "ask"}]}
    text = {"type": "text", "text": "Hi"}
    (turn,) = DIALECT.decode_response(json_response(type="message", content=[text, block]))
    assert turn.parts == (Text("Hi"),)
    assert turn.metadata == (("other_blocks", [{"index": 1, "content_block": block}]),)


def test_the_model_is_the_last_fallback() -> None:
    start = sse_event("message_start", message={"model": "claude-a"})
    fallback = {"type": "fallback", "from": {"model": "claude-a"}, "to": {"model": "claude-b"}}
    fallbacks = block_start(fallback) + block_start(fallback | {"to": {"model": "claude-c"}}, 1)
    (turn,) = DIALECT.decode_response(sse_response(start + fallbacks + text_delta("Hi", 2)))
    assert (turn.text, turn.model) == ("Hi", "claude-c")
    (single_hop_turn,) = DIALECT.decode_response(sse_response(start + block_start(fallback)))
    assert single_hop_turn.model == "claude-b"
    assert dict(single_hop_turn.metadata)["other_blocks"] == [
        {"index": 0, "content_block": fallback}
    ]


@each_row(
    ("raw_citation", "citation"),
    [
        pytest.param(
            {
                "type": "web_search_result_location",
                "cited_text": "It is.",
                "url": "https://example.com",
                "title": "Example",
                "encrypted_index": "e",
            },
            Citation(
                "https://example.com",
                "Example",
                "It is.",
                metadata=(("type", "web_search_result_location"), ("encrypted_index", "e")),
            ),
            id="a page",
        ),
        pytest.param(
            {
                "type": "char_location",
                "cited_text": "It is.",
                "document_index": 0,
                "document_title": "Doc",
                "file_id": None,
                "start_char_index": 0,
                "end_char_index": 6,
            },
            Citation(
                title="Doc",
                quoted="It is.",
                metadata=(
                    ("type", "char_location"),
                    ("document_index", 0),
                    ("start_char_index", 0),
                    ("end_char_index", 6),
                ),
            ),
            id="a document",
        ),
        pytest.param(
            {"type": "search_result_location", "source": "kb://1", "title": None},
            Citation("kb://1", metadata=(("type", "search_result_location"),)),
            id="the client's own search result",
        ),
    ],
)
def test_citations_belong_to_their_text(raw_citation: dict[str, Any], citation: Citation) -> None:
    assert decode_blocks({"type": "text", "text": "Yes", "citations": [raw_citation]}) == (
        Text("Yes", (citation,)),
    )
    start = block_start({"type": "text", "text": "", "citations": []})
    body = (
        start
        + block_delta("citations_delta", citation=raw_citation)
        + text_delta("Y")
        + text_delta("es")
    )
    assert DIALECT.decode_response(sse_response(body))[0].parts == (Text("Yes", (citation,)),)


@each_row(
    ("events", "part"),
    [
        pytest.param(text_delta("a") + text_delta("b"), Text("ab"), id="text"),
        pytest.param(block_delta("thinking_delta", thinking="Hm"), Reasoning("Hm"), id="thinking"),
        pytest.param(
            block_delta("signature_delta", signature="s"), Reasoning("", "s"), id="a signature"
        ),
        pytest.param(
            block_delta("input_json_delta", partial_json='{"a"'),
            ToolCall("", "", '{"a"'),
            id="a call",
        ),
        pytest.param(
            block_delta("compaction_delta", content="So far."),
            Reasoning("So far.", metadata=(("type", "compaction"),)),
            id="compaction",
        ),
        pytest.param(
            sse_event("content_block_delta", delta={"type": "text_delta", "text": "a"})
            + text_delta("b", -1),
            Text("ab"),
            id="no index",
        ),
    ],
)
def test_a_delta_without_a_block_start_is_decoded(events: bytes, part: Part) -> None:
    assert DIALECT.decode_response(sse_response(events))[0].parts == (part,)


def test_citations_of_the_start_come_before_those_of_the_deltas() -> None:
    body = block_start({"type": "text", "text": "Yes", "citations": [{"url": "a"}]})
    body += block_delta("citations_delta", citation={"url": "b"})
    citations = (Citation("a"), Citation("b"))
    assert DIALECT.decode_response(sse_response(body))[0].parts == (Text("Yes", citations),)


def test_a_second_signature_replaces_the_first() -> None:
    body = block_delta("signature_delta", signature="a") + block_delta(
        "signature_delta", signature="b"
    )
    assert DIALECT.decode_response(sse_response(body))[0].parts == (Reasoning("", "b"),)


def test_deltas_find_their_block_also_where_blocks_run_side_by_side() -> None:
    body = text_delta("a1", 0) + text_delta("b1", 1) + text_delta("a2", 0) + text_delta("b2", 1)
    assert DIALECT.decode_response(sse_response(body))[0].parts == (Text("a1a2"), Text("b1b2"))


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
    body = block_start({"type": "tool_use", "id": "t", "name": "f", "input": initial_input})
    body += b"".join(block_delta("input_json_delta", partial_json=delta) for delta in deltas)
    body += sse_event("content_block_stop", index=0) if is_closed else b""
    assert DIALECT.decode_response(sse_response(body))[0].parts == (ToolCall("t", "f", arguments),)


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
def test_stop_reasons_map_to_finish_values(raw: str, finish: FinishReason) -> None:
    (turn,) = DIALECT.decode_response(sse_response(text_delta("Hi") + message_delta(raw)))
    assert (turn.finish, turn.finish_raw) == (finish, raw)


@pytest.mark.parametrize("raw", ["", None])
def test_an_empty_stop_reason_is_none(raw: str | None) -> None:
    (turn,) = DIALECT.decode_response(sse_response(text_delta("Hi") + message_delta(raw)))
    assert (turn.finish, turn.finish_raw) == (None, "")


def test_the_explanation_of_a_refusal_is_a_part() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "It is not allowed."}
    (turn,) = DIALECT.decode_response(
        sse_response(text_delta("I") + message_delta("refusal", stop_details=details))
    )
    assert turn.parts == (Text("I"), Refusal("It is not allowed.", (("category", "cyber"),)))
    assert turn.metadata == ()


def test_a_refusal_without_an_explanation_keeps_its_details() -> None:
    details = {"type": "refusal", "category": None, "explanation": None}
    (turn,) = DIALECT.decode_response(sse_response(message_delta("refusal", stop_details=details)))
    assert (turn.parts, turn.metadata) == ((), (("stop_details", details),))


def test_usage_takes_the_last_value_of_each_count() -> None:
    first = {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 1, "speed": "fast"}
    last = {"input_tokens": None, "output_tokens": 7, "server_tool_use": {"web_fetch_requests": 1}}
    body = sse_event("message_start", message={"usage": first})
    body += sse_event("message_delta", delta={}, usage=last)
    (turn,) = DIALECT.decode_response(sse_response(body))
    assert turn.usage == Usage(input=9, output=7, cache_read=4)
    assert dict(turn.metadata) == {
        "usage": {"speed": "fast", "server_tool_use": {"web_fetch_requests": 1}}
    }


@each_row("usage", [None, [], {}], ids=["null", "not an object", "empty"])
def test_usage_may_be_absent(usage: object) -> None:
    assert DIALECT.decode_response(json_response(content=[], usage=usage))[0].usage is None


def test_unmapped_fields_are_kept_as_metadata() -> None:
    container = {"id": "container_1", "expires_at": "2026-11-21T10:00:00Z"}
    edits = {"applied_edits": [{"type": "clear_thinking_20251015"}]}
    delta = {"stop_reason": "end_turn", "stop_sequence": None, "container": container}
    body = sse_event("message_delta", delta=delta, usage={}, context_management=edits)
    (turn,) = DIALECT.decode_response(sse_response(text_delta("Hi") + body))
    assert dict(turn.metadata) == {"container": container, "context_management": edits}


def test_null_does_not_clear_an_earlier_value() -> None:
    container = {"id": "container_1"}
    start = {"stop_reason": "tool_use", "container": container}
    body = sse_event("message_start", message=start) + message_delta(None, container=None)
    (turn,) = DIALECT.decode_response(sse_response(body))
    assert (turn.finish_raw, turn.metadata) == ("tool_use", (("container", container),))


def test_message_start_may_hold_the_whole_message() -> None:
    message = {
        "id": "msg_5",
        "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"player": 1}}],
        "stop_reason": "tool_use",
    }
    response = sse_response(sse_event("message_start", message=message) + MESSAGE_STOP)
    assert DIALECT.completeness(response).is_complete
    (turn,) = DIALECT.decode_response(response)
    assert turn.parts == (ToolCall("t", "f", '{"player":1}'),)
    assert (turn.finish, turn.id) == (FinishReason.TOOL_CALLS, "msg_5")


def test_a_message_that_begins_anew_is_another_turn() -> None:
    cut = TOOLS_STREAM[: TOOLS_STREAM.index(b'"partial_json":"\\"Rome')]
    first, second = DIALECT.decode_response(
        sse_response(cut[: cut.rindex(b"event:")] + TEXT_STREAM)
    )
    assert (first.id, first.finish, second.id, second.text) == ("msg_2", None, "msg_1", "Hello")
    assert first.parts[-1] == ToolCall("toolu_a", "get_weather", '{"city": ')


def test_an_error_in_the_stream_keeps_the_preceding_content() -> None:
    (turn,) = DIALECT.decode_response(sse_response(text_delta("Hi") + ERROR_EVENT))
    assert (turn.text, turn.finish) == ("Hi", None)
    assert turn.failure == Failure("Overloaded", "overloaded_error")
    assert turn.metadata == (("request_id", "req_1"),)


def test_the_first_error_of_a_stream_counts_and_may_stand_alone() -> None:
    body = sse_event("error", error={"message": "first"}) + sse_event(
        "error", error={"message": "second"}
    )
    assert DIALECT.decode_response(sse_response(body)) == (Turn((), failure=Failure("first")),)


def test_pings_and_unknown_events_and_deltas_are_ignored() -> None:
    assert (
        DIALECT.decode_response(
            sse_response(sse_event("ping") + sse_event("something_new") + MESSAGE_STOP)
        )
        == ()
    )
    body = text_delta("a") + block_delta("new_delta", new="x") + sse_event("new") + text_delta("b")
    assert DIALECT.decode_response(sse_response(body))[0].parts == (Text("ab"),)


def test_an_unparsable_event_is_skipped() -> None:
    body = (
        text_delta("a") + b'event: content_block_delta\ndata: {"type":"cont\n\n' + text_delta("b")
    )
    assert DIALECT.decode_response(sse_response(body))[0].text == "ab"
