"""`call-ids` and `paths` replace what differs between runs, and nothing else."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy import dialects
from llm_proxy.cassette import StoredRequest
from llm_proxy.matching import NormalizedDocument, normalized_document, request_key
from llm_proxy.matching.normalisers import texts_at_path
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.turns import Json

IDS: Final = parse_rules(["call-ids"])
CHAT: Final = "/v1/chat/completions"


def post_request(path: str, **body: Any) -> StoredRequest:
    return StoredRequest("POST", path, "", (), json.dumps(body).encode())


def normalize(request: StoredRequest) -> NormalizedDocument:
    return normalized_document("openai", request, IDS)


def tool_call_request(
    id_: str, result_id: str = "", result_content: str = "", name: str = "f"
) -> StoredRequest:
    """A chat request that holds a tool call and its result."""
    call = {"id": id_, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return post_request(
        CHAT,
        messages=[
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": result_id or id_, "content": result_content},
        ],
    )


def test_ids_become_names_by_their_place_wherever_they_stand() -> None:
    normalized = normalize(
        tool_call_request("call_1234", result_content="see results/call_1234.txt, not call_12345")
    )

    assert normalized.document.body == {
        "messages": [
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "<id-1>",
                        "type": "function",
                        "function": {"name": "f", "arguments": "{}"},
                    }
                ],
            },
            {
                "role": "tool",
                "tool_call_id": "<id-1>",
                "content": "see results/<id-1>.txt, not call_12345",
            },
        ]
    }
    assert normalized.value_by_alias == {"<id-1>": "call_1234"}


def test_requests_that_use_their_ids_alike_have_one_key() -> None:
    assert request_key("o", tool_call_request("call_1"), IDS) == request_key(
        "o", tool_call_request("toolu_9876"), IDS
    )


def test_requests_that_use_their_ids_otherwise_have_not() -> None:
    assert request_key("o", tool_call_request("call_1"), IDS) != request_key(
        "o", tool_call_request("call_1", "call_2"), IDS
    )


@each_row(
    ("one", "other"),
    [
        (tool_call_request("1", result_content="1"), tool_call_request("2", result_content="2")),
        (
            tool_call_request("get_weather", name="get_weather"),
            tool_call_request("get_time", name="get_time"),
        ),
        (
            tool_call_request("call_1", result_content="a"),
            tool_call_request("call_1", result_content="b"),
        ),
    ],
    ids=["a short id in a text", "an id that is a word", "another text"],
)
def test_what_is_no_id_counts(one: StoredRequest, other: StoredRequest) -> None:
    assert request_key("o", one, IDS) != request_key("o", other, IDS)


def body_with_id(path: str, id_: str) -> Json:
    """A body with an id at the given path."""
    value: Json = id_
    for step in reversed(path.removeprefix("$.").split(".")):
        name = step.removesuffix("[*]")
        value = {name: [value, {"n": 1}] if step.endswith("[*]") else value}
    return value


@each_row(
    ("name", "path"),
    [(dialect.name, path) for dialect in dialects.DIALECTS for path in dialect.id_json_paths],
)
def test_every_id_of_every_dialect_is_found(name: str, path: str) -> None:
    body = body_with_id(path, "call_1234")

    assert list(texts_at_path(body, path)) == ["call_1234"]
    assert list(texts_at_path({"x": body}, path)) == []
    assert name in {dialect.name for dialect in dialects.DIALECTS}


@given(
    st.lists(st.text("ab1/_-.", max_size=12), min_size=1, max_size=4),
    st.lists(st.text("ab1/_-. ", max_size=40), max_size=4),
)
def test_applied_twice_it_gives_the_same(ids: list[str], texts: list[str]) -> None:
    calls = [{"id": call_id, "function": {"name": "f"}} for call_id in ids]
    messages = [{"tool_calls": calls}, *({"content": f"{text} {ids[0]}"} for text in texts)]
    normalized = normalize(post_request(CHAT, messages=messages)).document

    assert IDS.normalize_document(normalized).document == normalized


def test_hostile_texts_take_no_longer_than_others() -> None:
    texts = ["a-" * 200_000, "call_1234 " * 50_000, "_" * 400_000]

    normalized = normalize(tool_call_request("call_1234", result_content="".join(texts)))

    assert str(normalized.document.body).count("<id-1>") == 50_001


@each_row(
    ("path", "one", "other"),
    [
        (
            "/v1/responses",
            {"previous_response_id": "resp_1111"},
            {"previous_response_id": "resp_2222"},
        ),
        (
            "/v1/responses",
            {"conversation": {"id": "conv_111"}},
            {"conversation": {"id": "conv_222"}},
        ),
        (
            "/v1/responses",
            {"input": [{"type": "item_reference", "id": "msg_11111"}]},
            {"input": [{"type": "item_reference", "id": "msg_22222"}]},
        ),
        (
            CHAT,
            {"messages": [{"role": "assistant", "audio": {"id": "audio_111"}}]},
            {"messages": [{"role": "assistant", "audio": {"id": "audio_222"}}]},
        ),
    ],
)  # fmt: skip
def test_references_to_content_stored_elsewhere_count(path: str, one: Any, other: Any) -> None:
    one, other = post_request(path, **one), post_request(path, **other)

    assert request_key("openai", one, IDS) != request_key("openai", other, IDS)
