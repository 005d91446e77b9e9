"""The word index finds the few of many cassettes that are closest to a request."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from cassette_builders import META
from llm_proxy import misses
from llm_proxy.cassette import StoredRequest
from llm_proxy.exchange import Request
from llm_proxy.misses import CassetteCandidate, nearest
from llm_proxy.misses.nearest import (
    _MAX_SAME_TARGET,
    CassetteWordIndex,
    encode_cassette_request_line,
)
from llm_proxy.routing import route_request

CHAT = "/v1/chat/completions"


def clock() -> float:
    return 0.0


def stored(path: str = CHAT, **body: object) -> StoredRequest:
    return StoredRequest("POST", path, "", (), orjson.dumps({"model": "m", **body}))


def stored_chat(text: str) -> StoredRequest:
    return stored(messages=[{"role": "user", "content": text}])


def filled_index(*requests: StoredRequest) -> CassetteWordIndex:
    cassette_index = CassetteWordIndex()
    for number, request in enumerate(requests):
        cassette_index.add_cassette(number, encode_cassette_request_line(request).rstrip(b"\n"))
    return cassette_index


def test_the_one_that_shares_most_words_is_among_the_found() -> None:
    texts = [f"word{n} and word{n + 1}" for n in range(200)]
    many = filled_index(*(stored(text=text, seed=n) for n, text in enumerate(texts)))

    found = many.nearest_cassette_numbers(stored(text=texts[77], seed=-1))

    assert 77 in found
    assert (len(found), many.cassette_count) == (_MAX_SAME_TARGET, 200)


def test_the_found_come_in_the_order_of_the_library() -> None:
    found = filled_index(*(stored(text="same") for _ in range(40))).nearest_cassette_numbers(
        stored(text="same")
    )
    assert found == list(range(_MAX_SAME_TARGET))


def test_requests_to_another_path_are_considered_too() -> None:
    others = [stored(path=f"/v{n}/chat/completions", text=f"text {n}") for n in range(3)]
    assert filled_index(*others).nearest_cassette_numbers(stored(text="text 2")) == [0, 1, 2]


def test_a_request_line_with_another_json_formatting_is_found() -> None:
    cassette_index = CassetteWordIndex()
    cassette_index.add_cassette(
        0, b'{ "request": {"path": "/v1/chat/completions", "json": {"text": "it"}} }'
    )
    assert cassette_index.nearest_cassette_numbers(stored(text="it")) == [0]


def test_among_very_many_that_tie_the_last_message_decides() -> None:
    texts = [f"Question number {n}?" for n in range(5_000)]
    many = filled_index(*map(stored_chat, texts))
    requested = route_request(
        Request("POST", CHAT, "", (), stored_chat("Question number 777!").body), 0.0, clock
    )

    found = many.nearest_cassette_numbers(requested.stored_request)
    nearest, *_ = misses.rank_candidates(
        requested,
        [CassetteCandidate(texts[item], META, stored_chat(texts[item])) for item in found],
    )

    assert len(found) == _MAX_SAME_TARGET
    assert nearest.cassette.file == "Question number 777?"


def test_of_a_long_message_its_beginning_and_its_end_decide() -> None:
    texts = [f"{'so many words ' * 1_000}{n}" for n in range(40)]
    assert 33 in filled_index(*map(stored_chat, texts)).nearest_cassette_numbers(
        stored_chat(texts[33] + "!")
    )


@each_row("line", [b"", b"{", b'{"request":1}', b'{"request":{"text":"x"}}'])
def test_a_request_line_without_text_has_no_last_message_words(line: bytes) -> None:
    assert not nearest.last_message_word_hashes(line)


def test_a_line_that_is_very_long_is_not_looked_into() -> None:
    assert nearest.last_message_word_hashes(encode_cassette_request_line(stored_chat("hello")))
    assert not nearest.last_message_word_hashes(
        encode_cassette_request_line(stored_chat("hello " * 200_000))
    )


def test_an_empty_index_finds_nothing() -> None:
    assert CassetteWordIndex().nearest_cassette_numbers(stored()) == []


@given(st.lists(st.text(max_size=5), min_size=1, max_size=8), st.data())
def test_the_same_request_is_always_found(texts: list[str], data: st.DataObject) -> None:
    requests = [stored(text=text, number=n) for n, text in enumerate(texts)]
    number = data.draw(st.integers(0, len(texts) - 1))
    assert number in filled_index(*requests).nearest_cassette_numbers(requests[number])


def test_the_words_of_a_request_are_its_names_and_texts() -> None:
    one, same, other = (
        sorted(nearest.word_hashes(line))
        for line in (b'{"a":"x","b":1}', b'{"b":1,"a":"x"}', b'{"a":"y","b":1}')
    )
    assert one != other
    assert len(set(one) & set(same)) >= 2
