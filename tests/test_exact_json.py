"""Which bodies count as JSON, and which are compared byte by byte."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from cassette_builders import META
from llm_proxy.cassette import StoredRequest, parse_cassette_opening
from llm_proxy.cassette.model import encode_line, request_line
from llm_proxy.exact_json import parse_exact
from llm_proxy.matching import request_key


def stored_request(body: bytes) -> StoredRequest:
    return StoredRequest("POST", "/v1/x", "", (("content-type", "application/json"),), body)


@each_row(
    "body",
    [
        b'{"a":1,"a":2}',
        b'{"a" : 1, "a" :2}',
        b'{"a":1,"\\u0061":2}',
        b'[{"b":{"a":1,"a":1}}]',
        b'{"messages":[1],"messages":[2],"x":"\\":\\":"}',
        b'{"a":1,"a":2,"said":"\\u0022:"}',
        b'{"id":18446744073709551616}',
        b'{"id":-9223372036854775809}',
        b"[340282366920938463463374607431768211455]",
        b"{",
        b"NaN",
        b"",
    ],
)
def test_json_that_a_parser_would_change_is_rejected(body: bytes) -> None:
    assert parse_exact(body) is None


@each_row(
    ("body", "value"),
    [
        (b'{"a":{"a":1},"b":[{"a":2}]}', {"a": {"a": 1}, "b": [{"a": 2}]}),
        (b'{"a" :18446744073709551615}', {"a": 2**64 - 1}),
        (b'{"said":"he said \\"a\\": 1"}', {"said": 'he said "a": 1'}),
        (b'{"image":"0000000000000000000000000"}', {"image": "0" * 25}),
        (b"1e300", 1e300),
    ],
)
def test_json_that_a_parser_keeps_is_accepted(body: bytes, value: Any) -> None:
    assert parse_exact(body) == (value,)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=values, ascii_only=st.booleans(), indent=st.sampled_from([None, 0, 2]))
def test_any_document_with_unique_names_is_accepted(
    value: Any, ascii_only: bool, indent: int | None
) -> None:
    assert parse_exact(json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()) == (
        value,
    )


@given(name=st.text(), value=values, other=values)
def test_a_document_with_a_duplicate_name_is_rejected(name: str, value: Any, other: Any) -> None:
    member = json.dumps(name)
    for separator in ("", " "):
        body = f"{{{member}:{json.dumps(value)},{member}{separator}:{json.dumps(other)}}}"
        assert parse_exact(body.encode()) is None


@each_row(
    ("first", "second"),
    [
        (b'{"messages":["a"],"messages":["hi"]}', b'{"messages":["hi"]}'),
        (b'{"messages":["a"],"messages":["hi"]}', b'{"messages":["b"],"messages":["hi"]}'),
        (b'{"id":340282366920938463463374607431768211455}', b'{"id":3.402823669209385e+38}'),
        (b'{"id":100000000000000000001}', b'{"id":1e20}'),
    ],
)  # fmt: skip
def test_requests_that_parsers_would_confuse_have_different_keys(
    first: bytes, second: bytes
) -> None:
    assert request_key("openai", stored_request(first)) != request_key(
        "openai", stored_request(second)
    )


@each_row("body", [b'{"a":1,"a":2}', b'{"id":18446744073709551616}', b'{"a": 1}'])
def test_a_stored_request_keeps_its_key(body: bytes) -> None:
    lines = encode_line(META) + encode_line(request_line(stored_request(body)))
    _, stored = parse_cassette_opening("x.jsonl", lines)
    assert request_key("openai", stored) == request_key("openai", stored_request(body))
