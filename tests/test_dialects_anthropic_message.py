from __future__ import annotations

import json
from typing import Any

import pytest

from anthropic_events import (
    COMPLETION,
    DIALECT,
    ERROR,
    STOP,
    TEXT,
    TOOLS,
    begins,
    document,
    ends,
    event,
    grows,
    head,
    parts_of,
    says,
    streamed,
)
from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Citation,
    Failure,
    Finish,
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
    assert DIALECT.decode(streamed(TEXT)) == (
        Turn(
            parts=(Text("Hello"),),
            finish=Finish.STOP,
            finish_raw="end_turn",
            usage=Usage(input=9, output=2, cache_read=4, cache_write=3),
            id="msg_1",
            model="claude-sonnet-5",
            metadata=(("usage", {"service_tier": "standard"}),),
        ),
    )


def test_thoughts_and_calls_become_a_turn() -> None:
    assert DIALECT.decode(streamed(TOOLS)) == (
        Turn(
            parts=(
                Reasoning("Two cities.", signature="c2lnbmF0dXJl"),
                Text("Checking."),
                ToolCall("toolu_a", "get_weather", '{"city": "Rome"}'),
                ToolCall("toolu_b", "get_time", "{}"),
            ),
            finish=Finish.TOOL_CALLS,
            finish_raw="tool_use",
            usage=Usage(input=9, output=40, reasoning=7),
            id="msg_2",
            model="claude-sonnet-5",
        ),
    )


def test_a_document_becomes_a_turn() -> None:
    answer = document(
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
    assert DIALECT.decode(answer) == (
        Turn(
            parts=(Text("Hello"), ToolCall("toolu_1", "f", '{"b":1,"a":[2.5]}')),
            finish=Finish.STOP_SEQUENCE,
            finish_raw="stop_sequence",
            usage=Usage(input=9, output=2),
            id="msg_4",
            model="claude-sonnet-5",
            metadata=(("stop_sequence", "END"),),
        ),
    )


def test_a_document_in_pieces_is_one_document() -> None:
    pieces = [b'{"content":[{"type":"te', b'xt","text":"Hi"}]}']
    assert [turn.text for turn in DIALECT.decode(DialectResponse(head(), "whole", pieces))] == [
        "Hi"
    ]


def test_a_legacy_completion_becomes_a_turn() -> None:
    turn = Turn(
        parts=(Text(" Hi you"),),
        finish=Finish.STOP_SEQUENCE,
        finish_raw="stop_sequence",
        id="compl_1",
        model="claude-2.1",
        metadata=(("stop", "\n\nHuman:"),),
    )
    last = json.loads(parse_event(framing.split_messages("sse", COMPLETION)[-1]).data or b"")
    assert DIALECT.decode(streamed(COMPLETION)) == (turn,)
    assert DIALECT.decode(document(**(last | {"completion": " Hi you"}))) == (turn,)


@pytest.mark.parametrize(
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
    assert parts_of(block) == (part,)


@pytest.mark.parametrize(
    "block",
    [{"type": "text", "text": ""}, {"type": "thinking", "thinking": "", "signature": ""}, {}],
    ids=["text", "thinking", "no block at all"],
)
def test_a_block_that_says_nothing_is_no_part(block: dict[str, Any]) -> None:
    assert parts_of(block) == ()


def test_blocks_of_text_stay_apart() -> None:
    assert parts_of({"type": "text", "text": "a"}, {"type": "text", "text": "b"}) == (
        Text("a"),
        Text("b"),
    )


def test_a_result_bears_the_name_of_its_call() -> None:
    call = {"type": "mcp_tool_use", "id": "m", "name": "ask", "server_name": "w", "input": {}}
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    _, result = parts_of(
        call, {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": False, "content": texts}
    )
    assert isinstance(result, ToolResult)
    assert (result.name, result.failed) == ("ask", False)
    assert json.loads(result.content) == texts


def test_a_block_without_a_word_is_kept_where_it_stood() -> None:
    block = {"type": "mcp_tool_listing", "mcp_server_name": "w", "tools": [{"name": "ask"}]}
    text = {"type": "text", "text": "Hi"}
    (turn,) = DIALECT.decode(document(type="message", content=[text, block]))
    assert turn.parts == (Text("Hi"),)
    assert turn.metadata == (("other_blocks", [{"index": 1, "content_block": block}]),)


def test_where_models_declined_the_last_one_answers() -> None:
    start = event("message_start", message={"model": "claude-a"})
    hop = {"type": "fallback", "from": {"model": "claude-a"}, "to": {"model": "claude-b"}}
    hops = begins(hop) + begins(hop | {"to": {"model": "claude-c"}}, 1)
    (turn,) = DIALECT.decode(streamed(start + hops + says("Hi", 2)))
    assert (turn.text, turn.model) == ("Hi", "claude-c")
    (once,) = DIALECT.decode(streamed(start + begins(hop)))
    assert once.model == "claude-b"
    assert dict(once.metadata)["other_blocks"] == [{"index": 0, "content_block": hop}]


@pytest.mark.parametrize(
    ("cited", "citation"),
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
def test_citations_are_the_texts(cited: dict[str, Any], citation: Citation) -> None:
    assert parts_of({"type": "text", "text": "Yes", "citations": [cited]}) == (
        Text("Yes", (citation,)),
    )
    start = begins({"type": "text", "text": "", "citations": []})
    body = start + grows("citations_delta", citation=cited) + says("Y") + says("es")
    assert DIALECT.decode(streamed(body))[0].parts == (Text("Yes", (citation,)),)


@pytest.mark.parametrize(
    ("events", "part"),
    [
        pytest.param(says("a") + says("b"), Text("ab"), id="text"),
        pytest.param(grows("thinking_delta", thinking="Hm"), Reasoning("Hm"), id="thinking"),
        pytest.param(grows("signature_delta", signature="s"), Reasoning("", "s"), id="a signature"),
        pytest.param(
            grows("input_json_delta", partial_json='{"a"'), ToolCall("", "", '{"a"'), id="a call"
        ),
        pytest.param(
            grows("compaction_delta", content="So far."),
            Reasoning("So far.", metadata=(("type", "compaction"),)),
            id="compaction",
        ),
        pytest.param(
            event("content_block_delta", delta={"type": "text_delta", "text": "a"}) + says("b", -1),
            Text("ab"),
            id="no index",
        ),
    ],
)
def test_a_delta_is_read_where_its_block_never_began(events: bytes, part: Part) -> None:
    assert DIALECT.decode(streamed(events))[0].parts == (part,)


def test_citations_of_the_start_come_before_those_of_the_deltas() -> None:
    body = begins({"type": "text", "text": "Yes", "citations": [{"url": "a"}]})
    body += grows("citations_delta", citation={"url": "b"})
    cited = (Citation("a"), Citation("b"))
    assert DIALECT.decode(streamed(body))[0].parts == (Text("Yes", cited),)


def test_a_second_signature_replaces_the_first() -> None:
    body = grows("signature_delta", signature="a") + grows("signature_delta", signature="b")
    assert DIALECT.decode(streamed(body))[0].parts == (Reasoning("", "b"),)


def test_deltas_find_their_block_also_where_blocks_run_side_by_side() -> None:
    body = says("a1", 0) + says("b1", 1) + says("a2", 0) + says("b2", 1)
    assert DIALECT.decode(streamed(body))[0].parts == (Text("a1a2"), Text("b1b2"))


@pytest.mark.parametrize(
    ("given_", "deltas", "is_closed", "arguments"),
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
def test_arguments_are_what_was_written(
    given_: dict[str, Any] | None, deltas: list[str], is_closed: bool, arguments: str
) -> None:
    body = begins({"type": "tool_use", "id": "t", "name": "f", "input": given_})
    body += b"".join(grows("input_json_delta", partial_json=delta) for delta in deltas)
    body += event("content_block_stop", index=0) if is_closed else b""
    assert DIALECT.decode(streamed(body))[0].parts == (ToolCall("t", "f", arguments),)


@pytest.mark.parametrize(
    ("raw", "finish"),
    [
        ("end_turn", Finish.STOP),
        ("stop_sequence", Finish.STOP_SEQUENCE),
        ("max_tokens", Finish.LENGTH),
        ("tool_use", Finish.TOOL_CALLS),
        ("pause_turn", Finish.PAUSED),
        ("compaction", Finish.PAUSED),
        ("refusal", Finish.REFUSAL),
        ("model_context_window_exceeded", Finish.CONTEXT_FULL),
        ("something_new", Finish.OTHER),
    ],
)
def test_stop_reasons_have_common_words(raw: str, finish: Finish) -> None:
    (turn,) = DIALECT.decode(streamed(says("Hi") + ends(raw)))
    assert (turn.finish, turn.finish_raw) == (finish, raw)


@pytest.mark.parametrize("raw", ["", None])
def test_an_empty_stop_reason_is_none(raw: str | None) -> None:
    (turn,) = DIALECT.decode(streamed(says("Hi") + ends(raw)))
    assert (turn.finish, turn.finish_raw) == (None, "")


def test_the_explanation_of_a_refusal_is_a_part() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "It is not allowed."}
    (turn,) = DIALECT.decode(streamed(says("I") + ends("refusal", stop_details=details)))
    assert turn.parts == (Text("I"), Refusal("It is not allowed.", (("category", "cyber"),)))
    assert turn.metadata == ()


def test_a_refusal_without_words_keeps_its_details() -> None:
    details = {"type": "refusal", "category": None, "explanation": None}
    (turn,) = DIALECT.decode(streamed(ends("refusal", stop_details=details)))
    assert (turn.parts, turn.metadata) == ((), (("stop_details", details),))


def test_usage_is_what_was_said_last_of_each_count() -> None:
    first = {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 1, "speed": "fast"}
    last = {"input_tokens": None, "output_tokens": 7, "server_tool_use": {"web_fetch_requests": 1}}
    body = event("message_start", message={"usage": first})
    body += event("message_delta", delta={}, usage=last)
    (turn,) = DIALECT.decode(streamed(body))
    assert turn.usage == Usage(input=9, output=7, cache_read=4)
    assert dict(turn.metadata) == {
        "usage": {"speed": "fast", "server_tool_use": {"web_fetch_requests": 1}}
    }


@pytest.mark.parametrize("usage", [None, [], {}], ids=["null", "not an object", "empty"])
def test_usage_may_be_absent(usage: object) -> None:
    assert DIALECT.decode(document(content=[], usage=usage))[0].usage is None


def test_what_has_no_word_of_its_own_is_kept_beside_the_turn() -> None:
    container = {"id": "container_1", "expires_at": "2026-11-21T10:00:00Z"}
    edits = {"applied_edits": [{"type": "clear_thinking_20251015"}]}
    delta = {"stop_reason": "end_turn", "stop_sequence": None, "container": container}
    body = event("message_delta", delta=delta, usage={}, context_management=edits)
    (turn,) = DIALECT.decode(streamed(says("Hi") + body))
    assert dict(turn.metadata) == {"container": container, "context_management": edits}


def test_null_takes_nothing_back() -> None:
    container = {"id": "container_1"}
    start = {"stop_reason": "tool_use", "container": container}
    body = event("message_start", message=start) + ends(None, container=None)
    (turn,) = DIALECT.decode(streamed(body))
    assert (turn.finish_raw, turn.metadata) == ("tool_use", (("container", container),))


def test_a_message_may_come_whole_in_its_start() -> None:
    message = {
        "id": "msg_5",
        "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"player": 1}}],
        "stop_reason": "tool_use",
    }
    answer = streamed(event("message_start", message=message) + STOP)
    assert DIALECT.completeness(answer).is_complete
    (turn,) = DIALECT.decode(answer)
    assert turn.parts == (ToolCall("t", "f", '{"player":1}'),)
    assert (turn.finish, turn.id) == (Finish.TOOL_CALLS, "msg_5")


def test_a_message_that_begins_anew_is_another_turn() -> None:
    cut = TOOLS[: TOOLS.index(b'"partial_json":"\\"Rome')]
    first, second = DIALECT.decode(streamed(cut[: cut.rindex(b"event:")] + TEXT))
    assert (first.id, first.finish, second.id, second.text) == ("msg_2", None, "msg_1", "Hello")
    assert first.parts[-1] == ToolCall("toolu_a", "get_weather", '{"city": ')


def test_an_error_in_the_stream_keeps_what_was_said_before() -> None:
    (turn,) = DIALECT.decode(streamed(says("Hi") + ERROR))
    assert (turn.text, turn.finish) == ("Hi", None)
    assert turn.failure == Failure("Overloaded", "overloaded_error")
    assert turn.metadata == (("request_id", "req_1"),)


def test_the_first_error_of_a_stream_counts_and_may_stand_alone() -> None:
    body = event("error", error={"message": "first"}) + event("error", error={"message": "second"})
    assert DIALECT.decode(streamed(body)) == (Turn((), failure=Failure("first")),)


def test_pings_and_unknown_events_and_deltas_say_nothing() -> None:
    assert DIALECT.decode(streamed(event("ping") + event("something_new") + STOP)) == ()
    body = says("a") + grows("new_delta", new="x") + event("new") + says("b")
    assert DIALECT.decode(streamed(body))[0].parts == (Text("ab"),)


def test_an_event_that_cannot_be_read_is_left_out() -> None:
    body = says("a") + b'event: content_block_delta\ndata: {"type":"cont\n\n' + says("b")
    assert DIALECT.decode(streamed(body))[0].text == "ab"
