from __future__ import annotations

import base64
from typing import Any

from case_tables import each_row
from llm_proxy.dialects.encoding import token_pieces
from llm_proxy.dialects.openai.chat_messages import ChatMessageDecoder, ChatMessageEncoder
from llm_proxy.dialects.openai.family import provider_variant
from llm_proxy.turns import Citation, Json, Media, Part, Reasoning, Refusal, Text, ToolCall, Turn

Fields = dict[str, Any]


def decode_deltas(*deltas: Fields, streamed: bool = True) -> tuple[Part, ...]:
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


def function(name: str = "f", arguments: str = "{}") -> Fields:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def detail(kind: str, **fields: Json) -> Fields:
    """Reasoning as OpenRouter sends it: its text, and an entry of `reasoning_details`."""
    entry = {"type": f"reasoning.{kind}", "index": 0, **fields}
    return {"reasoning": fields.get("text", fields.get("summary")), "reasoning_details": [entry]}


def detail_metadata(kind: str, **fields: Json) -> Any:
    return (("type", f"reasoning.{kind}"), *fields.items(), ("index", 0))


def citing(text: str, *pages: Fields) -> Fields:
    return {
        **({"content": text} if text else {}),
        "annotations": [{"type": "url_citation", "url_citation": page} for page in pages],
    }


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
EXTRA: Fields = {"extra_content": {"google": {"thought_signature": "s"}}}
PAGES = (
    {"url": "u", "title": "T"},
    {"url": "u", "title": "T", "content": "rain"},
    {"url": "u", "title": "T", "start_index": 0, "end_index": 2},
)
IMAGES = {"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]}
LINKED = {"images": [{"type": "image_url", "image_url": {"url": "https://example.com/i"}}]}
AUDIO = {"id": "audio_1", "expires_at": 1_700_000_000, "data": "aGk="}

MESSAGES: dict[str, tuple[str, list[Fields], Fields, tuple[Part, ...]]] = {
    "nothing": ("", [], {"content": ""}, ()),
    "text": (
        "", [{"content": "Hello"}, {"content": " you"}], {"content": "Hello you"},
        (Text("Hello you"),),
    ),
    "refusal": (
        "", [{"refusal": "I"}, {"refusal": " won't."}], {"refusal": "I won't."},
        (Refusal("I won't."),),
    ),
    **{
        f"reasoning in {field} of {provider or 'OpenAI'}": (
            provider, [{field: "Hm."}, {"content": "Yes."}], {field: "Hm.", "content": "Yes."},
            (Reasoning("Hm."), Text("Yes.")),
        )
        for provider, field in (
            ("", "reasoning_content"), ("deepseek", "reasoning_content"), ("groq", "reasoning"),
            ("vllm", "reasoning"),
        )
    },
    "Mistral's blocks": (
        "mistral", [{"content": [THINKING]}, {"content": "Yes."}],
        {"content": [THINKING, {"type": "text", "text": "Yes."}]},
        (Reasoning("Hm."), Text("Yes.")),
    ),
    "details, which repeat the text, with a signature": (
        "openrouter",
        [detail("text", text="Oh,"), detail("text", text=" so.", signature="s")],
        detail("text", text="Oh, so.", signature="s"),
        (Reasoning("Oh, so.", signature="s", metadata=detail_metadata("text")),),
    ),
    "a summary": (
        "openrouter", [detail("summary", format="x-v1", summary="Hm.")],
        detail("summary", format="x-v1", summary="Hm."),
        (Reasoning("Hm.", metadata=detail_metadata("summary", format="x-v1")),),
    ),
    "encrypted reasoning": (
        "openrouter", [detail("encrypted", id="r1", data="c2VhbA==")],
        detail("encrypted", id="r1", data="c2VhbA=="),
        (Reasoning(redacted="c2VhbA==", metadata=detail_metadata("encrypted", id="r1")),),
    ),
    "parallel calls": (
        "",
        [
            call(0, "a", "f"), call(0, arguments='{"b":'), call(0, arguments=" 1}"),
            call(1, "b", "g"), call(1, arguments="{}"),
        ],
        {"tool_calls": [
            {"id": "a", **function("f", '{"b": 1}')}, {"id": "b", **function("g")},
        ]},
        (ToolCall("a", "f", '{"b": 1}'), ToolCall("b", "g", "{}")),
    ),
    **{
        f"the calls of {provider}": (
            provider, [call(0, "a", "f", '{"b": 1}'), call(1, "b", "g", "{}")],
            {"tool_calls": [
                {"id": "a", **function("f", '{"b": 1}')}, {"id": "b", **function("g")},
            ]},
            (ToolCall("a", "f", '{"b": 1}'), ToolCall("b", "g", "{}")),
        )
        for provider in ("groq", "mistral", "ollama")
    },
    "a custom tool": (
        "",
        [
            {"tool_calls": [
                {"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": ""}},
            ]},
            {"tool_calls": [{"index": 0, "custom": {"input": "x"}}]},
            {"tool_calls": [{"index": 0, "custom": {"input": " y"}}]},
        ],
        {"tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "f", "input": "x y"}}]},
        (ToolCall("a", "f", "x y", (("type", "custom"),)),),
    ),
    "Gemini's signature beside a call": (
        "groq", [{"tool_calls": [{"index": 0, "id": "a", **function(), **EXTRA}]}],
        {"tool_calls": [{"id": "a", **function(), **EXTRA}]},
        (ToolCall("a", "f", "{}", (*EXTRA.items(),)),),
    ),
    "citations of a page, a quotation and a span": (
        "", [{"content": "Hi"}, citing("", *PAGES)], citing("Hi", *PAGES),
        (Text("Hi", (
            Citation("u", "T"), Citation("u", "T", "rain"), Citation("u", "T", span=(0, 2)),
        )),),
    ),
    "audio with its transcript": (
        "",
        [
            {"audio": {**AUDIO, "transcript": ""}}, {"audio": {"transcript": "Hel-"}},
            {"audio": {"transcript": " lo"}},
        ],
        {"audio": {**AUDIO, "transcript": "Hel- lo"}},
        (Media(
            "audio/*", base64="aGk=", transcript="Hel- lo",
            metadata=(("id", "audio_1"), ("expires_at", 1_700_000_000)),
        ),),
    ),
    "an inline image": ("", [IMAGES], IMAGES, (Media("image/png", base64="aGk="),)),
    "an image by reference": (
        "", [LINKED], LINKED, (Media("image/*", url="https://example.com/i"),)
    ),
}  # fmt: skip
"""The provider, the deltas after the first, the fields of the whole message, and the parts."""


@each_row(("provider", "deltas", "message", "parts"), MESSAGES.values(), ids=MESSAGES)
def test_parts_and_messages_convert_in_both_directions(
    provider: str, deltas: list[Fields], message: Fields, parts: tuple[Part, ...]
) -> None:
    encoder, turn = ChatMessageEncoder(provider_variant(provider), token_pieces), Turn(parts)
    has_text = not parts or any(isinstance(part, Text) for part in parts)
    first = {"role": "assistant", "content": "" if has_text else None, "refusal": None}

    assert list(encoder.encode_deltas(turn)) == [first, *deltas]
    assert decode_deltas(first, *deltas) == parts
    assert encoder.encode_message(turn) == {
        "role": "assistant", "content": None, "refusal": None, **message
    }  # fmt: skip
    assert decode_deltas(message, streamed=False) == parts


def test_an_empty_span_is_encoded_without_indexes() -> None:
    encoder = ChatMessageEncoder(provider_variant(""), token_pieces)
    turn = Turn((Text("Hi", (Citation("u", "T", span=(2, 2)),)),))
    assert encoder.encode_message(turn)["annotations"] == [
        {"type": "url_citation", "url_citation": {"url": "u", "title": "T"}}
    ]


def test_reasoning_of_another_dialect_gets_the_type_and_the_index_of_a_detail() -> None:
    encoder = ChatMessageEncoder(provider_variant("openrouter"), token_pieces)
    turn = Turn((Reasoning("Hm."), Reasoning(redacted="c2VhbA==")))
    assert encoder.encode_message(turn)["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "Hm."},
        {"type": "reasoning.encrypted", "index": 1, "data": "c2VhbA=="},
    ]


def test_a_message_of_empty_values_has_no_parts() -> None:
    empty_values: dict[str, Json] = {
        "content": "", "refusal": "", "reasoning": "", "tool_calls": None, "annotations": [],
        "function_call": {"name": "", "arguments": ""},
        "audio": {"id": "", "data": "", "transcript": "", "expires_at": 0},
        "reasoning_details": [{"type": "reasoning.text", "text": "", "signature": ""}],
    }  # fmt: skip
    assert decode_deltas(empty_values, streamed=False) == ()


SEAL = {"type": "reasoning.encrypted", "data": "c2VhbA=="}
SEALED = Reasoning(redacted="c2VhbA==", metadata=(("type", "reasoning.encrypted"),))

OTHER_FORMS: dict[str, tuple[Fields, tuple[Part, ...]]] = {
    "both names": ({"reasoning": "Hm", "reasoning_content": "Hm"}, (Reasoning("Hm"),)),
    "details repeat the text": (
        {"reasoning": "Hm", "reasoning_details": [
            {"type": "reasoning.summary", "summary": "Hm", "format": "x-v1", "index": 0},
            {**SEAL, "id": "r1", "index": 0},
        ]},
        (
            Reasoning("Hm", metadata=detail_metadata("summary", format="x-v1")),
            Reasoning(redacted="c2VhbA==", metadata=detail_metadata("encrypted", id="r1")),
        ),
    ),
    "details hold the seal only": (
        {"reasoning": "Hm", "reasoning_details": [SEAL]}, (Reasoning("Hm"), SEALED)
    ),
    "seals, which are never joined": ({"reasoning_details": [SEAL, SEAL]}, (SEALED, SEALED)),
    "LiteLLM's thinking blocks": (
        {
            "reasoning_content": "Hm",
            "thinking_blocks": [{"type": "thinking", "thinking": "Hm", "signature": "s"}],
        },
        (Reasoning("Hm", signature="s", metadata=(("type", "thinking"),)),),
    ),
    "Mistral's blocks, some of them text": (
        {"content": [
            THINKING, {"type": "text", "text": "Hi"},
            {"type": "reference", "reference_ids": [1], "text": "left out"}, "!",
        ]},
        (Reasoning("Hm."), Text("Hi!")),
    ),
    "a thinking block of plain text": (
        {"content": [{"type": "thinking", "thinking": "Hm"}]}, (Reasoning("Hm"),)
    ),
    "Databricks' blocks": (
        {"content": [{
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Hm"}, {"signature": "s"}],
        }]},
        (Reasoning("Hm", signature="s"),),
    ),
    "Cloudflare's document": (
        {"content": {"name": "Ann", "age": 32}}, (Text('{"name":"Ann","age":32}'),)
    ),
    "an empty document": ({"content": {}}, ()),
    "a number": ({"content": 7}, ()),
    "a legacy call": (
        {"function_call": {"name": "f", "arguments": "{}"}},
        (ToolCall("", "f", "{}", (("type", "function_call"),)),),
    ),
    "arguments as an object, and fields beside": (
        {"tool_calls": [
            {"id": "a", "function": {"name": "f", "arguments": {"b": 1}}, "x": {"y": 2}}
        ]},
        (ToolCall("a", "f", '{"b":1}', (("x", {"y": 2}),)),),
    ),
    **{
        f"an empty custom field beside a function, its type {kind}": (
            {"tool_calls": [{
                "id": "a", **kind, "custom": {"input": "", "name": ""},
                "function": {"name": "f", "arguments": "{}"},
            }]},
            (ToolCall("a", "f", "{}"),),
        )
        for kind in ({"type": "function"}, {"type": ""}, {})
    },
    "an image among the blocks": (
        {"content": LINKED["images"]}, (Media("image/*", url="https://example.com/i"),)
    ),
    "half a span, an empty one, and a file": (
        {"content": "Hi", "annotations": [
            *citing("", {"url": "u", "end_index": 3}, {"url": "u", "start_index": 3},
                    {"url": "v", "start_index": 0, "end_index": 0})["annotations"],
            {"type": "file", "file": {"hash": "0"}},
        ]},
        (Text("Hi", (
            Citation("u"), Citation("u"), Citation("v"),
            Citation(metadata=(("type", "file"), ("file", {"hash": "0"}))),
        )),),
    ),
}  # fmt: skip


@each_row("streamed", [True, False])
@each_row(("message", "parts"), OTHER_FORMS.values(), ids=OTHER_FORMS)
def test_other_forms_of_a_message_are_decoded(
    message: Fields, parts: tuple[Part, ...], streamed: bool
) -> None:
    assert decode_deltas(message, streamed=streamed) == parts


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
    parts = decode_deltas(
        detail("text", text="a"), detail("text", text="b"), detail("text", text="c", index=1),
        detail("summary", summary="d", index=1),
    )  # fmt: skip
    assert [item.text for item in parts if isinstance(item, Reasoning)] == ["ab", "c", "d"]


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
def test_parallel_calls_are_separated(deltas: list[Fields]) -> None:
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


def test_a_legacy_call_is_joined() -> None:
    parts = decode_deltas(
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": '{"a":'}},
        {"function_call": {"arguments": "1}"}},
    )
    assert parts == (ToolCall("", "f", '{"a":1}', metadata=(("type", "function_call"),)),)


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
