from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.dialects import lenient_json

if TYPE_CHECKING:
    from llm_proxy.turns import Json


@each_row(
    ("data", "value"),
    [
        pytest.param(b'{"a":[1,2.5,null,true,"x"]}', {"a": [1, 2.5, None, True, "x"]}, id="plain"),
        pytest.param(b'\n\n {"a":1}\n', {"a": 1}, id="keep-alive lines before it"),
        pytest.param(b'\xef\xbb\xbf{"a":1}', {"a": 1}, id="byte order mark"),
        pytest.param(b'{"a":-Infinity}', {"a": -math.inf}, id="infinity"),
        pytest.param(b'["\\ud83d"]', ["\ud83d"], id="half a surrogate pair"),
    ],
)
def test_json_is_parsed_as_clients_parse_it(data: bytes, value: Json) -> None:
    assert lenient_json.parse_json(data) == value


@each_row(
    "data",
    [b"", b"{", b"<html>", b'"\xff"', b'{"a":1}{"b":2}', b"\xff\xfe{\x00}\x00", b"[" * 100_000],
    ids=["empty", "cut", "HTML", "not UTF-8", "two documents", "UTF-16", "too deep"],
)
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        lenient_json.parse_json(data)
    assert lenient_json.parse_object(data) == {}


@given(st.binary())
def test_any_bytes_are_a_document_or_an_empty_one(data: bytes) -> None:
    assert isinstance(lenient_json.parse_object(data), dict)


@each_row("data", [b"null", b"[]", b"1", b'"a"'])
def test_a_value_that_is_no_object_has_no_fields(data: bytes) -> None:
    assert lenient_json.parse_object(data) == {}


def test_values_of_another_kind_count_as_absent() -> None:
    assert lenient_json.object_fields([1]) == {}
    assert lenient_json.array_objects({"a": 1}) == []
    assert lenient_json.array_objects([{"a": 1}, 2, None, {"b": 2}]) == [{"a": 1}, {"b": 2}]
    assert lenient_json.array_items("abc") == []
    assert lenient_json.str_or_empty(1) == ""


@each_row(
    ("value", "text"),
    [
        (None, ""),
        ("a b", "a b"),
        ("\ud83d", "\ufffd"),
        (429, "429"),
        (True, "true"),
        ({"a": [1]}, '{"a":[1]}'),
    ],
)
def test_any_value_has_a_printable_text(value: Json, text: str) -> None:
    assert lenient_json.value_as_text(value) == text


@each_row(
    ("values", "count"),
    [
        ([3], 3),
        ([3.0], 3),
        ([0, 3], 0),
        ([None, "4", 2.5, True, 3], 3),
        ([2**53, math.nan, math.inf], None),
        ([], None),
    ],
)
def test_the_first_whole_number_counts(values: list[Json], count: int | None) -> None:
    assert lenient_json.first_integer(*values) == count


def test_values_that_orjson_rejects_are_still_serialised() -> None:
    assert json.loads(lenient_json.compact_json({"a": "\ud83d"})) == {"a": "\ud83d"}
    assert lenient_json.compact_json([2**70, {"a": 1}]) == f'[{2**70},{{"a":1}}]'


def test_too_deeply_nested_values_serialise_to_nothing() -> None:
    value: Json = []
    for _ in range(100_000):
        value = [value]
    assert lenient_json.compact_json(value) == ""


def test_metadata_omits_empty_and_unserialisable_values() -> None:
    source: dict[str, Json] = {
        "a": 0, "b": "", "c": None, "d": [], "e": {}, "f": False, "g": "x", "h": 2**70,
        "i": "\ud83d", "\ud83d": "x", "j": "not asked for",
    }  # fmt: skip
    names = [name for name in source if name != "j"]
    metadata = lenient_json.select_metadata(source, [*names, "missing"])
    assert metadata == (("a", 0), ("f", False), ("g", "x"))
    assert orjson.dumps(metadata)
