"""The last message of a request, in the format of each provider."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.last_message import LastMessage, last_message

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["messages", "input", "contents", "prompt", "role", "content", "parts"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=20,
)


@each_row(
    ("document", "role", "text"),
    [
        (
            {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]},
            "user",
            "U",
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": "x"}},
                            {"type": "text", "text": "A"},
                            {"type": "text", "text": "B"},
                        ],
                    }
                ]
            },
            "user",
            "A\nB",
        ),
        ({"messages": [{"role": "tool", "content": "21 °C"}]}, "tool", "21 °C"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "tool_result", "content": [{"type": "text", "text": "R"}]}
                        ],
                    }
                ]
            },
            "user",
            "R",
        ),
        (
            {"messages": [{"role": "user", "content": "U"}, {"role": "assistant"}]},
            "user",
            "U",
        ),
        ({"input": "I"}, "", "I"),
        (
            {
                "input": [
                    {"role": "user", "content": [{"type": "input_text", "text": "I"}]},
                    {"type": "function_call_output", "output": "O"},
                ]
            },
            "function_call_output",
            "O",
        ),
        ({"contents": [{"role": "user", "parts": [{"text": "G"}]}]}, "user", "G"),
        ({"prompt": "P"}, "", "P"),
        ({"prompt": ["P", "Q"]}, "", "P\nQ"),
        ({"message": "C", "chat_history": []}, "", "C"),
    ],
    ids=[
        "chat", "chat with parts", "tool", "tool result", "silent assistant", "responses, text",
        "responses, items", "gemini", "completion", "several prompts", "cohere",
    ],
)  # fmt: skip
def test_the_last_message_is_found(document: object, role: str, text: str) -> None:
    assert last_message(orjson.dumps(document)) == LastMessage(role, text)


@each_row(
    "body", [b"", b"not json", b"[]", b"{}", b'{"messages":[]}', b'{"messages":[{"role":"user"}]}']
)
def test_a_request_without_text_has_no_last_message(body: bytes) -> None:
    assert last_message(body) is None


@given(JSON)
def test_the_last_message_of_any_document_has_text_or_is_none(document: object) -> None:
    found = last_message(orjson.dumps(document))
    assert found is None or found.text


def test_a_deeply_nested_document_is_not_followed_to_the_end() -> None:
    body = b'{"prompt":' + b"[" * 500 + b'"deep"' + b"]" * 500 + b"}"
    assert last_message(body) is None
