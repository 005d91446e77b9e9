from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cassette_builders import META
from llm_proxy import misses
from llm_proxy.cassette import StoredRequest
from llm_proxy.exchange import Request
from llm_proxy.misses import CassetteCandidate, NearestMatch, NearestSearch
from llm_proxy.routing import RoutedRequest, route

LIBRARY = "cassettes"
PLAIN: dict[str, Any] = {"model": "gpt-5", "stream": True, "messages": [{"content": "hello"}]}


def call(**body: Any) -> RoutedRequest:
    return raw(orjson.dumps({**PLAIN, **body}))


def raw(body: bytes, path: str = "/v1/chat/completions") -> RoutedRequest:
    return route(Request("POST", path, "", (), body), 0.0, lambda: 0.0)


def candidate(name: str, asked: RoutedRequest) -> CassetteCandidate:
    return CassetteCandidate(f"cassettes/{name}.jsonl", META, asked.stored_request)


def search(asked: RoutedRequest, *stored: RoutedRequest) -> NearestSearch:
    found = misses.find_nearest(asked, [candidate(f"c{n}", it) for n, it in enumerate(stored)])
    assert found is not None
    return found


def near(asked: RoutedRequest, *stored: RoutedRequest) -> NearestMatch:
    found = search(asked, *stored).match
    assert found is not None
    return found


def said(asked: RoutedRequest, *stored: RoutedRequest) -> str:
    return str(misses.miss_without_cassette(asked, search(asked, *stored), LIBRARY))


def test_the_nearest_cassette_is_the_one_that_shares_most() -> None:
    asked = call(messages=[{"content": "hello"}], seed=1)
    far = call(model="other", stream=False, seed=1)
    close = call(seed=2)
    for order in ([far, close], [close, far]):
        found = near(asked, *order)
        assert found.candidate.request == close.stored_request
        assert [list_difference.path for list_difference in found.list_differences] == ["$.seed"]
    assert 0.7 < near(asked, close).similarity < 1


def test_of_two_that_are_as_near_it_is_the_first() -> None:
    assert near(call(seed=0), call(seed=1), call(seed=2)).candidate.file == "cassettes/c0.jsonl"


ASKED = (
    "Add up.", "Bring tea.", "Name three rivers.", "What is 2+2?",
    "Today is 2026-11-22. What is due?", "Delete 3f2c8a1e-0d4b-4c6f-9a7e-5b1d2c3e4f5a.",
)  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("Name three rivers", "Name three rivers."),
        ("What is 2+3?", "What is 2+2?"),
        ("Today is 2026-11-23. What is due?", "Today is 2026-11-22. What is due?"),
        (
            "Delete 9d1b7c22-6a3e-4f58-8c0d-1e2f3a4b5c6d.",
            "Delete 3f2c8a1e-0d4b-4c6f-9a7e-5b1d2c3e4f5a.",
        ),
    ],
)
def test_of_chats_of_one_message_the_nearest_reads_most_alike(asked: str, nearest: str) -> None:
    chats = [call(messages=[{"role": "user", "content": item}]) for item in ASKED]
    found = near(call(messages=[{"role": "user", "content": asked}]), *chats)
    assert found.candidate.request == chats[ASKED.index(nearest)].stored_request


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        ("Today is 2026-11-23. What is due?", "timestamps"),
        ("Delete 9d1b7c22-6a3e-4f58-8c0d-1e2f3a4b5c6d.", "uuids"),
    ],
)
def test_so_the_rule_that_helps_is_found(asked: str, rule: str) -> None:
    chats = [call(messages=[{"role": "user", "content": item}]) for item in ASKED]
    told = said(call(messages=[{"role": "user", "content": asked}]), *chats)
    assert f"--normalise {rule}" in told


def test_an_empty_library_has_no_nearest() -> None:
    assert misses.find_nearest(call(), []) is None


def test_the_miss_of_an_empty_library_says_so() -> None:
    miss = misses.miss_without_cassette(call(), None, LIBRARY)
    assert str(miss) == (
        "no cassette for POST /v1/chat/completions (gpt-5): cassettes holds none. "
        "Record it with llm-proxy record."
    )
    assert "cassettes is empty" in miss.detail


def test_a_miss_names_what_was_asked_the_nearest_and_both_values() -> None:
    asked = call(messages=[{"content": "hello"}], temperature=0.5)
    stored = call(messages=[{"content": "hallo"}], seed=7)
    assert said(asked, stored) == (
        "no cassette for POST /v1/chat/completions (gpt-5). Nearest is cassettes/c0.jsonl, which "
        'differs at $.messages[0].content: "hello", cassette has "hallo"; '
        "$.temperature: 0.5, not in the cassette; $.seed: missing, cassette has 7. "
        "Record it with llm-proxy record, or make the request the same."
    )
    miss = misses.miss_without_cassette(asked, search(asked, stored), LIBRARY)
    first, second, *others = miss.detail.splitlines()
    assert f"key {asked.key[:16]}, session default" in first
    assert "cassettes/c0.jsonl" in second
    assert "% alike" in second
    assert others == [
        '  $.messages[0].content: "hello", cassette has "hallo"',
        (
            "    would not count with --normalise 'ignore=$.messages[0].content' "
            "(what is asked would not count: record it instead)"
        ),
        "  $.temperature: 0.5, not in the cassette",
        "    would not count with --normalise 'ignore=$.temperature'",
        "  $.seed: missing, cassette has 7",
        "    would not count with --normalise 'ignore=$.seed'",
        "record it with llm-proxy record",
    ]


def request(method: str, path: str, body: object = None, provider: str = "") -> RoutedRequest:
    """A call; the body is JSON, and empty for None."""
    content = b"" if body is None else orjson.dumps(body)
    named = f"/~{provider}{path}" if provider else path
    return route(Request(method, named, "", (), content), 0.0, lambda: 0.0)


MESSAGES = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


@pytest.mark.parametrize(
    ("asked", "stored", "alike"),
    [
        (
            request("POST", "/v1/chat/completions", PLAIN),
            request("POST", "/v1/chat/completions", MESSAGES),
            True,
        ),
        (request("POST", "/v1/chat/completions", PLAIN, "groq"), call(), True),
        (request("GET", "/v1/models"), request("GET", "/v1/models"), True),
        (
            request("POST", "/v1beta/models/a:generateContent", CONTENTS),
            request("POST", "/v1beta/models/b:generateContent", CONTENTS),
            True,
        ),
        (
            request("POST", "/v1beta/models/a:generateContent", CONTENTS),
            request("POST", "/v1beta/models/b:generateContent", {"contents": []}),
            False,
        ),
        (
            request("POST", "/v1/chat/completions", MESSAGES),
            request("POST", "/v1/messages", {**MESSAGES, "stream": True}),
            False,
        ),
        (
            request("POST", "/v1/embeddings", {"model": "m", "input": "hi"}),
            request("POST", "/v1/chat/completions", MESSAGES),
            False,
        ),
        (request("GET", "/v1/models"), request("GET", "/v1/files"), False),
        (request("POST", "/v1/a", {}), request("POST", "/v1/b", {}), False),
        (request("GET", "/v1/models"), request("POST", "/v1/models"), False),
        (
            request("POST", "/v1/other", {"a": 1}),
            request("POST", "/v1/chat/completions", PLAIN),
            False,
        ),
    ],
    ids=[
        "other body",
        "other provider",
        "the same",
        "model in the path",
        "that and the body",
        "other API",
        "other task",
        "other page",
        "nothing said",
        "other method",
        "nothing shared",
    ],
)
def test_only_a_request_of_the_same_kind_is_near(
    asked: RoutedRequest, stored: RoutedRequest, alike: bool
) -> None:
    assert (search(asked, stored).match is not None) == alike


def test_where_nothing_is_like_it_the_miss_says_so_and_names_no_file() -> None:
    asked = request("GET", "/v1/files")
    miss = misses.miss_without_cassette(asked, search(asked, call(), call(seed=1)), LIBRARY)
    assert str(miss) == (
        "no cassette for GET /v1/files: nothing like it in cassettes (2 cassettes). "
        "Record it with llm-proxy record."
    )
    assert "nothing like it in cassettes (2 cassettes)" in miss.detail
    assert f"key {asked.key[:16]}, session default" in miss.detail
    assert "c0.jsonl" not in str(miss) + miss.detail


def test_one_that_is_like_it_wins_over_one_that_shares_more() -> None:
    asked = raw(orjson.dumps({"model": "m", "x": [1, 2, 3]}), "/v1/a")
    other = raw(orjson.dumps({"model": "m", "x": [1, 2, 4]}), "/v1/b")
    like = raw(orjson.dumps({"model": "n"}), "/v1/a")
    assert near(asked, other, like).candidate.file == "cassettes/c1.jsonl"


def test_another_path_is_named_where_the_body_is_the_same() -> None:
    words = said(call(), raw(orjson.dumps(PLAIN), "/v2/chat/completions"))
    assert "path: /v1/chat/completions, cassette has /v2/chat/completions" in words


def test_no_more_differences_are_named_than_one_wants_to_read() -> None:
    asked, stored = call(), call(**{f"field{n}": n for n in range(30)})
    assert "$.field2: missing, cassette has 2; and 27 more. Record" in said(asked, stored)
    miss = misses.miss_without_cassette(asked, search(asked, stored), LIBRARY)
    assert len(miss.detail.splitlines()) == 24


def test_long_values_are_cut_where_they_differ() -> None:
    before, after = "a" * 5000, "b" * 5000
    words = said(call(system=before + "X" + after), call(system=before + "Y" + after))
    assert "$.system: …" + "a" * 20 + "X" + "b" * 38 + "…, cassette has …" + "a" * 20 + "Y" in words
    assert "[-" not in words
    words = said(call(system=before), call(system=before + "Y" + after))
    assert f"$.system: [-…{'a' * 20}Ybbb" in words
    assert f"bbb…-] {{+…{'a' * 20}+}} ([-cassette-] {{+request+}}). Record it" in words


def test_values_that_fit_are_not_cut() -> None:
    words = said(call(system="a" * 57 + "X"), call(system="a" * 57 + "Y"))
    assert f'"{"a" * 57}X", cassette has "{"a" * 57}Y"' in words


def test_a_cassette_that_answers_but_does_not_count_is_named() -> None:
    asked = call()
    stored = CassetteCandidate("a.jsonl", replace(META, session="other"), asked.stored_request)
    found = misses.find_nearest(asked, [stored])
    assert found is not None
    assert found.match is not None
    assert (found.match.similarity, found.match.list_differences) == (1.0, ())
    miss = misses.miss_without_cassette(asked, found, LIBRARY)
    assert "a.jsonl answers this very request but belongs to session other (asked" in str(miss)
    ours = misses.find_nearest(asked, [CassetteCandidate("a.jsonl", META, asked.stored_request)])
    miss = misses.miss_without_cassette(asked, ours, LIBRARY, "is not complete")
    assert "a.jsonl answers this very request but is not complete." in str(miss)
    assert "a.jsonl answers this very request but is not complete" in miss.detail


def test_a_request_that_was_recorded_less_often_says_so() -> None:
    miss = misses.miss_used_up(call(), 2, 3)
    assert str(miss) == (
        "no take left: this is request 3 for POST /v1/chat/completions (gpt-5), of which 2 takes "
        "are recorded (--after-last fail)."
    )
    assert "request 3" in miss.detail


def test_a_request_without_a_model_is_named_by_its_path() -> None:
    asked = raw(b"x", "/v1/other")
    assert str(misses.miss_without_cassette(asked, None, LIBRARY)).startswith(
        "no cassette for POST /v1/other:"
    )


LONG = "x" * 3000


@pytest.mark.parametrize(
    ("asked", "stored"),
    [
        (call(model=LONG), call(model=LONG + "y")),
        (call(**{LONG: {LONG + "a": LONG}}), call(**{LONG: {LONG + "b": LONG}})),
        (raw(LONG.encode()), raw(b"y" + LONG.encode())),
        (raw(b"{}", "/" + LONG), raw(b"{}", "/" + LONG + "y")),
        (call(**{f"{LONG}{n}": LONG for n in range(9)}), call()),
        (raw(b"\x1b[2J\r\n" * 90), raw(b"\x9b\x00\r\n" * 90)),
        (call(model="a\x1b[2J\n"), call()),
        (raw('{"\u202e":1,"\\n":2}'.encode()), raw(b'{"\\u001b":1}')),
    ],
    ids=["model", "field", "body", "path", "many", "controls", "model with controls", "names"],
)
def test_a_miss_fits_an_exception_and_a_terminal(
    asked: RoutedRequest, stored: RoutedRequest
) -> None:
    miss = misses.miss_without_cassette(asked, search(asked, stored), LIBRARY)
    assert len(str(miss)) <= 600
    assert str(miss).isprintable()
    assert all(line.isprintable() for line in miss.detail.splitlines())
    assert len(miss.detail) < 8000


json_values = st.recursive(
    st.integers(-9, 9) | st.text(max_size=200) | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values, json_values)
def test_a_miss_is_short_and_printable_whatever_differs(one: Any, other: Any) -> None:
    asked, stored = call(x=one), call(x=other)
    miss = misses.miss_without_cassette(asked, search(asked, stored), LIBRARY)
    assert len(str(miss)) <= 600
    assert str(miss).isprintable()


def test_requests_that_differ_in_nothing_else_but_the_provider_are_told_apart() -> None:
    asked = raw(orjson.dumps(PLAIN), "/~groq/v1/chat/completions")
    assert "provider: groq, cassette has openai" in said(asked, call())


def test_a_stored_request_of_any_kind_can_be_nearest() -> None:
    stored = StoredRequest("POST", "/v1/chat/completions", "", (), b"\xff")
    found = misses.find_nearest(call(), [CassetteCandidate("a", META, stored)])
    assert found is not None
    assert found.match is not None
    assert {list_difference.path for list_difference in found.match.list_differences} >= {
        "body",
        "$.model",
    }
