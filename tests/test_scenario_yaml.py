"""YAML 1.2 is read with the core schema, and every value has its position."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.scenario.documents.parsing import (
    Node,
    NodeComposer,
    json_events,
    plain_value,
    yaml_events,
)
from llm_proxy.turns import Json
from llm_proxy.yaml_composer import MAX_DEPTH, Loader, SourceMark, UnreadableDocument

PARSERS: tuple[Loader, ...] = (yaml.CBaseLoader, yaml.BaseLoader)


def read(text: str, parser: Loader = yaml.CBaseLoader) -> list[Node]:
    """Return the documents of a text that has no mistakes."""
    composer = NodeComposer("s.yaml")
    composer.compose_all(yaml_events(text, parser))
    assert composer.mistakes == []
    return composer.documents


def values(text: str, parser: Loader = yaml.CBaseLoader) -> list[Json]:
    return [plain_value(item) for item in read(text, parser)]


def json_value(text: str) -> Json:
    composer = NodeComposer("s.json")
    composer.compose_all(json_events(text))
    assert composer.mistakes == []
    [document] = composer.documents
    value: Json = plain_value(document)
    return value


@each_row("parser", PARSERS)
@each_row(
    ("written", "value"),
    [
        ("no", "no"), ("Yes", "Yes"), ("on", "on"), ("off", "off"), ("y", "y"),
        ("true", True), ("False", False), ("TRUE", True), ("tRUE", "tRUE"),
        ("", None), ("~", None), ("null", None), ("NULL", None), ("nUll", "nUll"),
        ("12", 12), ("-3", -3), ("+4", 4), ("007", 7), ("0o17", 15), ("0x1F", 31),
        ("0b11", "0b11"), ("1_000", "1_000"), ("12:30", "12:30"), ("-0x1F", "-0x1F"),
        ("1.5", 1.5), ("1.", 1.0), (".5", 0.5), ("1e3", 1000.0), ("-1.5E-2", -0.015),
        (".inf", math.inf), ("-.Inf", -math.inf), ("+.INF", math.inf), ("1.2.3", "1.2.3"),
        ("2024-01-01", "2024-01-01"), ("!!str 5", "5"), ("!!int '5'", 5), ("!!float 5", 5.0),
        ("!!bool 'true'", True), ("!!null ''", None), ("! 12", "12"), ("=", "="),
        ("'12'", "12"), ('"no"', "no"), ("''", ""), ('"\\u00e9\\x41\\/"', "éA/"),
    ],
)  # fmt: skip
def test_a_scalar_has_its_core_schema_value(written: str, value: Json, parser: Loader) -> None:
    [parsed] = values(f"a: {written}\n", parser)

    assert parsed == {"a": value}
    assert isinstance(parsed, dict)
    assert type(parsed["a"]) is type(value)


def test_nan_is_read_as_a_float() -> None:
    [document] = values("[.nan, .NaN, .NAN, .nAn]")

    assert isinstance(document, list)
    assert [isinstance(item, float) and math.isnan(item) for item in document] == [True] * 3 + [
        False
    ]


@each_row("parser", PARSERS)
def test_every_name_and_value_has_its_position(parser: Loader) -> None:
    text = '# first\nid: a\nturns:\n  - turn: 1\n    ünï: "b"\n  - [x, {y: z}]\n'
    [document] = read(text, parser)
    name, turns = document.value.values()
    first, second = turns.value
    _, text_node = first.value.values()
    letter, inner = second.value

    assert (name.name_mark, name.mark) == (SourceMark(2, 1), SourceMark(2, 5))
    assert (turns.name_mark, turns.mark) == (SourceMark(3, 1), SourceMark(4, 3))
    assert (text_node.name_mark, text_node.mark) == (SourceMark(5, 5), SourceMark(5, 10))
    assert (first.mark, second.mark) == (SourceMark(4, 5), SourceMark(6, 5))
    assert (letter.mark, inner.mark) == (SourceMark(6, 6), SourceMark(6, 9))
    assert inner.value["y"].mark == SourceMark(6, 13)


def test_texts_of_several_lines_keep_them() -> None:
    assert values("a: |\n  x\n   y\n\nb: >-\n  x\n  y\nc: |+\n  z\n\n") == [
        {"a": "x\n y\n", "b": "x y", "c": "z\n\n"}
    ]


def test_a_file_may_hold_several_documents() -> None:
    assert values("a: 1\n---\n- b\n...\n---\nc\n") == [{"a": 1}, ["b"], "c"]


def test_anchors_may_be_repeated() -> None:
    assert values("a: &x {b: [1]}\nc: *x\nd: [*x, *x]\n") == [
        {"a": {"b": [1]}, "c": {"b": [1]}, "d": [{"b": [1]}, {"b": [1]}]}
    ]


def test_an_alias_may_be_a_name_where_it_is_text() -> None:
    assert values("a: &x b\n*x : c\n") == [{"a": "b", "b": "c"}]


def test_anchors_do_not_cross_documents() -> None:
    with pytest.raises(UnreadableDocument, match="unknown alias"):
        read("a: &x 1\n---\nb: *x\n")


def test_repetitions_of_repetitions_are_limited() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)]

    with pytest.raises(UnreadableDocument, match="the file contains more than 1,000,000 values"):
        read("\n".join(lines))


def test_repetitions_do_not_dig_deeper_than_is_allowed() -> None:
    lines = ["a0: &a0 []"]
    lines += [f"a{n}: &a{n} [[[[[[[[[[*a{n - 1}]]]]]]]]]]" for n in range(1, 20)]

    with pytest.raises(UnreadableDocument, match=f"more than {MAX_DEPTH} levels deep"):
        read("\n".join(lines))


@each_row("depth", [10_000, 1_000_000])
def test_a_deep_file_is_refused_and_harms_nobody(depth: int) -> None:
    with pytest.raises(UnreadableDocument, match="deep"):
        read("[" * depth)


def test_a_directive_without_a_document_is_refused() -> None:
    with pytest.raises(UnreadableDocument):
        read("%YAML 1.2\na: 1\n")


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=8)
)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc: -#\"'é€😀", max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON)
def test_json_is_read_alike_as_json_and_as_yaml(value: Any) -> None:
    text = orjson.dumps(value).decode()

    assert json_value(text) == value
    if "\ufeff" not in text:
        assert values(text) == [value]
        assert values(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()) == [value]


@given(JSON)
def test_what_a_yaml_writer_writes_is_read_as_it_was(value: Any) -> None:
    text = yaml.safe_dump(value, default_style='"')

    assert values(text) == [value]


@given(st.text("ab:-[]{}&*!|>'\"%@#, \n\t1.e", max_size=40))
def test_no_text_brings_a_reader_down(text: str) -> None:
    for parser in PARSERS:
        composer = NodeComposer("s.yaml")
        try:
            composer.compose_all(yaml_events(text, parser))
        except UnreadableDocument as error:
            assert error.message  # noqa: PT017 # that it is raised is not what is tested


def test_a_scalar_remembers_how_it_was_written() -> None:
    assert read("1e3\n") == [Node(1000.0, SourceMark(1, 1), "1e3")]


def test_a_name_in_quotes_is_a_name_whatever_it_is() -> None:
    assert values(r'{"<<": 1, "\0": 2}') == [{"<<": 1, "\0": 2}]
