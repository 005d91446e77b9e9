"""Among many cassettes, the few that a request could have meant are found by their words."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_builders import META
from llm_proxy import misses
from llm_proxy.cassette import StoredRequest
from llm_proxy.exchange import Request
from llm_proxy.misses import CassetteCandidate, word_index
from llm_proxy.misses.word_index import FEW, CassetteIndex, request_line
from llm_proxy.routing import route

CHAT = "/v1/chat/completions"


def clock() -> float:
    return 0.0


def stored(path: str = CHAT, **body: object) -> StoredRequest:
    return StoredRequest("POST", path, "", (), orjson.dumps({"model": "m", **body}))


def asking(text: str) -> StoredRequest:
    return stored(messages=[{"role": "user", "content": text}])


def filled(*requests: StoredRequest) -> CassetteIndex:
    it = CassetteIndex()
    for number, request in enumerate(requests):
        it.add(number, request_line(request).rstrip(b"\n"))
    return it


def test_the_one_that_shares_most_words_is_among_the_found() -> None:
    texts = [f"word{n} and word{n + 1}" for n in range(200)]
    many = filled(*(stored(text=text, seed=n) for n, text in enumerate(texts)))

    found = many.nearest_numbers(stored(text=texts[77], seed=-1))

    assert 77 in found
    assert (len(found), many.size) == (FEW, 200)


def test_they_come_in_the_order_of_the_library() -> None:
    found = filled(*(stored(text="same") for _ in range(40))).nearest_numbers(stored(text="same"))
    assert found == list(range(FEW))


def test_what_was_asked_of_another_path_is_looked_at_too() -> None:
    others = [stored(path=f"/v{n}/chat/completions", text=f"text {n}") for n in range(3)]
    assert filled(*others).nearest_numbers(stored(text="text 2")) == [0, 1, 2]


def test_a_line_that_is_spelled_otherwise_is_found_among_the_others() -> None:
    it = CassetteIndex()
    it.add(0, b'{ "request": {"path": "/v1/chat/completions", "json": {"text": "it"}} }')
    assert it.nearest_numbers(stored(text="it")) == [0]


def test_among_very_many_that_tie_the_last_message_decides() -> None:
    texts = [f"Question number {n}?" for n in range(5_000)]
    many = filled(*map(asking, texts))
    asked = route(Request("POST", CHAT, "", (), asking("Question number 777!").body), 0.0, clock)

    found = many.nearest_numbers(asked.stored_request)
    nearest = misses.find_nearest(
        asked, [CassetteCandidate(texts[item], META, asking(texts[item])) for item in found]
    )

    assert len(found) == FEW
    assert nearest is not None
    assert nearest.match is not None
    assert nearest.match.candidate.file == "Question number 777?"


def test_of_a_long_message_its_beginning_and_its_end_decide() -> None:
    texts = [f"{'so many words ' * 1_000}{n}" for n in range(40)]
    assert 33 in filled(*map(asking, texts)).nearest_numbers(asking(texts[33] + "!"))


@pytest.mark.parametrize("line", [b"", b"{", b'{"request":1}', b'{"request":{"text":"x"}}'])
def test_a_line_that_asks_nothing_in_words_has_no_last_ones(line: bytes) -> None:
    assert not word_index.last_message_words(line)


def test_a_line_that_is_very_long_is_not_looked_into() -> None:
    assert word_index.last_message_words(request_line(asking("hello")))
    assert not word_index.last_message_words(request_line(asking("hello " * 200_000)))


def test_an_empty_index_finds_nothing() -> None:
    assert CassetteIndex().nearest_numbers(stored()) == []


@settings(max_examples=30)
@given(st.lists(st.text(max_size=5), min_size=1, max_size=8), st.data())
def test_the_same_request_is_always_found(texts: list[str], data: st.DataObject) -> None:
    requests = [stored(text=text, number=n) for n, text in enumerate(texts)]
    number = data.draw(st.integers(0, len(texts) - 1))
    assert number in filled(*requests).nearest_numbers(requests[number])


def test_the_words_of_a_request_are_its_names_and_texts() -> None:
    one, same, other = (
        sorted(word_index.word_counts(line))
        for line in (b'{"a":"x","b":1}', b'{"b":1,"a":"x"}', b'{"a":"y","b":1}')
    )
    assert one != other
    assert len(set(one) & set(same)) >= 2
