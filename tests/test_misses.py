from __future__ import annotations

import re
from typing import Any

import msgspec
import orjson
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from cassette_builders import META
from llm_proxy import misses
from llm_proxy.cassette import StoredRequest
from llm_proxy.errors import Miss
from llm_proxy.exchange import Request
from llm_proxy.misses import CassetteCandidate, RankedCandidate
from llm_proxy.routing import RoutedRequest, route_request

LIBRARY = "cassettes"
PLAIN: dict[str, Any] = {"model": "gpt-5", "stream": True, "messages": [{"content": "hello"}]}


def chat_call(**body: Any) -> RoutedRequest:
    return call_with_body(orjson.dumps({**PLAIN, **body}))


def call_with_body(body: bytes, path: str = "/v1/chat/completions") -> RoutedRequest:
    return route_request(Request("POST", path, "", (), body), 0.0, lambda: 0.0)


def candidate(name: str, recorded: RoutedRequest) -> CassetteCandidate:
    return CassetteCandidate(f"cassettes/{name}.jsonl", META, recorded.stored_request)


def search(requested: RoutedRequest, *stored: RoutedRequest) -> list[RankedCandidate]:
    return misses.rank_candidates(
        requested, [candidate(f"c{n}", stored_call) for n, stored_call in enumerate(stored)]
    )


def nearest_match(requested: RoutedRequest, *stored: RoutedRequest) -> RankedCandidate:
    return search(requested, *stored)[0]


def miss_of(requested: RoutedRequest, *stored: RoutedRequest) -> Miss:
    ranked = search(requested, *stored)
    nearest = ranked[0] if ranked else None
    return misses.no_cassette_miss(requested, nearest, len(stored), LIBRARY)


def miss_text(requested: RoutedRequest, *stored: RoutedRequest) -> str:
    return str(miss_of(requested, *stored))


def test_the_nearest_cassette_is_the_one_that_shares_most() -> None:
    requested = chat_call(messages=[{"content": "hello"}], seed=1)
    far = chat_call(model="other", stream=False, seed=1)
    close = chat_call(seed=2)
    for order in ([far, close], [close, far]):
        found = nearest_match(requested, *order)
        assert found.cassette.request == close.stored_request
        assert [list_difference.path for list_difference in found.differences.differences] == [
            "$.seed"
        ]
    assert 0.7 < nearest_match(requested, close).similarity < 1


def test_of_two_equally_near_cassettes_the_first_is_the_nearest() -> None:
    assert (
        nearest_match(chat_call(seed=0), chat_call(seed=1), chat_call(seed=2)).cassette.file
        == "cassettes/c0.jsonl"
    )


PROMPTS = (
    "Add up.", "Bring tea.", "Name three rivers.", "What is 2+2?",
    "Today is 2026-11-22. What is due?", "Delete 3f2c8a1e-0d4b-4c6f-9a7e-5b1d2c3e4f5a.",
)  # fmt: skip


@each_row(
    ("prompt", "nearest"),
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
def test_of_single_message_chats_the_nearest_has_the_most_similar_text(
    prompt: str, nearest: str
) -> None:
    chats = [chat_call(messages=[{"role": "user", "content": item}]) for item in PROMPTS]
    found = nearest_match(chat_call(messages=[{"role": "user", "content": prompt}]), *chats)
    assert found.cassette.request == chats[PROMPTS.index(nearest)].stored_request


@each_row(
    ("prompt", "rule"),
    [
        ("Today is 2026-11-23. What is due?", "timestamps"),
        ("Delete 9d1b7c22-6a3e-4f58-8c0d-1e2f3a4b5c6d.", "uuids"),
    ],
)
def test_a_miss_suggests_the_rule_that_helps(prompt: str, rule: str) -> None:
    chats = [chat_call(messages=[{"role": "user", "content": item}]) for item in PROMPTS]
    text = miss_text(chat_call(messages=[{"role": "user", "content": prompt}]), *chats)
    assert f"--normalise {rule}" in text


def test_an_empty_library_has_no_nearest() -> None:
    assert search(chat_call()) == []


def test_the_miss_of_an_empty_library_says_so() -> None:
    miss = miss_of(chat_call())
    assert str(miss) == (
        "no cassette matches POST /v1/chat/completions (gpt-5): the library ./cassettes is empty; "
        "record the request with llm-proxy record"
    )
    assert re.search(
        r"the library \./cassettes is empty; key [0-9a-f]{16}, session default$", miss.detail
    )


def test_a_miss_names_the_request_the_nearest_cassette_and_both_values() -> None:
    requested = chat_call(messages=[{"content": "hello"}], temperature=0.5)
    stored = chat_call(messages=[{"content": "hallo"}], seed=7)
    assert miss_text(requested, stored) == (
        "no cassette matches POST /v1/chat/completions (gpt-5); nearest: cassettes/c0.jsonl, which "
        'differs at $.messages[0].content: request has "hello", cassette has "hallo"; '
        "at $.temperature: request has 0.5, cassette has no value; "
        "at $.seed: request has no value, cassette has 7; "
        "record the request with llm-proxy record, or change the request"
    )
    miss = miss_of(requested, stored)
    first, second, *others = miss.detail.splitlines()
    assert first == (
        "no cassette matches POST /v1/chat/completions (gpt-5); "
        f"key {requested.key[:16]}, session default"
    )
    assert second.startswith("nearest: cassettes/c0.jsonl (")
    assert second.endswith(" % similar)")
    assert others == [
        '  $.messages[0].content: request has "hello", cassette has "hallo"',
        (
            "    to ignore: --normalise 'ignore=$.messages[0].content' "
            "(this rule would ignore the prompt itself; record the request instead)"
        ),
        "  $.temperature: request has 0.5, cassette has no value",
        "    to ignore: --normalise 'ignore=$.temperature'",
        "  $.seed: request has no value, cassette has 7",
        "    to ignore: --normalise 'ignore=$.seed'",
        "record the request with llm-proxy record",
    ]


def call_to(method: str, path: str, body: object = None, provider: str = "") -> RoutedRequest:
    """A call; the body is JSON, or empty if it is None."""
    content = b"" if body is None else orjson.dumps(body)
    routed_path = f"/~{provider}{path}" if provider else path
    return route_request(Request(method, routed_path, "", (), content), 0.0, lambda: 0.0)


MESSAGES_BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
CONTENTS_BODY = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


@each_row(
    ("requested", "stored", "alike"),
    [
        (
            call_to("POST", "/v1/chat/completions", PLAIN),
            call_to("POST", "/v1/chat/completions", MESSAGES_BODY),
            True,
        ),
        (call_to("POST", "/v1/chat/completions", PLAIN, "groq"), chat_call(), True),
        (call_to("GET", "/v1/models"), call_to("GET", "/v1/models"), True),
        (
            call_to("POST", "/v1beta/models/a:generateContent", CONTENTS_BODY),
            call_to("POST", "/v1beta/models/b:generateContent", CONTENTS_BODY),
            True,
        ),
        (
            call_to("POST", "/v1beta/models/a:generateContent", CONTENTS_BODY),
            call_to("POST", "/v1beta/models/b:generateContent", {"contents": []}),
            False,
        ),
        (
            call_to("POST", "/v1/chat/completions", MESSAGES_BODY),
            call_to("POST", "/v1/messages", {**MESSAGES_BODY, "stream": True}),
            False,
        ),
        (
            call_to("POST", "/v1/embeddings", {"model": "m", "input": "hi"}),
            call_to("POST", "/v1/chat/completions", MESSAGES_BODY),
            False,
        ),
        (call_to("GET", "/v1/models"), call_to("GET", "/v1/files"), False),
        (call_to("POST", "/v1/a", {}), call_to("POST", "/v1/b", {}), False),
        (call_to("GET", "/v1/models"), call_to("POST", "/v1/models"), False),
        (
            call_to("POST", "/v1/other", {"a": 1}),
            call_to("POST", "/v1/chat/completions", PLAIN),
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
    requested: RoutedRequest, stored: RoutedRequest, alike: bool
) -> None:
    assert bool(search(requested, stored)) == alike


def test_without_a_similar_cassette_the_miss_names_no_file() -> None:
    requested = call_to("GET", "/v1/files")
    miss = miss_of(requested, chat_call(), chat_call(seed=1))
    assert str(miss) == (
        "no cassette matches GET /v1/files: ./cassettes contains 2 cassettes, but no similar "
        "request; record the request with llm-proxy record"
    )
    assert "./cassettes contains 2 cassettes, but no similar request" in miss.detail
    assert f"key {requested.key[:16]}, session default" in miss.detail
    assert "c0.jsonl" not in str(miss) + miss.detail


def test_a_request_of_the_same_kind_is_nearer_than_one_that_shares_more() -> None:
    requested = call_with_body(orjson.dumps({"model": "m", "x": [1, 2, 3]}), "/v1/a")
    other = call_with_body(orjson.dumps({"model": "m", "x": [1, 2, 4]}), "/v1/b")
    same_kind = call_with_body(orjson.dumps({"model": "n"}), "/v1/a")
    assert nearest_match(requested, other, same_kind).cassette.file == "cassettes/c1.jsonl"


def test_another_path_is_named_where_the_body_is_the_same() -> None:
    text = miss_text(chat_call(), call_with_body(orjson.dumps(PLAIN), "/v2/chat/completions"))
    assert "at path: request has /v1/chat/completions, cassette has /v2/chat/completions" in text


def test_the_number_of_named_differences_is_limited() -> None:
    requested, stored = chat_call(), chat_call(**{f"field{n}": n for n in range(30)})
    text = miss_text(requested, stored)
    assert "$.field2: request has no value, cassette has 2; and at 27 more paths; record" in text
    miss = miss_of(requested, stored)
    assert len(miss.detail.splitlines()) == 24


def test_long_values_are_cut_where_they_differ() -> None:
    before, after = "a" * 5000, "b" * 5000
    text = miss_text(chat_call(system=before + "X" + after), chat_call(system=before + "Y" + after))
    assert f"$.system: request has …{'a' * 20}X{'b' * 38}…, cassette has …{'a' * 20}Y" in text
    assert "[-" not in text
    text = miss_text(chat_call(system=before), chat_call(system=before + "Y" + after))
    assert f"$.system: [-…{'a' * 20}Ybbb" in text
    assert f"bbb…-] {{+…{'a' * 20}+}} ([-cassette-] {{+request+}}); record the request" in text


def test_values_that_fit_are_not_cut() -> None:
    text = miss_text(chat_call(system="a" * 57 + "X"), chat_call(system="a" * 57 + "Y"))
    assert f'"{"a" * 57}X", cassette has "{"a" * 57}Y"' in text


def test_an_equal_cassette_that_cannot_be_used_is_named() -> None:
    requested = chat_call()
    stored = CassetteCandidate(
        "a.jsonl", msgspec.structs.replace(META, session="other"), requested.stored_request
    )
    [found] = misses.rank_candidates(requested, [stored])
    assert (found.similarity, found.differences.differences) == (1.0, ())
    miss = misses.no_cassette_miss(requested, found, 1, LIBRARY)
    assert "a.jsonl matches, but belongs to session other, not to session default" in str(miss)
    [same_session] = misses.rank_candidates(
        requested, [CassetteCandidate("a.jsonl", META, requested.stored_request)]
    )
    miss = misses.no_cassette_miss(requested, same_session, 1, LIBRARY, "is not complete")
    assert "a.jsonl matches, but is not complete" in str(miss)
    assert "a.jsonl matches, but is not complete" in miss.detail


def test_a_request_that_was_recorded_less_often_says_so() -> None:
    miss = misses.no_takes_left_miss(chat_call(), 2, 3)
    assert str(miss) == (
        "no take is left for POST /v1/chat/completions (gpt-5): this is request 3 with the "
        "same key, but only 2 takes are recorded; record the request again, or use "
        "--after-last repeat"
    )
    assert "request 3" in miss.detail


def test_a_request_without_a_model_is_named_by_its_path() -> None:
    requested = call_with_body(b"x", "/v1/other")
    assert str(miss_of(requested)).startswith("no cassette matches POST /v1/other:")


LONG = "x" * 3000


@each_row(
    ("requested", "stored"),
    [
        (chat_call(model=LONG), chat_call(model=LONG + "y")),
        (chat_call(**{LONG: {LONG + "a": LONG}}), chat_call(**{LONG: {LONG + "b": LONG}})),
        (call_with_body(LONG.encode()), call_with_body(b"y" + LONG.encode())),
        (call_with_body(b"{}", "/" + LONG), call_with_body(b"{}", "/" + LONG + "y")),
        (chat_call(**{f"{LONG}{n}": LONG for n in range(9)}), chat_call()),
        (call_with_body(b"\x1b[2J\r\n" * 90), call_with_body(b"\x9b\x00\r\n" * 90)),
        (chat_call(model="a\x1b[2J\n"), chat_call()),
        (call_with_body('{"\u202e":1,"\\n":2}'.encode()), call_with_body(b'{"\\u001b":1}')),
    ],
    ids=["model", "field", "body", "path", "many", "controls", "model with controls", "names"],
)
def test_a_miss_fits_an_exception_and_a_terminal(
    requested: RoutedRequest, stored: RoutedRequest
) -> None:
    miss = miss_of(requested, stored)
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
    requested, stored = chat_call(x=one), chat_call(x=other)
    miss = miss_of(requested, stored)
    assert len(str(miss)) <= 600
    assert str(miss).isprintable()


def test_requests_that_differ_only_in_the_provider_are_distinguished() -> None:
    requested = call_with_body(orjson.dumps(PLAIN), "/~groq/v1/chat/completions")
    assert "at provider: request has groq, cassette has openai" in miss_text(requested, chat_call())


def test_a_stored_request_of_any_kind_can_be_nearest() -> None:
    stored = StoredRequest("POST", "/v1/chat/completions", "", (), b"\xff")
    [found] = misses.rank_candidates(chat_call(), [CassetteCandidate("a", META, stored)])
    assert {list_difference.path for list_difference in found.differences.differences} >= {
        "body",
        "$.model",
    }
