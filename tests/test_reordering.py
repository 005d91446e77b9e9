"""Rearranged messages keep the framing of their codec, including separators."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from case_tables import each_row
from llm_proxy import framing
from llm_proxy.framing.message_edits import rearrange_messages

SWAPPED = (1, 0)
TWICE = (0, 0)


@each_row(
    ("codec", "messages", "order", "rearranged"),
    [
        ("sse", [b"data: 1\n\n", b"data: 2\n\n"], SWAPPED, [b"data: 2\n\n", b"data: 1\n\n"]),
        ("sse", [b"data: 1\n\n", b"data: 2"], SWAPPED, [b"data: 2\n\n", b"data: 1\n\n"]),
        ("sse", [b"data: 1\r\n"], TWICE, [b"data: 1\r\n\n", b"data: 1\r\n"]),
        ("ndjson", [b"1\n", b"2"], SWAPPED, [b"2\n", b"1\n"]),
        ("ndjson", [b"1\r\n"], TWICE, [b"1\r\n", b"1\r\n"]),
        ("json-array", [b'[{"a":1}', b',\n{"b":2}'], SWAPPED, [b'[{"b":2}', b',{"a":1}']),
        ("json-array", [b',\r\n{"a":1}'], TWICE, [b',\r\n{"a":1}', b',{"a":1}']),
        ("json-array", [b'[{"a":1}'], TWICE, [b'[{"a":1}', b',{"a":1}']),
        ("json-array", [b"[[1]"], TWICE, [b"[[1]", b",[1]"]),
        ("eventstream", [b"x", b"y"], SWAPPED, [b"y", b"x"]),
    ],
)
def test_separators_stand_between_rearranged_messages(
    codec: str, messages: Sequence[bytes], order: Sequence[int], rearranged: list[bytes]
) -> None:
    assert rearrange_messages(codec, messages, order) == rearranged


@each_row("order", [SWAPPED, (1, 1)])
def test_the_end_of_an_array_has_no_other_place(order: Sequence[int]) -> None:
    with pytest.raises(
        ValueError, match="cannot move the last message, because it closes the JSON array"
    ):
        rearrange_messages("json-array", [b'[{"a":1}', b"\n]"], order)


def test_a_rearranged_array_is_valid_json() -> None:
    body = b'[{"a":1}\n,\n{"b":2}\n,\n{"c":3}\n]'
    first, second, third, end = framing.split_messages("json-array", body)
    rearranged = b"".join([*rearrange_messages("json-array", [first, second], SWAPPED), third, end])
    assert json.loads(rearranged) == [{"b": 2}, {"a": 1}, {"c": 3}]
