"""Where two requests differ is told by the place that a person would point at."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_proxy.cassette import StoredRequest
from llm_proxy.matching import KeyDocument, document_key, key_document
from llm_proxy.misses.document_diff import find_differences, list_differences
from llm_proxy.redaction import PLACEHOLDER


def document(body: Any, path: str = "/v1/chat/completions") -> KeyDocument:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return key_document("openai", StoredRequest("POST", path, "", (), content))


def told(asked: Any, stored: Any) -> list[tuple[str, str, str]]:
    found = list_differences(document(asked), document(stored))
    return [(item.path, item.requested, item.stored) for item in found]


@pytest.mark.parametrize(
    ("asked", "stored", "found"),
    [
        ({"a": 1}, {"a": 2}, [("$.a", "1", "2")]),
        ({"a": 1}, {"a": True}, [("$.a", "1", "true")]),
        ({"a": {"b": 1, "c": [2]}}, {}, [("$.a", '{"b":1,"c":[2]}', "")]),
        ({}, {"a": {}}, [("$.a", "", "{}")]),
        ({"a": [1, 2, 3]}, {"a": [1, 3]}, [("$.a[1]", "2", "")]),
        ({"a": [1, 3]}, {"a": [1, 2, 3]}, [("$.a[1]", "", "2")]),
        ({"a": [{"b": 1}, 7]}, {"a": [{"b": 2}, 7]}, [("$.a[0].b", "1", "2")]),
        ({"a": [0, {"b": 1}]}, {"a": [{"b": 1}]}, [("$.a[0]", "0", "")]),
        ({"a": []}, {"a": {}}, [("$.a", "[]", "{}")]),
        ({"a b": 1}, {"a b": 2}, [("$['a b']", "1", "2")]),
        ({"a": 1.0}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
    ],
    ids=[
        *("a value", "its type", "a member", "a member of the cassette", "an item", "one less"),
        *("within an item", "an item in front", "its kind", "a name", "a spelling", "the order"),
    ],
)
def test_a_difference_stands_where_it_is(asked: Any, stored: Any, found: list[Any]) -> None:
    assert told(asked, stored) == found


def test_a_message_that_came_in_between_is_one_difference() -> None:
    said = [{"role": "user", "content": f"turn {n}"} for n in range(6)]
    more = {"role": "user", "content": "and this"}
    asked = {"messages": [*said[:2], more, *said[2:]]}
    assert told(asked, {"messages": said}) == [
        ("$.messages[2]", '{"role":"user","content":"and this"}', "")
    ]


def test_an_image_is_told_by_its_hash() -> None:
    image = "data:image/png;base64," + "aB3" * 400
    [(path, asked, stored)] = told({"a": {"url": image}}, {})
    assert (path, stored) == ("$.a", "")
    assert asked.startswith('{"url":"base64 of 900 bytes, sha256 ')


def test_a_body_that_is_no_json_is_told_whole() -> None:
    assert told(b"one", b"two") == [("body", "one", "two")]
    assert {path for path, *_ in told({"a": 1}, b"two")} == {"body", "$.a"}


def test_long_lists_that_have_nothing_in_common_are_not_slow() -> None:
    one, other = ([{"n": n, "of": name} for n in range(3000)] for name in "ab")
    found = told({"a": one}, {"a": other})
    assert len(found) == 3000
    assert found[0] == ("$.a[0].of", '"a"', '"b"')


def test_many_lists_are_not_slow_and_what_is_left_of_them_is_counted() -> None:
    one, other = ([[n % 2 or n * by for n in range(450)] for _ in range(400)] for by in (1, 7))
    it = find_differences(document({"a": one}), document({"a": other}))
    assert (len(it.differences), it.further_count) == (10_000, 400 * 224 - 10_000)
    assert (it.differences[0].path, it.differences[0].requested, it.differences[0].stored) == (
        "$.a[0][2]",
        "2",
        "14",
    )


def test_lists_of_repeats_are_not_slow() -> None:
    one, other = ([(n // by) % 2 for n in range(450)] for by in (1, 2))
    assert len(told({"a": one}, {"a": other})) == 225


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=60)
@given(values, values)
def test_nothing_differs_exactly_where_the_keys_are_the_same(one: Any, other: Any) -> None:
    asked, stored = document({"x": one}), document({"x": other})
    assert (list_differences(asked, stored) == ()) == (document_key(asked) == document_key(stored))


SECRETS = [
    *("api_key", "apiKey", "OPENAI_APIKEY", "x-api-key", "authorization_token", "accessToken"),
    *("authorization", "password", "dbPassword", "client_secret", "bearer", "credentials"),
    *("private_key", "passphrase"),
]
"""What a field is called whose values are not shown."""


@pytest.mark.parametrize("name", SECRETS)
def test_of_a_field_that_is_called_like_a_secret_the_path_is_told_and_no_value(name: str) -> None:
    """Wherever it stands: as a member, below one, in what one has alone, and in a text of JSON."""
    for asked, stored in (
        ({name: "canary-1"}, {name: "canary-2"}),
        ({"a": {name: {"b": ["canary-1"]}}}, {"a": {name: {"b": ["canary-2"]}}}),
        ({"a": {"b": 1, name: "canary-1"}}, {}),
        ([{"c": {name: "canary-1"}}], []),
        ({"arguments": json.dumps({name: "canary-1"})}, {"arguments": "{}"}),
        ({"arguments": json.dumps([json.dumps({name: "canary-1"})])}, {"arguments": "[1]"}),
        ([{"name": name, "value": "canary-1"}], [{"name": name, "value": "canary-2"}]),
        ([{"key": name, "value": "canary-1"}], [{"key": name, "value": "canary-2"}]),
        (b'{"%b": 1, "%b": "canary-1"}' % (name.encode(), name.encode()), b'{"a": 1, "a": 2}'),
        ({name: "canary-1"}, "a text"),
    ):
        for pair in ((asked, stored), (stored, asked)):
            [difference] = list_differences(*map(document, pair))[-1:]
            shown = difference.requested + difference.stored
            assert "canary" not in shown
            assert PLACEHOLDER in shown
            assert difference.path


@pytest.mark.parametrize("name", SECRETS)
def test_a_field_of_a_form_that_is_called_like_a_secret_is_told_without_its_value(
    name: str,
) -> None:
    form = (("content-type", "application/x-www-form-urlencoded"),)
    asked, stored = (
        key_document("x", StoredRequest("POST", "/x", "", form, urlencode({name: item}).encode()))
        for item in ("canary-1", "canary-2")
    )
    [difference] = list_differences(asked, stored)
    assert difference.path == "$[0].value"
    assert difference.requested == difference.stored == f'"{PLACEHOLDER}"'


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "prompt_cache_key", "page_token", "code", "keywords", "author", "tokenizer"],
)
def test_the_value_of_any_other_field_is_told(name: str) -> None:
    assert told({name: "one"}, {name: "other"}) == [(f"$.{name}", '"one"', '"other"')]


def test_of_a_text_of_json_that_is_nested_very_deep_the_inside_is_not_told() -> None:
    [(path, shown, _)] = told({"a": "[" * 900 + "]" * 900}, {})
    assert path == "$.a"
    assert PLACEHOLDER in shown
