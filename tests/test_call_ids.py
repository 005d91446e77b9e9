"""`call-ids` and `paths`: what tells a run from another, and nothing else."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_proxy import dialects
from llm_proxy.cassette import StoredRequest
from llm_proxy.matching import NormalizedDocument, normalized_document, request_key
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.matching.normalisers.texts_at_path import texts_at_path
from llm_proxy.turns import Json

IDS: Final = parse_rules(["call-ids"])
CHAT: Final = "/v1/chat/completions"


def asked(path: str, **body: Any) -> StoredRequest:
    return StoredRequest("POST", path, "", (), json.dumps(body).encode())


def done(request: StoredRequest) -> NormalizedDocument:
    return normalized_document("openai", request, IDS)


def called(id_: str, other: str = "", said: str = "", name: str = "f") -> StoredRequest:
    """A chat in which a call was answered."""
    call = {"id": id_, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return asked(
        CHAT,
        messages=[
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": other or id_, "content": said},
        ],
    )


def test_ids_become_names_by_their_place_wherever_they_stand() -> None:
    it = done(called("call_1234", said="see results/call_1234.txt, not call_12345"))

    assert it.document.body == {
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
    assert it.aliases == {"<id-1>": "call_1234"}


def test_requests_that_use_their_ids_alike_have_one_key() -> None:
    assert request_key("o", called("call_1"), IDS) == request_key("o", called("toolu_9876"), IDS)


def test_requests_that_use_their_ids_otherwise_have_not() -> None:
    assert request_key("o", called("call_1"), IDS) != request_key(
        "o", called("call_1", "call_2"), IDS
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (called("1", said="1"), called("2", said="2")),
        (called("get_weather", name="get_weather"), called("get_time", name="get_time")),
        (called("call_1", said="a"), called("call_1", said="b")),
    ],
    ids=["a short id in a text", "an id that is a word", "another text"],
)
def test_what_is_no_id_counts(one: StoredRequest, other: StoredRequest) -> None:
    assert request_key("o", one, IDS) != request_key("o", other, IDS)


def placed(path: str, id_: str) -> Json:
    """A body in which an id stands at a path."""
    value: Json = id_
    for step in reversed(path.removeprefix("$.").split(".")):
        name = step.removesuffix("[*]")
        value = {name: [value, {"n": 1}] if step.endswith("[*]") else value}
    return value


@pytest.mark.parametrize(
    ("name", "path"),
    [(dialect.name, path) for dialect in dialects.DIALECTS for path in dialect.id_paths],
)
def test_every_id_of_every_dialect_is_found(name: str, path: str) -> None:
    body = placed(path, "call_1234")

    assert list(texts_at_path(body, path)) == ["call_1234"]
    assert list(texts_at_path({"x": body}, path)) == []
    assert name in {dialect.name for dialect in dialects.DIALECTS}


@given(
    st.lists(st.text("ab1/_-.", max_size=12), min_size=1, max_size=4),
    st.lists(st.text("ab1/_-. ", max_size=40), max_size=4),
)
def test_applied_twice_it_gives_the_same(ids: list[str], texts: list[str]) -> None:
    calls = [{"id": item, "function": {"name": "f"}} for item in ids]
    messages = [{"tool_calls": calls}, *({"content": f"{text} {ids[0]}"} for text in texts)]
    once = done(asked(CHAT, messages=messages)).document

    assert IDS.apply(once).document == once


def test_hostile_texts_take_no_longer_than_others() -> None:
    texts = ["a-" * 200_000, "call_1234 " * 50_000, "_" * 400_000]

    it = done(called("call_1234", said="".join(texts)))

    assert str(it.document.body).count("<id-1>") == 50_001


@pytest.mark.parametrize(
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
def test_what_refers_to_words_that_stand_elsewhere_counts(path: str, one: Any, other: Any) -> None:
    one, other = asked(path, **one), asked(path, **other)

    assert request_key("openai", one, IDS) != request_key("openai", other, IDS)
