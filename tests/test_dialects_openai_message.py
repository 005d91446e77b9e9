from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from case_tables import each_row
from llm_proxy.dialects.openai.chat_messages import ChatMessageDecoder
from llm_proxy.turns import Citation, Media, Part, Reasoning, Refusal, Text, ToolCall

if TYPE_CHECKING:
    from llm_proxy.turns import Json


def decode_deltas(*deltas: dict[str, Any], streamed: bool = True) -> tuple[Part, ...]:
    message = ChatMessageDecoder()
    for delta in deltas:
        message.feed(delta, streamed=streamed)
    return message.decoded_parts()


def call(index: int | None = None, call_id: str = "", name: str = "", arguments: Json = "") -> Any:
    index_field = {} if index is None else {"index": index}
    name_field = {"name": name} if name else {}
    identity: dict[str, Json] = {"id": call_id, "type": "function"} if call_id else {}
    fragment = {**index_field, **identity, "function": {**name_field, "arguments": arguments}}
    return {"tool_calls": [fragment]}


def test_parts_keep_the_order_in_which_they_arrived() -> None:
    parts = decode_deltas(
        {"role": "assistant", "content": ""},
        {"reasoning_content": "Let me "},
        {"reasoning_content": "think.", "content": ""},
        {"content": "Look", "reasoning_content": None},
        {"content": "ing."},
        call(0, "a", "f", "{}"),
        {"content": "Done."},
    )
    assert parts == (
        Reasoning("Let me think."),
        Text("Looking."),
        ToolCall("a", "f", "{}"),
        Text("Done."),
    )


def test_a_message_of_empty_values_has_no_parts() -> None:
    empty_values: dict[str, Json] = {
        "content": "",
        "refusal": "",
        "reasoning": "",
        "tool_calls": None,
        "annotations": [],
    }
    empty_objects: dict[str, Json] = {
        "function_call": {"name": "", "arguments": ""},
        "audio": {"id": "", "data": "", "transcript": "", "expires_at": 0},
        "reasoning_details": [{"type": "reasoning.text", "text": "", "signature": ""}],
    }
    assert decode_deltas(empty_values | empty_objects, streamed=False) == ()


@each_row("streamed", [True, False])
@each_row(
    ("message", "expected"),
    [
        pytest.param({"content": "Hi"}, (Text("Hi"),), id="text"),
        pytest.param({"refusal": "No."}, (Refusal("No."),), id="refusal"),
        pytest.param(
            {"reasoning": "Hm", "content": "Hi"}, (Reasoning("Hm"), Text("Hi")), id="reasoning"
        ),
        pytest.param(
            {"reasoning": "Hm", "reasoning_content": "Hm"}, (Reasoning("Hm"),), id="both names"
        ),
        pytest.param(
            {
                "reasoning": "Hm",
                "reasoning_details": [
                    {"type": "reasoning.summary", "summary": "Hm", "format": "x-v1", "index": 0},
                    {"type": "reasoning.encrypted", "data": "c2VhbA==", "id": "r1", "index": 0},
                ],
            },
            (
                Reasoning(
                    "Hm",
                    metadata=(("type", "reasoning.summary"), ("format", "x-v1"), ("index", 0)),
                ),
                Reasoning(
                    redacted="c2VhbA==",
                    metadata=(("type", "reasoning.encrypted"), ("id", "r1"), ("index", 0)),
                ),
            ),
            id="details repeat the text",
        ),
        pytest.param(
            {
                "reasoning": "Hm",
                "reasoning_details": [{"type": "reasoning.encrypted", "data": "c2VhbA=="}],
            },
            (
                Reasoning("Hm"),
                Reasoning(redacted="c2VhbA==", metadata=(("type", "reasoning.encrypted"),)),
            ),
            id="details hold the seal only",
        ),
        pytest.param(
            {
                "reasoning_content": "Hm",
                "thinking_blocks": [{"type": "thinking", "thinking": "Hm", "signature": "s"}],
            },
            (Reasoning("Hm", signature="s", metadata=(("type", "thinking"),)),),
            id="LiteLLM's thinking blocks",
        ),
        pytest.param(
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
                    {"type": "text", "text": "Hi"},
                    {"type": "reference", "reference_ids": [1], "text": "left out"},
                    "!",
                ]
            },
            (Reasoning("Hm"), Text("Hi!")),
            id="Mistral's blocks",
        ),
        pytest.param(
            {"content": [{"type": "thinking", "thinking": "Hm"}]},
            (Reasoning("Hm"),),
            id="a thinking block of plain text",
        ),
        pytest.param(
            {
                "content": [
                    {
                        "type": "reasoning",
                        "summary": [{"type": "summary_text", "text": "Hm"}, {"signature": "s"}],
                    }
                ]
            },
            (Reasoning("Hm", signature="s"),),
            id="Databricks' blocks",
        ),
        pytest.param(
            {"content": {"name": "Ann", "age": 32}},
            (Text('{"name":"Ann","age":32}'),),
            id="Cloudflare's document",
        ),
        pytest.param({"content": {}}, (), id="an empty document"),
        pytest.param({"content": 7}, (), id="a number"),
        pytest.param(
            {"function_call": {"name": "f", "arguments": "{}"}},
            (ToolCall("", "f", "{}", metadata=(("type", "function_call"),)),),
            id="a legacy call",
        ),
        pytest.param(
            {"tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}]},
            (ToolCall("a", "f", "x", metadata=(("type", "custom"),)),),
            id="a custom tool",
        ),
        pytest.param(
            {
                "tool_calls": [
                    {"id": "a", "function": {"name": "f", "arguments": {"b": 1}}, "x": {"y": 2}}
                ]
            },
            (ToolCall("a", "f", '{"b":1}', metadata=(("x", {"y": 2}),)),),
            id="arguments as an object, and fields beside",
        ),
        pytest.param(
            {"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]},
            (Media("image/png", base64="aGk="),),
            id="an inline image",
        ),
        pytest.param(
            {"content": [{"type": "image_url", "image_url": {"url": "https://example.com/i"}}]},
            (Media("image/*", url="https://example.com/i"),),
            id="an image by reference",
        ),
    ],
)
def test_each_message_form_is_decoded(
    message: dict[str, Any], expected: tuple[Part, ...], streamed: bool
) -> None:
    assert decode_deltas(message, streamed=streamed) == expected


def test_a_signature_after_the_text_joins_its_reasoning() -> None:
    parts = decode_deltas(
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm", "index": 0}]},
        {"content": "Hi"},
        {"reasoning_details": [{"type": "reasoning.text", "signature": "s", "index": 0}]},
    )
    metadata = (("type", "reasoning.text"), ("index", 0))
    assert parts == (Reasoning("Hm", signature="s", metadata=metadata), Text("Hi"))


def test_reasoning_after_text_is_a_separate_part() -> None:
    parts = decode_deltas({"reasoning": "a"}, {"content": "b"}, {"reasoning": "c"})
    assert parts == (Reasoning("a"), Text("b"), Reasoning("c"))


def test_details_are_keyed_by_type_and_index() -> None:
    def detail(kind: str, index: int, text: str) -> dict[str, Json]:
        return {"reasoning_details": [{"type": f"reasoning.{kind}", kind: text, "index": index}]}

    parts = decode_deltas(
        detail("text", 0, "a"),
        detail("text", 0, "b"),
        detail("text", 1, "c"),
        detail("summary", 1, "d"),
    )
    assert [item.text for item in parts if isinstance(item, Reasoning)] == ["ab", "c", "d"]


def test_encrypted_reasoning_is_never_joined() -> None:
    seal = {"type": "reasoning.encrypted", "data": "c2VhbA=="}
    metadata = (("type", "reasoning.encrypted"),)
    assert (
        decode_deltas({"reasoning_details": [seal, seal]})
        == (Reasoning(redacted="c2VhbA==", metadata=metadata),) * 2
    )


CALLS = {
    "one after another": [
        call(0, "a", "f"), call(0, arguments="{"), call(0, arguments="}"), call(1, "b", "g", "[]"),
    ],
    "interleaved": [
        call(0, "a", "f", "{"), call(1, "b", "g", "["), call(0, arguments="}"),
        call(1, arguments="]"),
    ],
    "id and name in every fragment": [
        call(0, "a", "f", "{"), call(0, "a", "f", "}"), call(1, "b", "g", "[]"),
    ],
    "all at index 0": [
        call(0, "a", "f", "{"), call(0, arguments="}"), call(0, "b", "g", "[]"),
    ],
    "a new id in every fragment": [
        call(0, "a", "f", "{"), call(0, "a2", arguments="}"), call(1, "b", "g", "[]"),
    ],
    "name in every fragment": [
        call(0, "a", "f", "{"), call(0, name="f", arguments="}"), call(1, "b", "g", "[]"),
    ],
    "a late id": [
        call(0, name="f", arguments="{"), call(0, "a", "f", "}"), call(1, "b", "g", "[]"),
    ],
    "no index": [call(None, "a", "f", "{}"), call(None, "b", "g", "[]")],
    "first index is 1": [call(1, "a", "f", "{}"), call(2, "b", "g", "[]")],
    "null arguments first": [
        call(0, "a", "f", None), call(0, arguments="{}"), call(1, "b", "g", "[]"),
    ],
}  # fmt: skip


@each_row("deltas", CALLS.values(), ids=CALLS.keys())
def test_parallel_calls_are_separated(deltas: list[dict[str, Any]]) -> None:
    assert decode_deltas(*deltas) == (ToolCall("a", "f", "{}"), ToolCall("b", "g", "[]"))


def test_calls_without_index_and_id_are_keyed_by_position() -> None:
    delta = {"tool_calls": [{"function": {"name": name, "arguments": "{"}} for name in "fg"]}
    closing_delta = {"tool_calls": [{"function": {"arguments": "}"}}] * 2}
    assert decode_deltas(delta, closing_delta) == (ToolCall("", "f", "{}"), ToolCall("", "g", "{}"))


def test_calls_of_a_complete_message_are_not_joined() -> None:
    calls = call(0, name="f", arguments="{}")["tool_calls"]
    assert (
        decode_deltas({"tool_calls": calls * 2}, streamed=False) == (ToolCall("", "f", "{}"),) * 2
    )


def test_only_the_first_fragment_of_a_custom_call_has_its_type() -> None:
    first = {"id": "a", "type": "custom", "custom": {"name": "f", "input": ""}}
    parts = decode_deltas(
        {"tool_calls": [{"index": 0, **first}]},
        {"tool_calls": [{"index": 0, "custom": {"input": "x "}}]},
        {"tool_calls": [{"index": 0, "custom": {"input": "y"}}]},
    )
    assert parts == (ToolCall("a", "f", "x y", metadata=(("type", "custom"),)),)


def test_an_empty_custom_field_beside_a_function_is_ignored() -> None:
    both = {"custom": {"input": "", "name": ""}, "function": {"name": "f", "arguments": "{}"}}
    for kind in ({"type": "function"}, {"type": ""}, {}):
        assert decode_deltas({"tool_calls": [{"id": "a", **kind, **both}]}, streamed=False) == (
            ToolCall("a", "f", "{}"),
        )


def test_a_legacy_call_is_joined() -> None:
    parts = decode_deltas(
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": '{"a":'}},
        {"function_call": {"arguments": "1}"}},
    )
    assert parts == (ToolCall("", "f", '{"a":1}', metadata=(("type", "function_call"),)),)


def test_citations_belong_to_the_text() -> None:
    page = {"url": "https://example.com", "title": "T", "start_index": 1, "end_index": 3}
    unknown = {"url": "https://example.org", "start_index": 0, "end_index": 0, "content": "quote"}
    half = {"url": "https://example.net", "end_index": 3}
    other_half = {"url": "https://example.net", "start_index": 3}
    file = {"type": "file", "file": {"hash": "0"}}
    parts = decode_deltas(
        {"content": "Hello"},
        {"annotations": [{"type": "url_citation", "url_citation": page}]},
        {
            "annotations": [
                {"type": "url_citation", "url_citation": annotation}
                for annotation in (unknown, half, other_half)
            ]
        },
        {"annotations": [file]},
    )
    assert parts == (
        Text(
            "Hello",
            citations=(
                Citation("https://example.com", "T", span=(1, 3)),
                Citation("https://example.org", quoted="quote"),
                Citation("https://example.net"),
                Citation("https://example.net"),
                Citation(metadata=(("type", "file"), ("file", {"hash": "0"}))),
            ),
        ),
    )


def test_audio_output_is_joined_with_its_transcript() -> None:
    first, second = (base64.b64encode(audio).decode() for audio in (b"a", b"bc"))
    parts = decode_deltas(
        {"audio": {"id": "audio_1", "transcript": "Hel"}},
        {"audio": {"transcript": "lo"}},
        {"audio": {"data": first}},
        {"audio": {"data": second}},
        {"audio": {"expires_at": 1700000000, "id": "audio_1"}},
    )
    assert parts == (
        Media(
            "audio/*",
            base64=base64.b64encode(b"abc").decode(),
            transcript="Hello",
            metadata=(("id", "audio_1"), ("expires_at", 1700000000)),
        ),
    )
