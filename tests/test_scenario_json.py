"""JSON documents: values have positions, and errors have plain messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.scenario.documents.loading import parse_scenario_file
from llm_proxy.scenario.documents.parsing import (
    Node,
    NodeComposer,
    json_events,
    plain_value,
)
from llm_proxy.yaml_composer import SourceMark, UnreadableDocument


def read(text: str) -> NodeComposer:
    composer = NodeComposer("s.json")
    composer.compose_all(json_events(text))
    return composer


def read_error(text: str) -> str:
    with pytest.raises(UnreadableDocument) as caught:
        read(text)
    mark = caught.value.mark
    return f"{mark.line}:{mark.column}: {caught.value.message}"


@each_row(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, -3, 1e3, true, false, null, "x"]}',
         {"a": [1, 2.5, -3, 1000.0, True, False, None, "x"]}),
        ('\t{\r\n"a\\n\\u00e9" : "\\ud83d\\ude00\\/\\\\"\r\n}\n', {"a\né": "😀/\\"}),
        ("[]", []), ("{}", {}), ('"no"', "no"), ("18446744073709551615", 2**64 - 1),
        ('{"<": "\x7f\u2028"}', {"<": "\x7f\u2028"}),
    ],
)  # fmt: skip
def test_a_json_text_has_its_value(text: str, value: Any) -> None:
    composer = read(text)

    assert [plain_value(document) for document in composer.documents] == [value]
    assert composer.mistakes == []


def test_every_name_and_value_has_its_position() -> None:
    assert read('{\n  "a": 1,\n  "b": [2]\n}').documents == [
        Node(
            {
                "a": Node(1, SourceMark(2, 8), "1", "a", SourceMark(2, 3)),
                "b": Node(
                    [Node(2, SourceMark(3, 9), "2")], SourceMark(3, 8), "", "b", SourceMark(3, 3)
                ),
            },
            SourceMark(1, 1),
        )
    ]


@each_row(
    ("text", "message"),
    [
        ('{"a": 1,}', "1:8: unexpected comma before }"),
        ("[1,\n]", "1:3: unexpected comma before ]"),
        ("[1 2]", "1:4: missing comma or ]"),
        ("[1,,2]", "1:4: missing value"),
        ("{a: 1}", "1:2: missing key in double quotes, or missing }"),
        ("{'a': 1}", "1:2: missing key in double quotes, or missing }"),
        ('{"a" 1}', "1:6: missing colon after the key"),
        ('{"a"', "1:5: unexpected end of the file: missing colon after the key"),
        ('{"a": yes}', "1:7: missing double quotes around yes"),
        ('{"a": NaN}', "1:7: missing double quotes around NaN"),
        (
            "// a\n{}",
            "1:1: JSON does not allow comments; remove the comment or rename the file to .yaml",
        ),
        ('{"a": "b', "1:7: missing closing quote"),
        ('{"a": "\\q"}', "1:8: unknown escape in JSON; write \\\\ for a backslash"),
        (
            '{"a": "\t"}',
            "1:8: unescaped control character; write \\n for a line break and \\t for a tab",
        ),
        ("{}\n{}", "2:1: unexpected text after the JSON value; put several values in a list"),
        ("[" * 200, "1:101: values are nested more than 100 levels deep"),
        ("[" * 100_000, "1:101: values are nested more than 100 levels deep"),
    ],
)  # fmt: skip
def test_invalid_json_is_explained_in_plain_words(text: str, message: str) -> None:
    assert read_error(text) == message


def test_mistakes_in_readable_json_are_reported() -> None:
    text = '{"a": 1, "a": 2, "b": "\\ud83d", "c": 1e999, "d": 99999999999999999999}'

    assert [
        f"{mistake.column}: {mistake.json_path}: {mistake.message}"
        for mistake in read(text).mistakes
    ] == [
        "10: $: duplicate field 'a'; the first one is at line 1",
        (
            "23: $.b: this escape is only half of a surrogate pair; write the character itself, or "
            "both halves"
        ),
        "38: $.c: the number 1e999 is too large; put it in quotes, or write fewer digits",
        (
            "50: $.d: the number 99999999999999999999 is too large; put it in quotes, or write "
            "fewer digits"
        ),
    ]


def test_a_file_named_json_must_be_json() -> None:
    yaml_alone = b"id: a\ndescription: b\nturns: []\n"

    assert parse_scenario_file("s.yaml", yaml_alone).mistakes == ()
    [mistake] = parse_scenario_file("s.JSON", yaml_alone).mistakes
    assert str(mistake) == "s.JSON:1:1: $: missing double quotes around id"


@given(st.text('{}[]:,"\\ntrue0-.eE/ \n\ud800', max_size=30))
def test_no_text_brings_the_reader_down(text: str) -> None:
    try:
        read(text)
    except UnreadableDocument as error:
        assert error.message  # noqa: PT017 # that it is raised is not what is tested
