from __future__ import annotations

from typing import Any, Final

from case_tables import each_row
from llm_proxy.dialects.encoding import token_pieces
from llm_proxy.dialects.openai import output_items
from llm_proxy.dialects.openai.output_item_events import OutputItemsAssembler, encode_item_events
from llm_proxy.turns import (
    Citation,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)

Item = dict[str, Any]


def decode_item(**item: Any) -> tuple[Part, ...]:
    return tuple(output_items.decode_item(item))


def item_of(kind: str, status: str = "completed", **fields: Any) -> Item:
    """An item with an ID; without a status where that is empty."""
    return {"id": "x_1", "type": kind, **({"status": status} if status else {}), **fields}


def metadata_of(kind: str, **fields: Json) -> Metadata:
    return (ID, ("type", kind), *fields.items())


def call_of(
    kind: str, arguments: str, call_id: str = "c", name: str = "", **fields: Json
) -> ToolCall:
    """The call of an item; its name is that of its type unless it has one."""
    return ToolCall(
        call_id, name or kind.removesuffix("_call"), arguments, metadata_of(kind, **fields)
    )


ID: Final = ("id", "x_1")
SUMMARY: Final = metadata_of("summary_text")
LOGPROBS: Final[list[Json]] = [
    {"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}
]
TEXT_STEPS: Final = "content_part.added output_text.delta output_text.done content_part.done"
SUMMARY_STEPS: Final = (
    "reasoning_summary_part.added reasoning_summary_text.delta "
    "reasoning_summary_text.done reasoning_summary_part.done"
)
SEARCH_STEPS: Final = "K.in_progress K.searching K.completed"
MCP: Final[Item] = {"server_label": "s", "approval_request_id": None, "error": None, "output": None}
MCP_STEPS: Final = "K.in_progress K_arguments.delta K_arguments.done"

ITEMS: Final[dict[str, tuple[Item, tuple[Part, ...], str]]] = {
    "a message": (
        item_of("message", role="assistant", content=[
            {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []},
            {"type": "refusal", "refusal": "No."},
        ]),
        (Text("Hello", metadata=(ID,)), Refusal("No.", metadata=(ID,))),
        f"{TEXT_STEPS} {TEXT_STEPS.replace('output_text', 'refusal')}",
    ),
    "a message cut short": (
        item_of("message", "incomplete", role="assistant", phase="commentary", content=[
            {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": LOGPROBS},
        ]),
        (Text("Hi", metadata=(
            ID, ("status", "incomplete"), ("phase", "commentary"), ("logprobs", LOGPROBS),
        )),),
        TEXT_STEPS,
    ),
    "reasoning, of which the last has the encrypted content": (
        item_of(
            "reasoning", "", summary=[
                {"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"},
            ],
            content=[{"type": "reasoning_text", "text": "c"}], encrypted_content="gAAA",
        ),
        (
            Reasoning("a", metadata=SUMMARY), Reasoning("b", metadata=SUMMARY),
            Reasoning("c", redacted="gAAA", metadata=metadata_of("reasoning_text")),
        ),
        f"{SUMMARY_STEPS} {SUMMARY_STEPS} {TEXT_STEPS.replace('output_text', 'reasoning_text')}",
    ),
    "encrypted reasoning without text": (
        item_of("reasoning", "", summary=[], encrypted_content="gAAA"),
        (Reasoning(redacted="gAAA", metadata=(ID,)),), "",
    ),
    "reasoning without anything": (
        item_of("reasoning", "", summary=[]), (Reasoning(metadata=(ID,)),), "",
    ),
    "a compaction": (
        item_of("compaction", "", encrypted_content="gAAA"),
        (Reasoning(redacted="gAAA", metadata=metadata_of("compaction")),), "",
    ),
    "a function": (
        item_of("function_call", call_id="c", name="f", arguments='{"a":1}'),
        (ToolCall("c", "f", '{"a":1}', (ID,)),),
        "K_arguments.delta K_arguments.done",
    ),
    "a function cut short, called by a program": (
        item_of(
            "function_call", "incomplete", call_id="c", name="f", arguments="{", namespace="crm",
            caller={"type": "program", "caller_id": "p"},
        ),
        (ToolCall("c", "f", "{", (
            ID, ("status", "incomplete"), ("namespace", "crm"),
            ("caller", {"type": "program", "caller_id": "p"}),
        )),),
        "K_arguments.delta K_arguments.done",
    ),
    "a custom tool": (
        item_of("custom_tool_call", call_id="c", name="sql", input="select"),
        (ToolCall("c", "sql", "select", metadata_of("custom_tool_call")),),
        "K_input.delta K_input.done",
    ),
    "a computer's action": (
        item_of(
            "computer_call", call_id="c", action={"type": "click", "x": 1, "y": 2},
            pending_safety_checks=[{"id": "sc_1"}],
        ),
        (call_of(
            "computer_call", '{"type":"click","x":1,"y":2}', pending_safety_checks=[{"id": "sc_1"}]
        ),), "",
    ),
    "a web search": (
        item_of("web_search_call", action={"type": "search", "query": "q"}),
        (call_of("web_search_call", '{"type":"search","query":"q"}', "x_1"),), SEARCH_STEPS,
    ),
    "a file search": (
        item_of("file_search_call", queries=["q"], results=[{"file_id": "f"}]),
        (
            call_of("file_search_call", '{"queries":["q"]}', "x_1"),
            ToolResult("x_1", '[{"file_id":"f"}]', "file_search"),
        ),
        SEARCH_STEPS,
    ),
    "code": (
        item_of(
            "code_interpreter_call", code="1+1", outputs=[{"type": "logs", "logs": "2"}],
            container_id="co",
        ),
        (
            call_of("code_interpreter_call", '{"code":"1+1"}', "x_1", container_id="co"),
            ToolResult("x_1", '[{"type":"logs","logs":"2"}]', "code_interpreter"),
        ),
        "K.in_progress K_code.delta K_code.done K.interpreting K.completed",
    ),
    "a local shell": (
        item_of("local_shell_call", call_id="c", action={"type": "exec", "command": ["ls"]}),
        (call_of("local_shell_call", '{"type":"exec","command":["ls"]}'),), "",
    ),
    "a shell": (
        item_of("shell_call", call_id="c", action={"commands": ["ls", "pwd"]}),
        (call_of("shell_call", '{"commands":["ls","pwd"]}'),),
        " ".join(["K_command.added K_command.delta K_command.done"] * 2),
    ),
    "a shell's output": (
        item_of("shell_call_output", call_id="c", output=[{"stdout": "hi"}]),
        (ToolResult("c", '[{"stdout":"hi"}]', "shell", metadata=metadata_of("shell_call_output")),),
        "K_content.delta K_content.done",
    ),
    "a patch": (
        item_of("apply_patch_call", call_id="c", operation={"type": "create_file", "diff": "+a"}),
        (call_of("apply_patch_call", '{"type":"create_file","diff":"+a"}'),),
        "K_operation_diff.delta K_operation_diff.done",
    ),
    "an MCP server's tool": (
        item_of("mcp_call", name="ask", arguments="{}", **MCP | {"output": "Yes.\n"}),
        (
            call_of("mcp_call", "{}", "x_1", "ask", server_label="s"),
            ToolResult("x_1", "Yes.\n", "ask"),
        ),
        f"{MCP_STEPS} K.completed",
    ),
    "an MCP server's tool that failed": (
        item_of("mcp_call", "failed", name="ask", arguments="{}", **MCP | {"error": {"code": 500}}),
        (
            call_of("mcp_call", "{}", "x_1", "ask", status="failed", server_label="s"),
            ToolResult("x_1", '{"code":500}', "ask", failed=True),
        ),
        f"{MCP_STEPS} K.failed",
    ),
    "an MCP server's tool that gave something and failed": (
        item_of(
            "mcp_call", "failed", name="ask", arguments="{}",
            **MCP | {"error": "cut", "output": "Half of it"},
        ),
        (
            call_of("mcp_call", "{}", "x_1", "ask", status="failed", server_label="s"),
            ToolResult("x_1", "Half of it", "ask", failed=True, metadata=(("error", "cut"),)),
        ),
        f"{MCP_STEPS} K.failed",
    ),
    "an MCP server's list of tools": (
        item_of("mcp_list_tools", "", server_label="s", tools=[{"name": "ask"}]),
        (
            call_of("mcp_list_tools", "", "x_1", server_label="s"),
            ToolResult("x_1", '[{"name":"ask"}]', "mcp_list_tools"),
        ),
        "K.in_progress K.completed",
    ),
    "a request for approval": (
        item_of("mcp_approval_request", "", name="delete", arguments="{}", server_label="s"),
        (call_of("mcp_approval_request", "{}", "x_1", "delete", server_label="s"),), "",
    ),
    "a program": (
        item_of("program", "", call_id="c", code="f()", fingerprint="g"),
        (call_of("program", '{"code":"f()"}', fingerprint="g"),), "",
    ),
    "a program's output, that failed": (
        item_of("program_output", "failed", call_id="c", result="42"),
        (ToolResult(
            "c", "42", "program", failed=True,
            metadata=metadata_of("program_output", status="failed"),
        ),), "",
    ),
    "a search for tools": (
        item_of("tool_search_call", call_id="c", arguments={"a": 1}),
        (call_of("tool_search_call", '{"a":1}'),), "",
    ),
    "the tools that were found": (
        item_of("tool_search_output", call_id=None, tools=[{"name": "f"}]),
        (ToolResult(
            "", '[{"name":"f"}]', "tool_search", metadata=metadata_of("tool_search_output")
        ),), "",
    ),
    "an image that is being drawn": (
        item_of("image_generation_call", "generating"),
        (call_of("image_generation_call", "", "x_1", status="generating"),),
        "K.in_progress K.generating K.completed",
    ),
    "an image": (
        item_of(
            "image_generation_call", revised_prompt="A cat", output_format="webp", size="1x1",
            result="aGk=",
        ),
        (
            call_of("image_generation_call", '{"revised_prompt":"A cat"}', "x_1"),
            Media("image/webp", base64="aGk=", metadata=(ID, ("size", "1x1"))),
        ),
        "K.in_progress K.generating K.partial_image K.completed",
    ),
    "an image that was not drawn": (
        item_of("image_generation_call", "failed", prompt="a boat", error="no"),
        (
            call_of("image_generation_call", '{"prompt":"a boat"}', "x_1", status="failed"),
            ToolResult("x_1", "no", "image_generation", failed=True),
        ),
        "K.in_progress K.generating",
    ),
    "a tool of tomorrow": (
        item_of("teleport_call", "failed", call_id="c", arguments="now", where="Mars"),
        (call_of("teleport_call", "now", status="failed", where="Mars"),), "",
    ),
}  # fmt: skip
"""An item of each type, its parts, and its events between `added` and `done`; K is its type."""


@each_row(("item", "parts", "steps"), ITEMS.values(), ids=ITEMS)
def test_items_and_their_parts_and_events_convert_in_both_directions(
    item: Item, parts: tuple[Part, ...], steps: str
) -> None:
    assert decode_item(**item) == parts
    assert output_items.encode_items(parts) == [item]

    events = list(encode_item_events(item, token_pieces, 1, is_complete=True))
    kinds = ["output_item.added", *steps.replace("K", item["type"]).split(), "output_item.done"]
    assert [kind.removeprefix("response.") for kind, _ in events] == kinds
    assembler = OutputItemsAssembler()
    for kind, fields in events:
        assembler.feed(kind, {"output_index": 0, **fields})
    assert assembler.assembled_items() == [item]


@each_row(
    ("item", "part"),
    [
        ({"type": "message", "content": "Hi"}, Text("Hi")),
        ({"type": "message", "content": [{"type": "text", "text": "Hi"}]}, Text("Hi")),
        ({"role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}, Text("Hi")),
        (
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": 1}},
            ToolCall("c", "f", '{"a":1}'),
        ),
        (
            {"type": "computer_call", "call_id": "c", "actions": [{"type": "screenshot"}]},
            ToolCall(
                "c", "computer", '{"actions":[{"type":"screenshot"}]}', (("type", "computer_call"),)
            ),
        ),
        (
            {"type": "tool_search_call", "id": "x_1", "call_id": None, "arguments": {"a": 1}},
            ToolCall("x_1", "tool_search", '{"a":1}', (("type", "tool_search_call"), ID)),
        ),
    ],
    ids=[
        "content that is a string", "a text by another name", "a message without a type",
        "arguments that are an object", "a computer's actions", "a search by the provider",
    ],
)  # fmt: skip
def test_items_of_other_forms_are_decoded(item: Item, part: Part) -> None:
    assert decode_item(**item) == (part,)


@each_row(
    "item",
    [
        *(
            {"type": "message", "id": "msg_1", "content": content}
            for content in (
                [], [{"type": "output_text", "text": "", "annotations": []}], [{"type": "video"}],
                None, 7,
            )
        ),
        {}, {"type": "hologram"}, {"type": None}, {"type": ["message"]},
    ],
)  # fmt: skip
def test_an_empty_message_and_an_unknown_item_have_no_parts(item: Item) -> None:
    assert decode_item(**item) == ()


@each_row(
    ("annotation", "citation"),
    [
        (
            {"type": "url_citation", "url": "u", "title": "t", "start_index": 1, "end_index": 4},
            Citation("u", "t", span=(1, 4)),
        ),
        (
            {"type": "url_citation", "url": "u", "title": "", "start_index": 0, "end_index": 0,
             "content": "q"},
            Citation("u", quoted="q"),
        ),
        (
            {"type": "file_citation", "file_id": "f", "filename": "a.pdf", "index": 9},
            Citation(
                title="a.pdf",
                metadata=(("type", "file_citation"), ("file_id", "f"), ("index", 9)),
            ),
        ),
        (
            {"type": "container_file_citation", "container_id": "c", "file_id": "f",
             "filename": "plot.png", "start_index": 2, "end_index": 8},
            Citation(
                title="plot.png",
                span=(2, 8),
                metadata=(
                    ("type", "container_file_citation"), ("container_id", "c"), ("file_id", "f"),
                ),
            ),
        ),
        (
            {"type": "file_path", "file_id": "f", "index": 0},
            Citation(metadata=(("type", "file_path"), ("file_id", "f"), ("index", 0))),
        ),
    ],
    ids=["a page", "OpenRouter's, with an empty span", "a file", "a file of a container", "a path"],
)  # fmt: skip
def test_annotations_and_citations_convert_in_both_directions(
    annotation: Item, citation: Citation
) -> None:
    block = {"type": "output_text", "text": "Hi", "annotations": [annotation], "logprobs": []}
    item = item_of("message", role="assistant", content=[block])
    part = Text("Hi", (citation,), (ID,))

    assert decode_item(**item) == (part,)
    assert output_items.encode_items([part]) == [item]


def test_a_citation_can_have_a_url_alone() -> None:
    block = {"text": "Hi", "annotations": [{"type": "url_citation", "url": "u"}]}
    assert decode_item(type="message", content=[block]) == (Text("Hi", (Citation("u"),)),)
