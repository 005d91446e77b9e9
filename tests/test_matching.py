from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy import dialects
from llm_proxy.cassette import StoredRequest
from llm_proxy.diff.documents import differing_values, json_leaves
from llm_proxy.matching import KEY_RULES_VERSION, key_document, keys, request_key

ROOT = Path(__file__).parents[1]
CHAT: dict[str, Any] = {
    "model": "gpt-5",
    "stream": True,
    "temperature": 1,
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ],
}


def post_request(body: bytes, content_type: str = "application/json") -> StoredRequest:
    return StoredRequest("POST", "/v1/x", "", (("content-type", content_type),), body)


def chat(**changes: Any) -> StoredRequest:
    return post_request(json.dumps(CHAT | changes).encode())


def leaves_of(provider: str, request: StoredRequest) -> dict[str, str]:
    return json_leaves(key_document(provider, request))


def key_of(request: StoredRequest) -> str:
    return request_key("openai", request)


def test_a_key_is_stable() -> None:
    assert key_of(post_request(b'{"b":[1.0],"a":"\xc3\xa4"}')) == (
        "3896e43c4e9cce6f26064035f73e6766df2d3252ae317717e5bb453135831eac"
    )


@each_row(
    ("one", "other"),
    [
        (b'{"a":1,"b":2}', b'{"b":2,"a":1}'),
        (b'{"a":{"c":1,"b":2}}', b'{"a":{"b":2,"c":1}}'),
        (b'{"a":1}', b' {\n  "a" : 1\n}\n'),
        (b'{"a":1}', b'{"a":1.0}'),
        (b'{"a":100}', b'{"a":1e2}'),
        (b'{"a":0}', b'{"a":-0.0}'),
        (b'{"a":0.5}', b'{"a":5E-1}'),
        (b'{"a":0.1}', b'{"a":0.1000000000000000055}'),
        (b'{"a":"\\u00e4\\/"}', '{"a":"ä/"}'.encode()),
        (b'{"a":"\\ud83d\\ude00"}', '{"a":"😀"}'.encode()),
    ],
    ids=[
        "order of fields", "order further in", "spaces", "1.0", "1e2", "minus zero", "5E-1",
        "digits beyond a double", "escapes", "surrogate pair",
    ],
)  # fmt: skip
def test_bodies_that_mean_the_same_have_one_key(one: bytes, other: bytes) -> None:
    assert key_of(post_request(one)) == key_of(post_request(other))


def spell_json(value: Any, *, backwards: bool, floats: bool, indent: int | None) -> Any:
    """Serialize a JSON value in one of the ways of different clients."""

    def respell(node: Any) -> Any:
        match node:
            case dict():
                pairs = [(name, respell(item)) for name, item in node.items()]
                return dict(reversed(pairs) if backwards else pairs)
            case list():
                return [respell(item) for item in node]
            case int() if floats and not isinstance(node, bool) and abs(node) < 2**53:
                return float(node)
            case _:
                return node

    return json.dumps(respell(value), ensure_ascii=backwards, indent=indent).encode()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(
    value=json_values,
    backwards=st.booleans(),
    floats=st.booleans(),
    indent=st.sampled_from([None, 0, 3]),
)
def test_no_spelling_of_a_document_changes_its_key(
    value: Any, backwards: bool, floats: bool, indent: int | None
) -> None:
    plain = spell_json(value, backwards=False, floats=False, indent=None)
    other = spell_json(value, backwards=backwards, floats=floats, indent=indent)
    assert key_of(post_request(plain)) == key_of(post_request(other))
    assert leaves_of("openai", post_request(plain)) == leaves_of("openai", post_request(other))


@given(json_values, json_values)
def test_bodies_have_one_key_exactly_when_no_leaf_differs(one: Any, other: Any) -> None:
    requested, stored = (post_request(json.dumps(item).encode()) for item in (one, other))
    differences = differing_values(leaves_of("openai", requested), leaves_of("openai", stored))
    assert (key_of(requested) == key_of(stored)) == (list(differences) == [])


@each_row(
    ("one", "other"),
    [
        ("/v1/models/a%3Ab", "/v1/models/a:b"),
        ("/v1/models/%61", "/v1/models/a"),
        ("/v1/%c3%a4", "/v1/%C3%A4"),
        ("/v1/a%20b", "/v1/a%20b"),
        ("/v1/%ff", "/v1/%FF"),
    ],
)
def test_paths_that_are_encoded_differently_have_one_key(one: str, other: str) -> None:
    assert key_of(replace(chat(), path=one)) == key_of(replace(chat(), path=other))


@each_row(
    ("one", "other"),
    [("a=1&b=2", "b=2&a=1"), ("a=%31", "a=1"), ("a=b%20c", "a=b+c"), ("a", "a="), ("&a=1&", "a=1")],
)
def test_queries_of_the_same_parameters_have_one_key(one: str, other: str) -> None:
    assert key_of(replace(chat(), query=one)) == key_of(replace(chat(), query=other))


def test_headers_are_no_part_of_the_key() -> None:
    assert key_of(chat()) == key_of(replace(chat(), headers=(("anthropic-beta", "x"),)))
    assert key_of(chat()) == key_of(replace(chat(), redacted_count=3))


FORM = b'--%b\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper\r\n--%b--\r\n'


@each_row(
    "content_type",
    ["multipart/form-data; boundary=%s", 'multipart/form-data; Boundary="%s"; charset=utf-8'],
)
def test_the_random_boundary_of_a_form_is_no_part_of_the_key(content_type: str) -> None:
    one, other = (
        post_request(FORM % (item, item), content_type % item.decode())
        for item in (b"X-0123", b"----4567")
    )
    assert key_of(one) == key_of(other)
    changed = replace(one, body=one.body.replace(b"whisper", b"shout"))
    assert key_of(changed) != key_of(one)


@each_row(
    "other",
    [
        pytest.param(chat(messages=CHAT["messages"][::-1]), id="order of messages"),
        pytest.param(chat(messages=CHAT["messages"][1:]), id="a message less"),
        pytest.param(chat(stream=False), id="stream false"),
        pytest.param(chat(stream=None), id="stream null"),
        pytest.param(post_request(json.dumps({**CHAT, "stream": 1}).encode()), id="stream 1"),
        pytest.param(
            post_request(json.dumps({k: v for k, v in CHAT.items() if k != "stream"}).encode()),
            id="no stream",
        ),
        pytest.param(chat(tools=[]), id="no tools"),
        pytest.param(chat(tools=CHAT["tools"] * 2), id="a tool twice"),
        pytest.param(chat(model="gpt-5.1"), id="model"),
        pytest.param(chat(model="GPT-5"), id="case of the model"),
        pytest.param(chat(temperature=1.1), id="temperature"),
        pytest.param(chat(temperature="1"), id="temperature in quotes"),
        pytest.param(chat(seed=2**53), id="a field more"),
        pytest.param(replace(chat(), path="/v1/x/"), id="slash at the end"),
        pytest.param(replace(chat(), path="/v1/X"), id="case of the path"),
        pytest.param(replace(chat(), path="/v1/x%3F"), id="question mark in the path"),
        pytest.param(replace(chat(), query="api-version=1"), id="query"),
        pytest.param(replace(chat(), method="PUT"), id="method"),
        pytest.param(post_request(b""), id="no body"),
        pytest.param(post_request(b"null"), id="null"),
        pytest.param(post_request(json.dumps(CHAT).encode() + b"x"), id="no JSON"),
    ],
)
def test_a_request_with_another_meaning_has_another_key(other: StoredRequest) -> None:
    assert key_of(other) != key_of(chat())
    assert [*differing_values(leaves_of("openai", chat()), leaves_of("openai", other))]


@each_row(
    ("one", "other"),
    [
        ("a=1", "a=2"), ("a=1", "b=1"), ("a=1", "a=1&a=1"), ("a=1%262", "a=1&2"), ("a=+", "a=%2B"),
        ("a=%ff", "a=%fe"), ("a=%ff", "a=%EF%BF%BD"), ("a=1", ""),
        ("page_token=a", "page_token=b"), ("sort_key=a", "sort_key=b"), ("code=[redacted]", ""),
    ],
)  # fmt: skip
def test_queries_that_differ_have_different_keys(one: str, other: str) -> None:
    assert key_of(replace(chat(), query=one)) != key_of(replace(chat(), query=other))


@each_row(
    ("one", "other"),
    [(b"1", b"1.5"), (b"9007199254740993", b"9007199254740992"), (b"1e300", b"1e301"),
     (b"[1,2]", b"[2,1]"), (b'"a"', b'"A"'), (b"{}", b"[]"), (b"0", b"false"), (b"a", b"b")],
)  # fmt: skip
def test_values_that_differ_have_different_keys(one: bytes, other: bytes) -> None:
    assert key_of(post_request(one)) != key_of(post_request(other))


def test_another_provider_is_another_key() -> None:
    assert request_key("openai", chat()) != request_key("groq", chat())
    assert key_of(replace(chat(), method="post")) == key_of(chat())


@each_row("depth", [99, 100, 101, 300, 2000, 100_000])
def test_a_document_of_any_depth_has_a_key(depth: int) -> None:
    body = b'{"a":' * depth + b"1" + b"}" * depth
    other = body.replace(b"1", b"2")
    assert re.fullmatch(r"[0-9a-f]{64}", key_of(post_request(body)))
    assert key_of(post_request(body)) != key_of(post_request(other))
    [(_, requested, stored)] = differing_values(
        leaves_of("openai", post_request(body)), leaves_of("openai", post_request(other))
    )
    assert requested != stored


@given(st.binary(), st.text(st.characters(max_codepoint=255)))
def test_any_body_has_a_key(body: bytes, content_type: str) -> None:
    assert len(key_of(post_request(body, content_type))) == 64
    assert leaves_of("openai", post_request(body, content_type))


def test_every_value_of_a_request_is_a_leaf() -> None:
    body = b'{"a":{"b c":[1.0,{"d":null}],"e":[],"f":{}},"g":"x","it\'s":true}'
    request = StoredRequest("post", "/v1/%61", "b=1&a=2", (), body)
    assert leaves_of("openai", request) == {
        "method": "POST",
        "provider": "openai",
        "path": "/v1/a",
        "query": "a=2&b=1",
        "$.a['b c'][0]": "1",
        "$.a['b c'][1].d": "null",
        "$.a.e": "[]",
        "$.a.f": "{}",
        "$.g": '"x"',
        '$["it\'s"]': "true",
    }
    assert leaves_of("x", post_request(b"a=\xff"))["body"] == "a=\ufffd"


def test_differences_stand_in_the_order_of_the_request() -> None:
    requested = {"b": "1", "a": "2", "c": "3", "e": ""}
    stored = {"d": "4", "c": "5", "b": "1", "e": ""}
    assert list(differing_values(requested, stored)) == [
        ("a", "2", ""),
        ("c", "3", "5"),
        ("d", "", "4"),
    ]


def test_the_version_of_the_rules_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of(chat())
    monkeypatch.setattr(keys, "KEY_RULES_VERSION", KEY_RULES_VERSION + 1)
    assert key_of(chat()) != before


class TestVolatileFields:
    """Fields that clients change in each run do not count; fields that resemble them do."""

    @staticmethod
    def stored_request(path: str, **body: Any) -> StoredRequest:
        return StoredRequest("POST", path, "", (), json.dumps(body).encode())

    @each_row(
        ("path", "one", "other"),
        [
            ("/v1/messages", {"metadata": {"user_id": "a"}}, {"metadata": {"user_id": "b"}}),
            ("/v1/responses", {"client_metadata": {"a": "b"}}, {}),
            ("/v1/responses", {"prompt_cache_key": "a"}, {"prompt_cache_key": "b"}),
            (
                "/v1/responses",
                {"input": [{"type": "message", "id": "a", "content": "hi"}, "text"]},
                {"input": [{"type": "message", "id": "b", "content": "hi"}, "text"]},
            ),
        ],
        ids=["user id", "client metadata", "cache key", "ids of items"],
    )
    def test_a_volatile_field_does_not_count(
        self, path: str, one: dict[str, Any], other: dict[str, Any]
    ) -> None:
        first, second = (
            self.stored_request(path, model="m", **one),
            self.stored_request(path, model="m", **other),
        )

        assert key_of(first) == key_of(second)
        assert leaves_of("openai", first) == leaves_of("openai", second)

    @each_row(
        ("path", "one", "other"),
        [
            ("/v1/messages", {"metadata": {"team": "a"}}, {"metadata": {"team": "b"}}),
            ("/v1/messages", {"user_id": "a"}, {"user_id": "b"}),
            ("/v1/messages", {"prompt_cache_key": "a"}, {"prompt_cache_key": "b"}),
            ("/api/chat", {"metadata": {"user_id": "a"}}, {"metadata": {"user_id": "b"}}),
            (
                "/v1/responses",
                {"input": [{"type": "item_reference", "id": "a"}]},
                {"input": [{"type": "item_reference", "id": "b"}]},
            ),
            ("/v1/responses", {"input": [{"id": "a"}]}, {"input": [{"id": "b"}]}),
            ("/v1/responses", {"input": "a"}, {"input": "b"}),
            ("/v1/responses", {"input": [["a"]]}, {"input": [["b"]]}),
        ],
        ids=[
            "other metadata", "elsewhere", "another dialect's", "a dialect without any",
            "a reference", "a bare reference", "no list", "no objects",
        ],
    )  # fmt: skip
    def test_any_other_field_counts(
        self, path: str, one: dict[str, Any], other: dict[str, Any]
    ) -> None:
        first, second = (
            self.stored_request(path, model="m", **one),
            self.stored_request(path, model="m", **other),
        )

        assert key_of(first) != key_of(second)

    @each_row(
        ("name", "field"),
        [
            (dialect.name, field)
            for dialect in dialects.DIALECTS
            for field in dialect.volatile_json_paths
        ],
    )
    def test_every_volatile_field_is_documented(self, name: str, field: str) -> None:
        documented = (ROOT / "docs/reference/cassette-format.md").read_text().split("## The key")[1]

        assert f"| `{name}` | `{field}` |" in documented
