"""Anthropic's messages and completions as they are told, against what real servers send."""

from __future__ import annotations

from typing import Any, Final

import pytest

from anthropic_encoding import LEGACY, PING, STREAM, WHOLE, documents, grown, message, retold, told
from anthropic_events import COMPLETION, DIALECT, TEXT, TOOLS, document, parts_of, streamed
from dialect_manners import DELIVERY
from llm_proxy.errors import NotRepresentable
from llm_proxy.turns import (
    Citation,
    Finish,
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


def test_a_text_is_told_event_for_event_as_the_provider_tells_it() -> None:
    assert retold(TEXT, STREAM) == documents(streamed(TEXT))


def test_thoughts_and_calls_are_told_event_for_event_but_for_what_newer_servers_add() -> None:
    expected = documents(streamed(TOOLS))
    expected.insert(2, PING)
    empty = {"type": "input_json_delta", "partial_json": ""}
    expected.insert(-3, {"type": "content_block_delta", "index": 3, "delta": empty})
    expected[-2]["usage"]["input_tokens"] = 9

    assert retold(TOOLS, STREAM) == expected


def test_a_completion_is_told_event_for_event() -> None:
    assert retold(COMPLETION, LEGACY) == documents(streamed(COMPLETION))


def test_a_message_is_told_field_for_field() -> None:
    answer = {
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
    about = {"id": "msg_4", "model": "claude-sonnet-5"}

    assert message(Text("Hello"), finish=Finish.STOP, usage=usage, **about) == answer


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


@pytest.mark.parametrize("block", BLOCKS, ids=lambda it: it["type"])
def test_each_block_is_told_as_it_was_read(block: dict[str, Any]) -> None:
    (turn,) = DIALECT.decode(document(type="message", content=[block]))

    assert message(*turn.parts, metadata=turn.metadata)["content"] == [block]


def test_what_is_complete_when_it_begins_has_no_deltas() -> None:
    for block in BLOCKS:
        if block["type"].endswith(("_result", "_upload")) or block["type"] == "redacted_thinking":
            assert grown(told(*parts_of(block))) == [block]


def test_a_text_is_told_behind_what_it_rests_on() -> None:
    cited = {
        "type": "web_search_result_location", "cited_text": "It is.", "title": "", "url": "u",
        "encrypted_index": "",
    }  # fmt: skip

    assert grown(told(Text("Hello", (Citation("u", quoted="It is.", span=(0, 3)),)))) == [
        {"type": "text", "text": "", "citations": []},
        {"type": "citations_delta", "citation": cited},
        {"type": "text_delta", "text": "Hel"},
        {"type": "text_delta", "text": "lo"},
    ]


def test_what_is_cited_without_an_address_is_a_document() -> None:
    (block,) = message(Text("Yes", (Citation(title="Doc", metadata=(("type", "odd"),)),)))[
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

    assert grown(told(summary)) == [
        {"type": "compaction", "content": None},
        {"type": "compaction_delta", "content": "So far.", "encrypted_content": "e"},
    ]


def test_thoughts_without_a_signature_get_one_each() -> None:
    thoughts = [item["signature"] for item in message(Reasoning("a"), Reasoning("b"))["content"]]

    assert len(set(thoughts)) == 2
    assert all(len(thought) == 56 for thought in thoughts)
    assert grown(told(Reasoning("a"))) == [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "a"},
        {"type": "signature_delta", "signature": thoughts[0]},
    ]


def test_a_tool_that_another_provider_ran_is_told_as_an_mcp_servers() -> None:
    call = ToolCall("c", "look", '{"at":1}', (("type", "web_search_call"),))
    found = ToolResult("c", '{"found": 2}', "look", failed=True)

    assert message(call, ToolCall("d", "f", "{}"), found)["content"] == [
        {"type": "mcp_tool_use", "id": "c", "name": "look", "server_name": "server",
         "input": {"at": 1}},
        {"type": "tool_use", "id": "d", "name": "f", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "c", "is_error": True,
         "content": [{"type": "text", "text": '{"found": 2}'}]},
    ]  # fmt: skip


def test_only_a_call_of_the_clients_own_tools_is_waited_for() -> None:
    ran = (ToolCall("c", "look", "{}"), ToolResult("c", "5"))

    assert message(*ran)["stop_reason"] == "end_turn"
    assert message(*ran, ToolCall("d", "f", "{}"))["stop_reason"] == "tool_use"


def test_a_result_in_words_of_a_tool_of_anthropics_says_that_it_failed() -> None:
    kind: Metadata = (("type", "web_fetch_tool_result"),)
    (block,) = message(ToolResult("s", "gone", failed=True, metadata=kind))["content"]

    assert block["content"] == [{"type": "text", "text": "gone"}]
    assert block["is_error"] is True


def test_a_result_that_spells_a_block_of_text_stays_as_it_is_spelled() -> None:
    spelled = '[{"type":"text","text":"x"}]'
    (turn,) = DIALECT.convert(WHOLE, (Turn((ToolResult("m", spelled),)),), DELIVERY).turns

    assert DIALECT.decode(DIALECT.encode(WHOLE, (turn,), DELIVERY)) == (turn,)
    assert isinstance(turn.parts[0], ToolResult)
    assert turn.parts[0].content == spelled


def test_media_have_no_word() -> None:
    with pytest.raises(NotRepresentable, match="media"):
        message(Media("image/png", url="https://example.com/a.png"))


def test_broken_arguments_are_told_in_a_stream_alone() -> None:
    assert grown(told(ToolCall("t", "f", '{"a":'))) == [
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"a":'},
    ]
    with pytest.raises(NotRepresentable, match="the arguments of a call"):
        message(ToolCall("t", "f", '{"a":'))


DECLINED: Final = {
    "type": "refusal", "category": "cyber", "explanation": "It is not allowed. At all.",
}  # fmt: skip


@pytest.mark.parametrize("finish", [None, Finish.STOP, Finish.CONTENT_FILTER, Finish.REFUSAL])
def test_a_refusal_ends_the_message_and_is_why_it_stops(finish: Finish | None) -> None:
    category: Metadata = (("category", "cyber"),)
    refusals = (Refusal("It is not allowed.", category), Text("I"), Refusal(" At all."))
    *_, last, _ = told(*refusals, finish=finish, metadata=(("stop_details", {"a": 1}),))

    assert last["delta"] == {
        "stop_reason": "refusal", "stop_sequence": None, "stop_details": DECLINED,
    }  # fmt: skip
    assert message(*refusals)["content"] == [{"type": "text", "text": "I"}]


def test_details_that_explain_a_refusal_are_read_as_one() -> None:
    turn = Turn((), Finish.REFUSAL, metadata=(("stop_details", {**DECLINED, "odd": 1}),))
    (fits,) = DIALECT.convert(WHOLE, (turn,), DELIVERY).turns

    assert fits.parts == (Refusal("It is not allowed. At all.", (("category", "cyber"),)),)
    assert fits.metadata == ()


def test_what_was_filtered_is_told_as_refused() -> None:
    fitted = DIALECT.convert(STREAM, (Turn((), Finish.CONTENT_FILTER),), DELIVERY)

    assert fitted.turns[0].finish_raw == "refusal"
    assert fitted.losses == ("finish content_filter (told as refusal, which means refusal)",)


@pytest.mark.parametrize("finish", [Finish.PAUSED, Finish.CONTEXT_FULL, Finish.STOP_SEQUENCE])
def test_every_reason_that_it_knows_is_told(finish: Finish) -> None:
    (fits,) = DIALECT.convert(STREAM, (Turn((Text("Hi"),), finish),), DELIVERY).turns

    assert fits.finish is finish


def test_blocks_that_no_part_has_a_word_for_stand_where_they_stood() -> None:
    hop: Json = {"type": "fallback", "from": {"model": "claude-a"}, "to": {"model": "claude-b"}}
    odd: Json = {"type": "odd", "what": [1]}
    text: Json = {"type": "text", "text": "Hi"}
    others: Json = [
        {"index": 7, "content_block": odd},
        {"index": 0, "content_block": hop},
        {"index": 0, "content_block": odd},
        {"index": 1, "content_block": text},  # a part, and none of these
    ]
    answer = message(Text("Hi"), Text("Hi"), model="x", metadata=(("other_blocks", others),))

    assert answer["content"] == [hop, odd, text, text, odd]
    (turn,) = DIALECT.decode(DIALECT.encode(STREAM, DIALECT.decode(document(**answer)), DELIVERY))
    assert (turn.model, len(turn.parts)) == ("claude-b", 2)
