from __future__ import annotations

from typing import Any

import pytest

from case_tables import each_row
from llm_proxy.dialects.openai import output_items
from llm_proxy.turns import (
    Citation,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)


def decode_item(**item: Any) -> tuple[Part, ...]:
    return tuple(output_items.decode_item(item))


def decode_message(*content: dict[str, Any], **fields: Any) -> tuple[Part, ...]:
    return decode_item(type="message", role="assistant", content=list(content), **fields)


def test_a_message_decodes_to_texts_and_refusals() -> None:
    parts = decode_message(
        {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []},
        {"type": "refusal", "refusal": "No."},
        id="msg_1",
        status="completed",
    )
    assert parts == (
        Text("Hello", metadata=(("id", "msg_1"),)),
        Refusal("No.", metadata=(("id", "msg_1"),)),
    )


def test_fields_of_a_message_are_metadata_except_a_completed_status() -> None:
    logprobs = [{"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}]
    text = {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": logprobs}
    (part,) = decode_message(text, id="msg_1", status="incomplete", phase="commentary")
    assert part.metadata == (
        ("id", "msg_1"),
        ("status", "incomplete"),
        ("phase", "commentary"),
        ("logprobs", logprobs),
    )


@each_row(
    "item",
    [
        {"type": "message", "content": "Hi"},
        {"type": "message", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
    ],
    ids=["content that is a string", "a text by another name", "a message without a type"],
)
def test_messages_of_other_servers_are_decoded(item: dict[str, Any]) -> None:
    (part,) = decode_item(**item)
    assert isinstance(part, Text)
    assert part.text == "Hi"


@each_row(
    "content",
    [[], [{"type": "output_text", "text": "", "annotations": []}], [{"type": "video"}], None, 7],
)
def test_an_empty_message_has_no_parts(content: Any) -> None:
    assert decode_item(type="message", id="msg_1", content=content) == ()


@each_row(
    ("annotation", "citation"),
    [
        pytest.param(
            {"type": "url_citation", "url": "u", "title": "t", "start_index": 1, "end_index": 4},
            Citation("u", "t", span=(1, 4)),
            id="a page",
        ),
        pytest.param({"type": "url_citation", "url": "u"}, Citation("u"), id="xAI's"),
        pytest.param(
            {"type": "url_citation", "url": "u", "start_index": 0, "end_index": 0, "content": "q"},
            Citation("u", quoted="q"),
            id="OpenRouter's, with an empty span",
        ),
        pytest.param(
            {"type": "file_citation", "file_id": "f", "filename": "a.pdf", "index": 9},
            Citation(
                title="a.pdf",
                metadata=(("type", "file_citation"), ("file_id", "f"), ("index", 9)),
            ),
            id="a file",
        ),
        pytest.param(
            {
                "type": "container_file_citation",
                "container_id": "c",
                "file_id": "f",
                "filename": "plot.png",
                "start_index": 2,
                "end_index": 8,
            },
            Citation(
                title="plot.png",
                span=(2, 8),
                metadata=(
                    ("type", "container_file_citation"),
                    ("container_id", "c"),
                    ("file_id", "f"),
                ),
            ),
            id="a file of a container",
        ),
        pytest.param(
            {"type": "file_path", "file_id": "f", "index": 0},
            Citation(metadata=(("type", "file_path"), ("file_id", "f"), ("index", 0))),
            id="a path",
        ),
    ],
)
def test_annotations_are_citations(annotation: dict[str, Any], citation: Citation) -> None:
    (part,) = decode_message({"type": "output_text", "text": "Hi", "annotations": [annotation]})
    assert part == Text("Hi", citations=(citation,))


def test_summaries_and_thoughts_are_reasoning_and_the_last_holds_the_encrypted_content() -> None:
    parts = decode_item(
        type="reasoning",
        id="rs_1",
        summary=[{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
        content=[{"type": "reasoning_text", "text": "c"}],
        encrypted_content="gAAA",
    )
    item_id = ("id", "rs_1")
    assert parts == (
        Reasoning("a", metadata=(item_id, ("type", "summary_text"))),
        Reasoning("b", metadata=(item_id, ("type", "summary_text"))),
        Reasoning("c", redacted="gAAA", metadata=(item_id, ("type", "reasoning_text"))),
    )


def test_reasoning_without_text_keeps_its_id_and_encrypted_content() -> None:
    assert decode_item(type="reasoning", id="rs_1", summary=[], encrypted_content="gAAA") == (
        Reasoning(redacted="gAAA", metadata=(("id", "rs_1"),)),
    )
    assert decode_item(type="reasoning", id="rs_1", summary=[]) == (
        Reasoning(metadata=(("id", "rs_1"),)),
    )


def test_a_compaction_is_encrypted_reasoning() -> None:
    assert decode_item(type="compaction", id="cmp_1", encrypted_content="gAAA") == (
        Reasoning(redacted="gAAA", metadata=(("type", "compaction"), ("id", "cmp_1"))),
    )


@each_row(
    ("item", "call"),
    [
        pytest.param(
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_a",
                "name": "get_weather",
                "arguments": '{"city":"Rome"}',
                "status": "completed",
            },
            ToolCall("call_a", "get_weather", '{"city":"Rome"}', (("id", "fc_1"),)),
            id="a function",
        ),
        pytest.param(
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": 1}},
            ToolCall("c", "f", '{"a":1}'),
            id="arguments that are an object",
        ),
        pytest.param(
            {
                "type": "function_call",
                "call_id": "c",
                "name": "f",
                "arguments": "{",
                "status": "incomplete",
                "namespace": "crm",
                "caller": {"type": "program", "caller_id": "p"},
            },
            ToolCall(
                "c",
                "f",
                "{",
                (
                    ("status", "incomplete"),
                    ("namespace", "crm"),
                    ("caller", {"type": "program", "caller_id": "p"}),
                ),
            ),
            id="a function cut short, called by a program",
        ),
        pytest.param(
            {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1"},
            ToolCall("c", "sql", "select 1", (("type", "custom_tool_call"),)),
            id="a custom tool",
        ),
        pytest.param(
            {
                "type": "computer_call",
                "id": "cu_1",
                "call_id": "c",
                "action": {"type": "click", "x": 1, "y": 2},
                "pending_safety_checks": [{"id": "sc_1"}],
            },
            ToolCall(
                "c",
                "computer",
                '{"type":"click","x":1,"y":2}',
                (
                    ("type", "computer_call"),
                    ("id", "cu_1"),
                    ("pending_safety_checks", [{"id": "sc_1"}]),
                ),
            ),
            id="a computer's action",
        ),
        pytest.param(
            {"type": "computer_call", "call_id": "c", "actions": [{"type": "screenshot"}]},
            ToolCall(
                "c", "computer", '{"actions":[{"type":"screenshot"}]}', (("type", "computer_call"),)
            ),
            id="a computer's actions",
        ),
        pytest.param(
            {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "q"}},
            ToolCall(
                "ws_1",
                "web_search",
                '{"type":"search","query":"q"}',
                (("type", "web_search_call"), ("id", "ws_1")),
            ),
            id="a web search",
        ),
        pytest.param(
            {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}},
            ToolCall("c", "local_shell", '{"command":["ls"]}', (("type", "local_shell_call"),)),
            id="a local shell",
        ),
        pytest.param(
            {"type": "apply_patch_call", "call_id": "c", "operation": {"diff": "@@"}},
            ToolCall("c", "apply_patch", '{"diff":"@@"}', (("type", "apply_patch_call"),)),
            id="a patch",
        ),
        pytest.param(
            {
                "type": "mcp_approval_request",
                "id": "mcpr_1",
                "name": "delete",
                "arguments": "{}",
                "server_label": "s",
            },
            ToolCall(
                "mcpr_1",
                "delete",
                "{}",
                (("type", "mcp_approval_request"), ("id", "mcpr_1"), ("server_label", "s")),
            ),
            id="a request for approval",
        ),
        pytest.param(
            {"type": "program", "call_id": "c", "code": "f()", "fingerprint": "g"},
            ToolCall("c", "program", '{"code":"f()"}', (("type", "program"), ("fingerprint", "g"))),
            id="a program",
        ),
        pytest.param(
            {"type": "tool_search_call", "id": "ts_1", "call_id": None, "arguments": {"a": 1}},
            ToolCall(
                "ts_1", "tool_search", '{"a":1}', (("type", "tool_search_call"), ("id", "ts_1"))
            ),
            id="a search for tools",
        ),
        pytest.param(
            {"type": "image_generation_call", "id": "ig_1", "status": "generating"},
            ToolCall(
                "ig_1",
                "image_generation",
                "",
                (("type", "image_generation_call"), ("id", "ig_1"), ("status", "generating")),
            ),
            id="an image that is being drawn",
        ),
        pytest.param(
            {"type": "teleport_call", "id": "t_1", "status": "failed", "where": "Mars"},
            ToolCall(
                "t_1",
                "teleport",
                "",
                (
                    ("type", "teleport_call"),
                    ("id", "t_1"),
                    ("status", "failed"),
                    ("where", "Mars"),
                ),
            ),
            id="a tool of tomorrow",
        ),
    ],
)
def test_calls_are_decoded(item: dict[str, Any], call: ToolCall) -> None:
    assert decode_item(**item) == (call,)


@each_row(
    ("item", "arguments", "result"),
    [
        pytest.param(
            {"type": "file_search_call", "queries": ["q"], "results": [{"file_id": "f"}]},
            '{"queries":["q"]}',
            ToolResult("id_1", '[{"file_id":"f"}]', "file_search"),
            id="a file search",
        ),
        pytest.param(
            {"type": "code_interpreter_call", "code": "1+1", "outputs": [{"logs": "2"}]},
            '{"code":"1+1"}',
            ToolResult("id_1", '[{"logs":"2"}]', "code_interpreter"),
            id="code",
        ),
        pytest.param(
            {"type": "mcp_call", "name": "ask", "arguments": "{}", "output": "It is.\n"},
            "{}",
            ToolResult("id_1", "It is.\n", "ask"),
            id="an MCP server's tool",
        ),
        pytest.param(
            {"type": "mcp_call", "name": "ask", "arguments": "{}", "error": {"code": 500}},
            "{}",
            ToolResult("id_1", '{"code":500}', "ask", failed=True),
            id="an MCP server's tool that failed",
        ),
        pytest.param(
            {"type": "mcp_call", "name": "ask", "output": "Half of it", "error": "cut"},
            "",
            ToolResult("id_1", "Half of it", "ask", failed=True, metadata=(("error", "cut"),)),
            id="an MCP server's tool that gave something and failed",
        ),
        pytest.param(
            {"type": "mcp_list_tools", "server_label": "s", "tools": [{"name": "ask"}]},
            "",
            ToolResult("id_1", '[{"name":"ask"}]', "mcp_list_tools"),
            id="an MCP server's list of tools",
        ),
        pytest.param(
            {"type": "image_generation_call", "prompt": "a boat", "error": "no"},
            '{"prompt":"a boat"}',
            ToolResult("id_1", "no", "image_generation", failed=True),
            id="an image that was not drawn",
        ),
    ],
)
def test_server_tool_calls_include_their_results(
    item: dict[str, Any], arguments: str, result: ToolResult
) -> None:
    call, tool_result = decode_item(id="id_1", **item)
    assert isinstance(call, ToolCall)
    assert (call.id, call.name, call.arguments) == ("id_1", result.name, arguments)
    assert tool_result == result


def test_a_drawn_image_is_media() -> None:
    call, image = decode_item(
        type="image_generation_call",
        id="ig_1",
        status="completed",
        result="aGk=",
        output_format="webp",
        size="1x1",
        revised_prompt="A cat",
    )
    metadata = (("type", "image_generation_call"), ("id", "ig_1"))
    assert call == ToolCall("ig_1", "image_generation", '{"revised_prompt":"A cat"}', metadata)
    assert image == Media("image/webp", base64="aGk=", metadata=(("id", "ig_1"), ("size", "1x1")))


@each_row(
    ("item", "result"),
    [
        pytest.param(
            {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "hi"}]},
            ToolResult(
                "c", '[{"stdout":"hi"}]', "shell", metadata=(("type", "shell_call_output"),)
            ),
            id="a shell's output",
        ),
        pytest.param(
            {"type": "program_output", "call_id": "c", "result": "42", "status": "failed"},
            ToolResult(
                "c",
                "42",
                "program",
                failed=True,
                metadata=(("type", "program_output"), ("status", "failed")),
            ),
            id="a program's, that failed",
        ),
        pytest.param(
            {"type": "tool_search_output", "call_id": None, "tools": [{"name": "f"}]},
            ToolResult(
                "", '[{"name":"f"}]', "tool_search", metadata=(("type", "tool_search_output"),)
            ),
            id="the tools that were found",
        ),
    ],
)
def test_output_items_are_tool_results(item: dict[str, Any], result: ToolResult) -> None:
    assert decode_item(**item) == (result,)


@each_row("item", [{}, {"type": "hologram"}, {"type": None}, {"type": ["message"]}])
def test_an_unknown_item_has_no_parts(item: dict[str, Any]) -> None:
    assert decode_item(**item) == ()
