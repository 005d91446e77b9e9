"""Anthropic messages as encoded, compared with what real servers send."""

from __future__ import annotations

from typing import Any, Final

import pytest

from anthropic_encoding import (
    PING_EVENT,
    STREAM_REQUEST,
    WHOLE_REQUEST,
    block_and_deltas,
    encode_events,
    encode_message,
    event_documents,
    reencode_events,
)
from anthropic_events import (
    DIALECT,
    TEXT_STREAM,
    TOOLS_STREAM,
    anthropic_request,
    decode_blocks,
    json_response,
    sse_response,
)
from case_tables import each_row
from dialect_manners import ENCODE_CONTEXT
from llm_proxy.errors import NotRepresentable
from llm_proxy.turns import (
    Citation,
    FinishReason,
    Json,
    Media,
    Metadata,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)


def test_a_text_is_encoded_event_for_event_as_the_provider_sends_it() -> None:
    assert reencode_events(TEXT_STREAM, STREAM_REQUEST) == event_documents(
        sse_response(TEXT_STREAM)
    )


def test_thoughts_and_calls_are_encoded_event_for_event_but_for_what_newer_servers_add() -> None:
    expected = event_documents(sse_response(TOOLS_STREAM))
    expected.insert(2, PING_EVENT)
    empty = {"type": "input_json_delta", "partial_json": ""}
    expected.insert(-3, {"type": "content_block_delta", "index": 3, "delta": empty})
    expected[-2]["usage"]["input_tokens"] = 9

    assert reencode_events(TOOLS_STREAM, STREAM_REQUEST) == expected


@pytest.mark.parametrize("stream", [True, False])
def test_a_legacy_completion_is_refused(stream: bool) -> None:
    request = anthropic_request("/v1/complete", model="claude-2.1", stream=stream)

    with pytest.raises(NotRepresentable, match="no turn on /v1/complete, only on /v1/messages"):
        DIALECT.encode_response(request, (Turn((Text("Hi"),)),), ENCODE_CONTEXT)


def test_a_message_is_encoded_field_for_field() -> None:
    expected = {
        "id": "msg_4",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 9, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0, "output_tokens": 2,
        },
    }  # fmt: skip
    usage = Usage(input=9, output=2, cache_read=0, cache_write=0)
    identity = {"id": "msg_4", "model": "claude-sonnet-5"}

    assert (
        encode_message(Text("Hello"), finish=FinishReason.STOP, usage=usage, **identity) == expected
    )


BLOCKS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "text", "text": "Hi"},
    {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "sealed"},
    {"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "direct"}},
    {"type": "tool_use", "id": "t", "name": "f", "input": {"huge": 2**70, "line": "\u2028"}},
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
    {"type": "mcp_tool_use", "id": "m", "name": "ask", "server_name": "w", "input": {"a": [1.5]}},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
    {
        "type": "bash_code_execution_tool_result",
        "tool_use_id": "s",
        "content": {"type": "bash_code_execution_tool_result_error", "error_code": "x"},
    },
    {
        "type": "mcp_tool_result", "tool_use_id": "m", "is_error": True,
        "content": [{"type": "text", "text": "no"}],
    },
    {
        "type": "mcp_tool_result", "tool_use_id": "m", "is_error": False,
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
    },
    {"type": "compaction", "content": "So far.", "encrypted_content": "e", "signature": "s"},
    {"type": "compaction", "content": None},
    {"type": "container_upload", "file_id": "file_1"},
    {"type": "mcp_tool_listing", "mcp_server_name": "w", "tools": [{"name": "ask"}]},
    {
        "type": "text", "text": "It is.",
        "citations": [
            {
                "type": "web_search_result_location", "cited_text": "It is.", "title": "Example",
                "url": "https://example.com", "encrypted_index": "e",
            },
            {
                "type": "char_location", "cited_text": "It is.", "document_index": 0,
                "document_title": None, "start_char_index": 0, "end_char_index": 6,
            },
            {
                "type": "search_result_location", "cited_text": "It is.", "source": "kb://1",
                "title": "", "search_result_index": 1, "start_block_index": 0,
                "end_block_index": 2,
            },
        ],
    },
)  # fmt: skip


@each_row("block", BLOCKS)
def test_each_block_is_encoded_as_it_was_decoded(block: dict[str, Any]) -> None:
    (turn,) = DIALECT.decode_response(json_response(type="message", content=[block]))

    assert encode_message(*turn.parts, metadata=turn.metadata)["content"] == [block]


def test_a_block_that_is_complete_at_its_start_has_no_deltas() -> None:
    for block in BLOCKS:
        if block["type"].endswith(("_result", "_upload")) or block["type"] == "redacted_thinking":
            assert block_and_deltas(encode_events(*decode_blocks(block))) == [block]


def test_a_text_is_encoded_after_its_citations() -> None:
    citation = {
        "type": "web_search_result_location", "cited_text": "It is.", "title": "", "url": "u",
        "encrypted_index": "",
    }  # fmt: skip

    assert block_and_deltas(
        encode_events(Text("Hello", (Citation("u", quoted="It is.", span=(0, 3)),)))
    ) == [
        {"type": "text", "text": "", "citations": []},
        {"type": "citations_delta", "citation": citation},
        {"type": "text_delta", "text": "Hel"},
        {"type": "text_delta", "text": "lo"},
    ]


def test_a_citation_without_a_url_is_encoded_as_a_document() -> None:
    (block,) = encode_message(Text("Yes", (Citation(title="Doc", metadata=(("type", "odd"),)),)))[
        "content"
    ]

    assert block["citations"] == [
        {
            "type": "char_location", "cited_text": "", "document_title": "Doc",
            "document_index": 0, "start_char_index": 0, "end_char_index": 0,
        }
    ]  # fmt: skip


def test_a_summary_of_the_conversation_comes_in_one_delta() -> None:
    summary = Reasoning("So far.", redacted="e", metadata=(("type", "compaction"),))

    assert block_and_deltas(encode_events(summary)) == [
        {"type": "compaction", "content": None},
        {"type": "compaction_delta", "content": "So far.", "encrypted_content": "e"},
    ]


def test_thoughts_without_a_signature_get_one_each() -> None:
    signatures = [
        item["signature"] for item in encode_message(Reasoning("a"), Reasoning("b"))["content"]
    ]

    assert len(set(signatures)) == 2
    assert all(len(signature) == 56 for signature in signatures)
    assert block_and_deltas(encode_events(Reasoning("a"))) == [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "a"},
        {"type": "signature_delta", "signature": signatures[0]},
    ]


def test_a_tool_that_another_provider_ran_is_encoded_as_an_mcp_tool() -> None:
    call = ToolCall("c", "look", '{"at":1}', (("type", "web_search_call"),))
    result = ToolResult("c", '{"found": 2}', "look", failed=True)

    assert encode_message(call, ToolCall("d", "f", "{}"), result)["content"] == [
        {"type": "mcp_tool_use", "id": "c", "name": "look", "server_name": "server",
         "input": {"at": 1}},
        {"type": "tool_use", "id": "d", "name": "f", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "c", "is_error": True,
         "content": [{"type": "text", "text": '{"found": 2}'}]},
    ]  # fmt: skip


def test_only_a_call_of_the_clients_own_tools_is_waited_for() -> None:
    provider_parts = (ToolCall("c", "look", "{}"), ToolResult("c", "5"))

    assert encode_message(*provider_parts)["stop_reason"] == "end_turn"
    assert encode_message(*provider_parts, ToolCall("d", "f", "{}"))["stop_reason"] == "tool_use"


def test_a_failed_text_result_of_an_anthropic_tool_is_marked_as_an_error() -> None:
    kind: Metadata = (("type", "web_fetch_tool_result"),)
    (block,) = encode_message(ToolResult("s", "gone", failed=True, metadata=kind))["content"]

    assert block["content"] == [{"type": "text", "text": "gone"}]
    assert block["is_error"] is True


def test_a_result_that_spells_a_block_of_text_stays_as_it_is_spelled() -> None:
    spelled = '[{"type":"text","text":"x"}]'
    (turn,) = DIALECT.representable_turns(
        WHOLE_REQUEST, (Turn((ToolResult("m", spelled),)),), ENCODE_CONTEXT
    ).turns

    assert DIALECT.decode_response(
        DIALECT.encode_response(WHOLE_REQUEST, (turn,), ENCODE_CONTEXT)
    ) == (turn,)
    assert isinstance(turn.parts[0], ToolResult)
    assert turn.parts[0].content == spelled


def test_media_are_not_representable() -> None:
    with pytest.raises(NotRepresentable, match="media"):
        encode_message(Media("image/png", url="https://example.com/a.png"))


def test_broken_arguments_can_be_encoded_only_in_a_stream() -> None:
    assert block_and_deltas(encode_events(ToolCall("t", "f", '{"a":'))) == [
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"a":'},
    ]
    with pytest.raises(NotRepresentable, match="the arguments of a call"):
        encode_message(ToolCall("t", "f", '{"a":'))


DECLINED: Final = {
    "type": "refusal", "category": "cyber", "explanation": "It is not allowed. At all.",
}  # fmt: skip


@each_row("finish", [None, FinishReason.STOP, FinishReason.CONTENT_FILTER, FinishReason.REFUSAL])
def test_a_refusal_ends_the_message_and_is_why_it_stops(finish: FinishReason | None) -> None:
    category: Metadata = (("category", "cyber"),)
    refusals = (Refusal("It is not allowed.", category), Text("I"), Refusal(" At all."))
    *_, message_delta, _ = encode_events(
        *refusals, finish=finish, metadata=(("stop_details", {"a": 1}),)
    )

    assert message_delta["delta"] == {
        "stop_reason": "refusal", "stop_sequence": None, "stop_details": DECLINED,
    }  # fmt: skip
    assert encode_message(*refusals)["content"] == [{"type": "text", "text": "I"}]


def test_details_that_explain_a_refusal_are_read_as_one() -> None:
    turn = Turn((), FinishReason.REFUSAL, metadata=(("stop_details", {**DECLINED, "odd": 1}),))
    (converted_turn,) = DIALECT.representable_turns(WHOLE_REQUEST, (turn,), ENCODE_CONTEXT).turns

    assert converted_turn.parts == (
        Refusal("It is not allowed. At all.", (("category", "cyber"),)),
    )
    assert converted_turn.metadata == ()


def test_content_filter_is_encoded_as_refusal() -> None:
    converted = DIALECT.representable_turns(
        STREAM_REQUEST, (Turn((), FinishReason.CONTENT_FILTER),), ENCODE_CONTEXT
    )

    assert converted.turns[0].finish_raw == "refusal"
    assert converted.losses == ("finish content_filter (told as refusal, which means refusal)",)


@each_row("finish", [FinishReason.PAUSED, FinishReason.CONTEXT_FULL, FinishReason.STOP_SEQUENCE])
def test_every_stop_reason_of_the_api_is_kept(finish: FinishReason) -> None:
    (converted_turn,) = DIALECT.representable_turns(
        STREAM_REQUEST, (Turn((Text("Hi"),), finish),), ENCODE_CONTEXT
    ).turns

    assert converted_turn.finish is finish


def test_blocks_without_a_part_type_keep_their_position() -> None:
    fallback: Json = {
        "type": "fallback",
        "from": {"model": "claude-a"},
        "to": {"model": "claude-b"},
    }
    odd: Json = {"type": "odd", "what": [1]}
    text: Json = {"type": "text", "text": "Hi"}
    others: Json = [
        {"index": 7, "content_block": odd},
        {"index": 0, "content_block": fallback},
        {"index": 0, "content_block": odd},
        {"index": 1, "content_block": text},  # a part, not one of the other blocks
    ]
    document_fields = encode_message(
        Text("Hi"), Text("Hi"), model="x", metadata=(("other_blocks", others),)
    )

    assert document_fields["content"] == [fallback, odd, text, text, odd]
    (turn,) = DIALECT.decode_response(
        DIALECT.encode_response(
            STREAM_REQUEST,
            DIALECT.decode_response(json_response(**document_fields)),
            ENCODE_CONTEXT,
        )
    )
    assert (turn.model, len(turn.parts)) == ("claude-b", 2)
