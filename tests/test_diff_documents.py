"""The differences of two requests are reported at the paths that a person would name."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.cassette import StoredRequest
from llm_proxy.diff.documents import find_differences
from llm_proxy.matching import KeyDocument, key_document
from llm_proxy.redaction import PLACEHOLDER


def document(body: Any, path: str = "/v1/chat/completions") -> KeyDocument:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return key_document("openai", StoredRequest("POST", path, "", (), content))


def differences(requested: Any, stored: Any) -> list[tuple[str, str, str]]:
    found = find_differences(document(requested), document(stored)).differences
    return [(item.path, item.requested, item.stored) for item in found]


@each_row(
    ("requested", "stored", "found"),
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
def test_a_difference_stands_where_it_is(requested: Any, stored: Any, found: list[Any]) -> None:
    assert differences(requested, stored) == found


def test_a_message_that_came_in_between_is_one_difference() -> None:
    messages = [{"role": "user", "content": f"turn {n}"} for n in range(6)]
    inserted = {"role": "user", "content": "and this"}
    requested = {"messages": [*messages[:2], inserted, *messages[2:]]}
    assert differences(requested, {"messages": messages}) == [
        ("$.messages[2]", '{"role":"user","content":"and this"}', "")
    ]


def test_an_image_is_shown_by_its_hash() -> None:
    image = "data:image/png;base64," + "aB3" * 400
    [(path, requested, stored)] = differences({"a": {"url": image}}, {})
    assert (path, stored) == ("$.a", "")
    assert requested.startswith('{"url":"base64 of 900 bytes, sha256 ')


def test_a_body_that_is_no_json_is_shown_as_a_whole() -> None:
    assert differences(b"one", b"two") == [("body", "one", "two")]
    assert {path for path, *_ in differences({"a": 1}, b"two")} == {"body", "$.a"}


def test_long_lists_that_have_nothing_in_common_are_not_slow() -> None:
    one, other = ([{"n": n, "of": name} for n in range(3000)] for name in "ab")
    found = differences({"a": one}, {"a": other})
    assert len(found) == 3000
    assert found[0] == ("$.a[0].of", '"a"', '"b"')


def test_many_lists_are_not_slow_and_what_is_left_of_them_is_counted() -> None:
    one, other = ([[n % 2 or n * by for n in range(450)] for _ in range(50)] for by in (1, 7))
    result = find_differences(document({"a": one}), document({"a": other}))
    assert (len(result.differences), result.further_count) == (10_000, 50 * 224 - 10_000)
    assert (
        result.differences[0].path,
        result.differences[0].requested,
        result.differences[0].stored,
    ) == (
        "$.a[0][2]",
        "2",
        "14",
    )


def test_lists_of_repeats_are_not_slow() -> None:
    one, other = ([(n // by) % 2 for n in range(450)] for by in (1, 2))
    assert len(differences({"a": one}, {"a": other})) == 225


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(values, values)
def test_nothing_differs_exactly_where_the_keys_are_the_same(one: Any, other: Any) -> None:
    requested, stored = document({"x": one}), document({"x": other})
    assert (find_differences(requested, stored).differences == ()) == (
        requested.compute_key() == stored.compute_key()
    )


SECRET_FIELDS = [
    *("api_key", "apiKey", "OPENAI_APIKEY", "x-api-key", "authorization_token", "accessToken"),
    *("authorization", "password", "dbPassword", "client_secret", "bearer", "credentials"),
    *("private_key", "passphrase"),
]
"""Names of fields whose values are not shown."""


@each_row("name", SECRET_FIELDS)
def test_of_a_field_named_like_a_secret_only_the_path_is_shown(name: str) -> None:
    """As a member, below one, in an added or missing member, and within a JSON text."""
    for requested, stored in (
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
        for pair in ((requested, stored), (stored, requested)):
            [difference] = find_differences(*map(document, pair)).differences[-1:]
            shown = difference.requested + difference.stored
            assert "canary" not in shown
            assert PLACEHOLDER in shown
            assert difference.path


@each_row("name", SECRET_FIELDS)
def test_a_form_field_named_like_a_secret_is_shown_without_its_value(
    name: str,
) -> None:
    form = (("content-type", "application/x-www-form-urlencoded"),)
    requested, stored = (
        key_document("x", StoredRequest("POST", "/x", "", form, urlencode({name: item}).encode()))
        for item in ("canary-1", "canary-2")
    )
    [difference] = find_differences(requested, stored).differences
    assert difference.path == "$[0].value"
    assert difference.requested == difference.stored == f'"{PLACEHOLDER}"'


@each_row(
    "name",
    ["max_tokens", "prompt_cache_key", "page_token", "code", "keywords", "author", "tokenizer"],
)
def test_the_value_of_any_other_field_is_shown(name: str) -> None:
    assert differences({name: "one"}, {name: "other"}) == [(f"$.{name}", '"one"', '"other"')]


def test_the_contents_of_a_deeply_nested_json_text_are_not_shown() -> None:
    [(path, shown, _)] = differences({"a": "[" * 900 + "]" * 900}, {})
    assert path == "$.a"
    assert PLACEHOLDER in shown
