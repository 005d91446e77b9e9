"""How alike two requests read, as a whole and in what they ask."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_proxy.cassette import StoredRequest
from llm_proxy.matching import KeyDocument, key_document
from llm_proxy.misses.prompt_fields import question_leaves
from llm_proxy.misses.similarity import RequestSimilarity, least_similarity

LONG = "The quick brown fox jumps over the lazy dog. " * 60


def likeness(one: dict[str, str], other: dict[str, str]) -> float:
    return RequestSimilarity(one).similarity_to(other)


def chat(*said: str, **beside: object) -> KeyDocument:
    messages = [{"role": "user", "content": item} for item in said]
    return document({"model": "m", "messages": messages, **beside})


def document(body: object) -> KeyDocument:
    return of(orjson.dumps(body))


def of(body: bytes, *headers: tuple[str, str]) -> KeyDocument:
    return key_document("openai", StoredRequest("POST", "/v1/x", "", headers, body))


def form(**fields: str) -> KeyDocument:
    body = "&".join(f"{name}={value}" for name, value in fields.items())
    return of(body.encode(), ("Content-Type", "application/x-www-form-urlencoded"))


def upload(file: str, language: str) -> KeyDocument:
    body = (
        '--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        f"{file}\r\n"
        f'--b\r\nContent-Disposition: form-data; name="language"\r\n\r\n{language}\r\n--b--\r\n'
    )
    return of(body.encode(), ("Content-Type", "multipart/form-data; boundary=b"))


@pytest.mark.parametrize(
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
def test_likeness_is_the_share_of_what_two_requests_share(
    one: dict[str, str], other: dict[str, str], alike: float
) -> None:
    assert likeness(one, other) == pytest.approx(alike)
    assert likeness(other, one) == pytest.approx(alike)


@settings(max_examples=50)
@given(st.text(max_size=20), st.text(max_size=20))
def test_two_texts_are_wholly_alike_only_where_they_are_the_same(one: str, other: str) -> None:
    first, second = ({"$.a": orjson.dumps(item).decode()} for item in (one, other))
    alike = likeness(first, second)
    assert (alike == 1) == (one == other)
    assert 0 <= alike == likeness(second, first) <= 1


def test_words_in_another_order_are_not_the_same() -> None:
    assert 0.99 < least_similarity(chat(LONG + "red"), chat("red" + LONG)) < 1


def test_long_texts_are_alike_by_their_words() -> None:
    assert least_similarity(chat(LONG + "red car"), chat(LONG + "blue car")) > 0.99
    assert least_similarity(chat(LONG), chat("Something else altogether.")) < 0.1


def test_two_images_are_not_alike_however_their_hashes_are_told() -> None:
    one, other = ("data:image/png;base64," + f"aB3{item}" * 100 for item in "xy")
    assert least_similarity(chat(one), chat(other)) == 0


@pytest.mark.parametrize(
    ("asked", "stored", "least"),
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
        (of(b"hello"), of(b"other"), 0.0),
        (document(["a"]), document(["b"]), 0.0),
    ],
    ids=[
        "a number beside it", "a text beside it", "one more message", "no message",
        "nothing said", "tokens", "a form's other field", "a form's prompt", "a file's language",
        "another file", "plain text", "no object",
    ],
)  # fmt: skip
def test_what_is_asked_is_as_alike_as_its_least_alike_text(
    asked: KeyDocument, stored: KeyDocument, least: float
) -> None:
    assert least_similarity(asked, stored) == least == least_similarity(stored, asked)


def test_what_is_asked_is_the_conversation_alone() -> None:
    assert question_leaves(chat("hi", tools=[{"name": "x"}])) == {
        "$.messages[0].content": '"hi"',
        "$.messages[0].role": '"user"',
    }
