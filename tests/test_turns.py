from __future__ import annotations

from llm_proxy.turns import Reasoning, Refusal, Text, ToolCall, Turn


def test_the_text_of_a_turn_is_its_text_parts_and_nothing_else() -> None:
    turn = Turn(
        (Reasoning("Hm. "), Text("Hi "), ToolCall("1", "f", "{}"), Text("you"), Refusal(""))
    )
    assert turn.text == "Hi you"


def test_a_turn_without_text_has_none() -> None:
    assert Turn(()).text == ""
