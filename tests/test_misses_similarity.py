"""The similarity of two requests, as a whole and of their prompts."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.cassette import StoredRequest
from llm_proxy.matching import KeyDocument, key_document
from llm_proxy.misses.nearest import (
    RequestSimilarityScorer,
    lowest_prompt_similarity,
    prompt_leaves,
)

LONG = "The quick brown fox jumps over the lazy dog. " * 60


def similarity(one: dict[str, str], other: dict[str, str]) -> float:
    return RequestSimilarityScorer(one).similarity_to(other)


def chat(*texts: str, **fields: object) -> KeyDocument:
    messages = [{"role": "user", "content": item} for item in texts]
    return document({"model": "m", "messages": messages, **fields})


def document(body: object) -> KeyDocument:
    return document_of_bytes(orjson.dumps(body))


def document_of_bytes(body: bytes, *headers: tuple[str, str]) -> KeyDocument:
    return key_document("openai", StoredRequest("POST", "/v1/x", "", headers, body))


def form(**fields: str) -> KeyDocument:
    body = "&".join(f"{name}={value}" for name, value in fields.items())
    return document_of_bytes(body.encode(), ("Content-Type", "application/x-www-form-urlencoded"))


def upload(file: str, language: str) -> KeyDocument:
    body = (
        '--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        f"{file}\r\n"
        f'--b\r\nContent-Disposition: form-data; name="language"\r\n\r\n{language}\r\n--b--\r\n'
    )
    return document_of_bytes(body.encode(), ("Content-Type", "multipart/form-data; boundary=b"))


@each_row(
    ("one", "other", "alike"),
    [
        ({"$.a": "1"}, {"$.a": "1"}, 1.0),
        ({"$.a": "1"}, {"$.a": "2"}, 0.0),
        ({"$.a": "1", "$.b": "2"}, {"$.a": "1", "$.b": "3"}, 1 / 3),
        ({"$.a": "1", "$.b": "2"}, {"$.a": "1"}, 1 / 2),
        ({"$.a": '"abc"'}, {"$.a": '"abd"'}, 1 / 5),
        ({"path": "/v1/chat"}, {"path": "/v1/chats"}, 0.0),
    ],
    ids=["same", "numbers", "one of two", "one alone", "texts", "no text of a body"],
)
def test_similarity_is_the_share_of_equal_leaves(
    one: dict[str, str], other: dict[str, str], alike: float
) -> None:
    assert similarity(one, other) == pytest.approx(alike)
    assert similarity(other, one) == pytest.approx(alike)


@given(st.text(max_size=20), st.text(max_size=20))
def test_only_equal_texts_have_a_similarity_of_1(one: str, other: str) -> None:
    first, second = ({"$.a": orjson.dumps(item).decode()} for item in (one, other))
    alike = similarity(first, second)
    assert (alike == 1) == (one == other)
    assert 0 <= alike == similarity(second, first) <= 1


def test_words_in_another_order_are_not_the_same() -> None:
    assert 0.99 < lowest_prompt_similarity(chat(LONG + "red"), chat("red" + LONG)) < 1


def test_long_texts_are_compared_by_their_words() -> None:
    assert lowest_prompt_similarity(chat(LONG + "red car"), chat(LONG + "blue car")) > 0.99
    assert lowest_prompt_similarity(chat(LONG), chat("Something else altogether.")) < 0.1


def test_different_images_have_no_similarity() -> None:
    one, other = ("data:image/png;base64," + f"aB3{item}" * 100 for item in "xy")
    assert lowest_prompt_similarity(chat(one), chat(other)) == 0


@each_row(
    ("requested", "stored", "least"),
    [
        (chat("hi", seed=1), chat("hi", seed=2), 1.0),
        (chat("hi", user="ann"), chat("hi", user="bob"), 1.0),
        (chat("hi", "there"), chat("hi"), 0.0),
        (chat("hi"), chat(), 0.0),
        (chat("hi", system=None), chat("hi"), 1.0),
        (document({"input": [1, 2]}), document({"input": [1, 3]}), 0.0),
        (form(prompt="a", n="1"), form(n="2", prompt="a"), 1.0),
        (form(prompt="a"), form(prompt="b"), 0.0),
        (upload("one", "de"), upload("one", "en"), 1.0),
        (upload("one", "de"), upload("two", "de"), 0.0),
        (document_of_bytes(b"hello"), document_of_bytes(b"other"), 0.0),
        (document(["a"]), document(["b"]), 0.0),
    ],
    ids=[
        "a number beside it", "a text beside it", "one more message", "no message",
        "nothing said", "tokens", "a form's other field", "a form's prompt", "a file's language",
        "another file", "plain text", "no object",
    ],
)  # fmt: skip
def test_the_similarity_of_prompts_is_that_of_their_least_similar_text(
    requested: KeyDocument, stored: KeyDocument, least: float
) -> None:
    assert (
        lowest_prompt_similarity(requested, stored)
        == least
        == lowest_prompt_similarity(stored, requested)
    )


def test_the_prompt_consists_of_the_conversation_alone() -> None:
    assert prompt_leaves(chat("hi", tools=[{"name": "x"}])) == {
        "$.messages[0].content": '"hi"',
        "$.messages[0].role": '"user"',
    }
