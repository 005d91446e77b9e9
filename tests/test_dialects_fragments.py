from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def joined(*fragments: Part) -> tuple[Part, ...]:
    collected = FragmentJoiner()
    for fragment in fragments:
        collected.add(fragment)
    return collected.joined_parts()


@pytest.mark.parametrize(
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
    assert joined(*fragments) == (part,)


def test_text_after_another_part_is_a_new_part() -> None:
    said = (Text("a"), ToolCall("i", "f", "{}"), Text("b"))
    assert joined(*said) == said


def test_what_is_not_readable_finds_its_part_wherever_that_stands() -> None:
    cited = Citation("https://example.com")
    said = joined(
        Reasoning("a"),
        Text("b"),
        ToolCall("i", "f", "{"),
        Reasoning(signature="s"),
        Text("", citations=(cited,)),
        ToolCall("", "", "}"),
    )
    assert said == (
        Reasoning("a", signature="s"),
        Text("b", citations=(cited,)),
        ToolCall("i", "f", "{}"),
    )


def test_keys_tell_parts_apart_and_none_joins_nothing() -> None:
    collected = FragmentJoiner()
    for key, text in [(0, "a"), (1, "b"), (0, "c"), (None, "d"), (None, "e")]:
        collected.add(ToolCall("", "", text), key)
    assert [part.arguments for part in collected.joined_parts() if isinstance(part, ToolCall)] == [
        "ac",
        "b",
        "d",
        "e",
    ]


def test_a_citation_may_come_before_its_text() -> None:
    cited = Text("", citations=(Citation("https://example.com"),))
    assert joined(cited, Text("a"), Text("b")) == (Text("ab", citations=cited.citations),)


def test_metadata_keeps_what_was_said_last_of_each_name() -> None:
    said = joined(
        Text("a", metadata=(("x", 1), ("y", 1))),
        Text("b", metadata=(("y", 2), ("z", 3))),
    )
    assert said == (Text("ab", metadata=(("x", 1), ("y", 2), ("z", 3))),)


def test_a_character_that_two_fragments_share_becomes_whole() -> None:
    assert joined(Text("\ud83d"), Text("\ude00"), Text("\ud83d")) == (Text("😀\ufffd"),)


@given(st.lists(st.binary()))
def test_base64_pieces_with_padding_of_their_own_become_one(pieces: list[bytes]) -> None:
    sounds = [Media("audio/*", base64=base64.b64encode(piece).decode()) for piece in pieces]
    said = joined(Media("audio/*"), *sounds)
    whole = base64.b64encode(b"".join(pieces)).decode()
    assert said == (Media("audio/*", base64=whole),)


def test_pieces_that_are_not_base64_are_kept_as_they_came() -> None:
    said = joined(Media("audio/*", base64="?YQ=="), Media("audio/*", base64="YQ=="))
    assert said == (Media("audio/*", base64="?YQ==YQ=="),)


@given(st.lists(st.text(st.characters(), min_size=1)))
def test_text_is_kept_however_it_was_cut(pieces: list[str]) -> None:
    mended = "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    said = joined(*(Text(piece) for piece in pieces))
    assert said == ((Text(mended),) if pieces else ())
