from __future__ import annotations

from typing import Any

from case_tables import each_row
from linear_time import assert_linear
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai.output_item_events import OutputItemsAssembler
from llm_proxy.turns import Json


def assemble_items(*events: dict[str, Any]) -> list[Fields]:
    assembler = OutputItemsAssembler()
    for event in events:
        assembler.feed(event["type"], event)
    return assembler.assembled_items()


def delta(kind: str, piece: str, **place: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "delta": piece, "output_index": 0, **place}


def added(**item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": 0, "item": item}


def done(**item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
CALL = {"id": "fc_1", "type": "function_call", "call_id": "a", "name": "f", "arguments": ""}


def test_a_message_grows_by_its_deltas() -> None:
    assert assemble_items(
        added(**MESSAGE, status="in_progress"),
        {"type": "response.content_part.added", "output_index": 0, "content_index": 0},
        delta("output_text", "Hel", content_index=0),
        delta("output_text", "lo", content_index=0),
        delta("refusal", "No.", content_index=1),
    ) == [
        MESSAGE
        | {
            "status": "in_progress",
            "content": [
                {"type": "output_text", "text": "Hello"},
                {"type": "refusal", "refusal": "No."},
            ],
        }
    ]


ITEMS_OF_DELTAS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "output_text": (
        {}, {"type": "message", "content": [{"type": "output_text", "text": "ab"}]}
    ),
    "reasoning_summary_text": (
        {"summary_index": 1},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "ab"}]},
    ),
    "reasoning_text": (
        {"content_index": 0},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "ab"}]},
    ),
    "function_call_arguments": ({}, {"type": "function_call", "arguments": "ab"}),
    "custom_tool_call_input": ({}, {"type": "custom_tool_call", "input": "ab"}),
    "mcp_call_arguments": ({}, {"type": "mcp_call", "arguments": "ab"}),
    "code_interpreter_call_code": ({}, {"type": "code_interpreter_call", "code": "ab"}),
    "shell_call_command": (
        {"command_index": 0}, {"type": "shell_call", "action": {"commands": ["ab"]}}
    ),
    "apply_patch_call_operation_diff": (
        {}, {"type": "apply_patch_call", "operation": {"diff": "ab"}}
    ),
}  # fmt: skip


@each_row("kind", ITEMS_OF_DELTAS)
def test_items_without_an_added_event_are_built_from_deltas(kind: str) -> None:
    place, item = ITEMS_OF_DELTAS[kind]
    assert assemble_items(delta(kind, "a", **place), delta(kind, "b", **place)) == [item]


DONE_VALUES = {
    "output_text": ({"text": "Hello"}, "content", [{"type": "output_text", "text": "Hello"}]),
    "function_call_arguments": ({"arguments": "{}"}, "arguments", "{}"),
    "shell_call_command": ({"command": "ls"}, "action", {"commands": ["ls"]}),
}


@each_row("kind", DONE_VALUES)
def test_a_done_value_replaces_its_deltas(kind: str) -> None:
    value, place, expected = DONE_VALUES[kind]
    end = {"type": f"response.{kind}.done", "output_index": 0, **value}
    (item,) = assemble_items(delta(kind, "x"), end)
    assert item[place] == expected


def test_a_done_item_replaces_its_deltas() -> None:
    complete_item = MESSAGE | {
        "content": [{"type": "output_text", "text": "Hello", "annotations": []}]
    }
    assert assemble_items(added(**MESSAGE), delta("output_text", "Hel"), done(**complete_item)) == [
        complete_item
    ]


def test_an_item_that_is_done_but_empty_keeps_its_deltas() -> None:
    (item,) = assemble_items(added(**CALL), delta("function_call_arguments", "{}"), done(**CALL))
    assert item == CALL | {"arguments": "{}"}


def test_a_partial_patch_keeps_its_initial_fields() -> None:
    operation = {"type": "update_file", "path": "a.py", "diff": ""}
    (item,) = assemble_items(
        added(type="apply_patch_call", operation=operation),
        delta("apply_patch_call_operation_diff", "@@ -1"),
        delta("apply_patch_call_operation_diff", " +1"),
    )
    assert item["operation"] == operation | {"diff": "@@ -1 +1"}


def test_the_commands_of_a_shell_keep_their_order() -> None:
    (item,) = assemble_items(
        added(type="shell_call", action={"commands": [], "timeout_ms": 9}),
        delta("shell_call_command", "pwd", command_index=1),
        delta("shell_call_command", "ls", command_index=0),
    )
    assert item["action"] == {"commands": ["ls", "pwd"], "timeout_ms": 9}


def test_a_done_text_that_is_empty_keeps_its_deltas() -> None:
    end = {"type": "response.output_text.done", "output_index": 0, "text": ""}
    (item,) = assemble_items(delta("output_text", "Hi"), end)
    assert item["content"] == [{"type": "output_text", "text": "Hi"}]


def test_annotations_belong_to_their_text() -> None:
    annotation = {"type": "url_citation", "url": "u"}
    (item,) = assemble_items(
        delta("output_text", "a", content_index=0),
        delta("output_text", "b", content_index=1),
        {
            "type": "response.output_text.annotation.added",
            "output_index": 0,
            "content_index": 1,
            "annotation_index": 0,
            "annotation": annotation,
        },
    )
    assert item["content"] == [
        {"type": "output_text", "text": "a"},
        {"type": "output_text", "text": "b", "annotations": [annotation]},
    ]


def test_the_latest_partial_image_counts() -> None:
    def partial_image(piece: str) -> dict[str, Any]:
        kind = "response.image_generation_call.partial_image"
        return {"type": kind, "output_index": 0, "partial_image_b64": piece, "size": "1x1"}

    (item,) = assemble_items(
        added(id="ig_1", type="image_generation_call"), partial_image("a"), partial_image("b")
    )
    assert item == {"id": "ig_1", "type": "image_generation_call", "result": "b", "size": "1x1"}


def test_the_output_of_a_shell_is_read_when_it_is_done() -> None:
    kind = "response.shell_call_output_content"
    output = [{"stdout": "hi"}]
    assert assemble_items(
        {"type": f"{kind}.delta", "output_index": 0, "delta": {"stdout": "hi"}},
        {"type": f"{kind}.done", "output_index": 0, "output": output},
    ) == [{"output": output, "type": "shell_call_output"}]


def test_items_are_keyed_by_index_or_id() -> None:
    def arguments_delta(item_id: str, piece: str) -> dict[str, Any]:
        kind = "response.function_call_arguments.delta"
        return {"type": kind, "item_id": item_id, "delta": piece}

    assembled = assemble_items(
        arguments_delta("a", "1"), arguments_delta("b", "2"), arguments_delta("a", "3")
    )
    assert [item["arguments"] for item in assembled] == ["13", "2"]


def test_items_that_share_an_index_are_separated_by_their_boundaries() -> None:
    first, second = CALL | {"id": "fc_1"}, CALL | {"id": "fc_2"}
    assembled = assemble_items(
        added(**first),
        delta("function_call_arguments", "1"),
        done(**first),
        added(**second),
        delta("function_call_arguments", "2"),
        done(**second),
    )
    assert [(item["id"], item["arguments"]) for item in assembled] == [("fc_1", "1"), ("fc_2", "2")]


def test_an_item_whose_id_changes_from_event_to_event_is_one() -> None:
    assembled = assemble_items(added(**CALL), done(**CALL | {"id": "other", "arguments": "{}"}))
    assert [item["id"] for item in assembled] == ["other"]


@each_row(
    "kind",
    [
        "response.web_search_call.searching",
        "response.mcp_list_tools.completed",
        "response.content_part.done",
        "response.hologram.delta",
        "keepalive",
        "",
    ],
)
def test_events_about_progress_make_no_item(kind: str) -> None:
    assert assemble_items({"type": kind, "output_index": 0, "item_id": "x"}) == []


@each_row(("step", "texts"), [(0, ["x" * 8000]), (1, ["x"] * 8000)], ids=["one", "many"])
def test_deltas_are_joined_in_linear_time(step: int, texts: list[str]) -> None:
    def join(count: int) -> Json:
        deltas = (delta("output_text", "x", content_index=at * step) for at in range(count))
        (item,) = assemble_items(*deltas)
        return item["content"]

    assert join(8000) == [{"type": "output_text", "text": text} for text in texts]
    assert_linear(join, 8000)
