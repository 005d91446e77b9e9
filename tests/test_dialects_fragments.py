from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.turns import (
    Citation,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)


def join(*fragments: Part) -> tuple[Part, ...]:
    joiner = FragmentJoiner()
    for fragment in fragments:
        joiner.add_fragment(fragment)
    return joiner.joined_parts()


@each_row(
    ("fragments", "part"),
    [
        pytest.param([Text("a"), Text("b")], Text("ab"), id="text"),
        pytest.param([Refusal("a"), Refusal("b")], Refusal("ab"), id="refusal"),
        pytest.param(
            [Reasoning("a"), Reasoning("b"), Reasoning(signature="s1"), Reasoning(signature="s2")],
            Reasoning("ab", signature="s1s2"),
            id="reasoning and its signature",
        ),
        pytest.param(
            [Reasoning(redacted="r1"), Reasoning(redacted="r2")],
            Reasoning(redacted="r1r2"),
            id="sealed reasoning",
        ),
        pytest.param(
            [ToolCall("i", "f", "{"), ToolCall("", "", "}"), ToolCall("i", "f", "")],
            ToolCall("i", "f", "{}"),
            id="tool call",
        ),
        pytest.param(
            [ToolResult("i", "a"), ToolResult("", "b", name="f", failed=True)],
            ToolResult("i", "ab", name="f", failed=True),
            id="tool result",
        ),
        pytest.param(
            [Media("audio/*", transcript="a"), Media("audio/*", transcript="b", url="u")],
            Media("audio/*", url="u", transcript="ab"),
            id="media",
        ),
    ],
)
def test_fragments_of_a_kind_are_one_part(fragments: list[Part], part: Part) -> None:
    assert join(*fragments) == (part,)


def test_text_after_another_part_is_a_new_part() -> None:
    parts = (Text("a"), ToolCall("i", "f", "{}"), Text("b"))
    assert join(*parts) == parts


def test_signatures_citations_and_arguments_join_their_part_out_of_order() -> None:
    citation = Citation("https://example.com")
    parts = join(
        Reasoning("a"),
        Text("b"),
        ToolCall("i", "f", "{"),
        Reasoning(signature="s"),
        Text("", citations=(citation,)),
        ToolCall("", "", "}"),
    )
    assert parts == (
        Reasoning("a", signature="s"),
        Text("b", citations=(citation,)),
        ToolCall("i", "f", "{}"),
    )


def test_keys_separate_parts_and_no_key_joins_nothing() -> None:
    joiner = FragmentJoiner()
    for key, text in [(0, "a"), (1, "b"), (0, "c"), (None, "d"), (None, "e")]:
        joiner.add_fragment(ToolCall("", "", text), key)
    assert [part.arguments for part in joiner.joined_parts() if isinstance(part, ToolCall)] == [
        "ac",
        "b",
        "d",
        "e",
    ]


def test_a_citation_may_come_before_its_text() -> None:
    citation_fragment = Text("", citations=(Citation("https://example.com"),))
    assert join(citation_fragment, Text("a"), Text("b")) == (
        Text("ab", citations=citation_fragment.citations),
    )


def test_metadata_keeps_the_last_value_of_each_name() -> None:
    parts = join(
        Text("a", metadata=(("x", 1), ("y", 1))),
        Text("b", metadata=(("y", 2), ("z", 3))),
    )
    assert parts == (Text("ab", metadata=(("x", 1), ("y", 2), ("z", 3))),)


def test_a_character_split_across_two_fragments_is_joined() -> None:
    assert join(Text("\ud83d"), Text("\ude00"), Text("\ud83d")) == (Text("😀\ufffd"),)


@given(st.lists(st.binary()))
def test_base64_pieces_with_padding_of_their_own_become_one(pieces: list[bytes]) -> None:
    audio_fragments = [
        Media("audio/*", base64=base64.b64encode(piece).decode()) for piece in pieces
    ]
    parts = join(Media("audio/*"), *audio_fragments)
    expected = base64.b64encode(b"".join(pieces)).decode()
    assert parts == (Media("audio/*", base64=expected),)


def test_pieces_that_are_not_base64_are_kept_as_they_came() -> None:
    parts = join(Media("audio/*", base64="?YQ=="), Media("audio/*", base64="YQ=="))
    assert parts == (Media("audio/*", base64="?YQ==YQ=="),)


@given(st.lists(st.text(st.characters(), min_size=1)))
def test_text_is_kept_however_it_was_cut(pieces: list[str]) -> None:
    expected_text = "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    parts = join(*(Text(piece) for piece in pieces))
    assert parts == ((Text(expected_text),) if pieces else ())
