"""The expectations of a scenario, and the messages for requests that do not meet them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.conversation import Conversation, ToolDefinition
from llm_proxy.scenario import scripting
from scenario_server import (
    in_every_dialect,
    in_every_form,
    make_match_context,
    mismatch_message,
    parse_scenario,
    respond_to,
    scenario_document,
    serve_scenarios,
    text_turn,
    turn_of_response,
)

UNSENT: Final = " (the request does not set it; some SDKs never do)"


def check_message(turn_fields: dict[str, Any], **conversation: Any) -> str | None:
    """Return the message of a turn's checks for a conversation, or None."""
    [step] = parse_scenario(scenario_document(text_turn(**turn_fields))).turns
    return scripting.check_expectations(step, Conversation((), **conversation))


def with_tools(*names: str) -> dict[str, Any]:
    return {"tools": tuple(map(ToolDefinition, names))}


# System prompt


@pytest.mark.shows("000-31", "000-33")
@in_every_dialect
async def test_fragments_that_the_system_prompt_lacks_are_named(
    tmp_path: Path, dialect: str
) -> None:
    needed = ["Be brief.", "B", "be kind", "A"]
    async with serve_scenarios(
        tmp_path, scenario_document(text_turn("Fine."), systemPromptMustInclude=needed)
    ) as server:
        missing = await server.send(dialect, system="Be brief. Be kind.")
        none = await server.send(dialect)
        complete = await server.send(dialect, system="A: Be brief, and be kind. Be brief.")

    assert mismatch_message(missing) == "System prompt missing: be kind, A"
    assert mismatch_message(none) == "System prompt missing: Be brief., B, be kind, A"
    assert complete.turn.text == "Fine."


@pytest.mark.shows("000-32")
@given(prompt=st.text(), fragment=st.text(min_size=1))
def test_a_fragment_must_occur_to_the_letter(prompt: str, fragment: str) -> None:
    scenario = parse_scenario(scenario_document())
    scenario = type(scenario)(
        id="a", description="", turns=(), system_prompt_must_include=(fragment,)
    )

    def missing(system: str) -> str | None:
        return scripting.check_system_prompt(scenario, Conversation((), system))

    assert missing(prompt + fragment + prompt) is None
    assert (missing(prompt) is None) == (fragment in prompt)
    assert missing("") == f"System prompt missing: {fragment}"


@pytest.mark.shows("000-32")
def test_capitals_count() -> None:
    document = scenario_document(text_turn(), systemPromptMustInclude=["Be Brief"])

    assert respond_to(
        document, make_match_context("refund", system="be brief")
    ).session_failure_reason == ("System prompt missing: Be Brief")


@pytest.mark.shows("000-34")
def test_without_fragments_any_system_prompt_will_do() -> None:
    for document in (
        scenario_document(text_turn("Fine.")),
        scenario_document(text_turn("Fine."), systemPromptMustInclude=[]),
    ):
        assert turn_of_response(respond_to(document, make_match_context("refund"))).text == "Fine."


# Tools


@pytest.mark.shows("000-42", "000-08", "000-10")
@in_every_dialect
@in_every_form
async def test_tools_that_are_not_offered_are_named(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    document = scenario_document(text_turn("Fine.", expectedTools=["lookup.order", "b", "refund"]))
    async with serve_scenarios(tmp_path, document) as server:
        some = await server.send(dialect, tools=("b", "c"), stream=stream)
        every = await server.send(dialect, tools=("refund", "b", "lookup_order"), stream=stream)

    assert mismatch_message(some) == "Expected tools not available: lookup.order, refund"
    assert every.turn.text == "Fine."


@pytest.mark.shows("000-37", "000-11")
def test_tools_are_not_looked_for_where_they_may_be_missing() -> None:
    turn_fields = {"expectedTools": ["a"], "allowMissingTools": True}

    assert check_message(turn_fields) is None
    assert (
        check_message(turn_fields | {"allowMissingTools": False})
        == "Expected tools not available: a"
    )


@pytest.mark.shows("000-38")
@each_row("turn_fields", [{}, {"expectedTools": []}], ids=["absent", "empty"])
def test_without_expected_tools_nothing_is_checked(turn_fields: dict[str, Any]) -> None:
    assert check_message(turn_fields) is None


@pytest.mark.shows("000-39")
def test_an_agents_own_tools_are_exempt() -> None:
    expected = ["agent__final_report", "agent__", "agent_x", "Agent__y"]

    assert check_message({"expectedTools": expected}) == (
        "Expected tools not available: agent_x, Agent__y"
    )


@pytest.mark.shows("000-40")
@each_row(
    ("name", "compared"),
    [
        ("lookup.order", "lookup_order"),
        ("lookup_order", "lookup_order"),
        ("  lookup-Order9 ", "lookup-Order9"),
        ("<|channel|>lookup<|end|> ", "lookup"),
        ("a b:c/dé", "a_b_c_d_"),
        ("<|a|>", ""),
        ("<|open", "__open"),
    ],
)
def test_names_are_compared_without_markers_blanks_and_odd_characters(
    name: str, compared: str
) -> None:
    assert scripting.sanitize_tool_name(name) == compared
    assert check_message({"expectedTools": [name]}, **with_tools(compared)) is None
    assert check_message({"expectedTools": [compared or "x"]}, **with_tools(name)) == (
        None if compared else "Expected tools not available: x"
    )


@pytest.mark.shows("000-41")
def test_more_tools_than_are_expected_are_no_error() -> None:
    assert check_message({"expectedTools": ["b"]}, **with_tools("a", "b", "c")) is None


# Temperature and top_p


@pytest.mark.shows("000-45", "000-47", "000-12", "000-13")
@in_every_dialect
async def test_another_temperature_and_another_top_p_are_reported(
    tmp_path: Path, dialect: str
) -> None:
    document = scenario_document(text_turn("Fine.", expectedTemperature=1.0, expectedTopP=0.9))
    async with serve_scenarios(tmp_path, document) as server:
        responses = [
            await server.send(dialect, temperature=temperature, top_p=top_p)
            for temperature, top_p in ((0.7, 0.9), (None, 0.9), (1, 0.95), (1, None))
        ]
        fine = await server.send(dialect, temperature=1, top_p=0.9)

    assert list(map(mismatch_message, responses)) == [
        "Expected temperature 1 but received 0.7",
        f"Expected temperature 1 but received undefined{UNSENT}",
        "Expected topP 0.9 but received 0.95",
        f"Expected topP 0.9 but received undefined{UNSENT}",
    ]
    assert fine.turn.text == "Fine."


@pytest.mark.shows("000-43", "000-46")
@each_row("sent", [None, 0, 0.7, 2])
def test_what_is_not_expected_is_not_checked(sent: float | None) -> None:
    assert check_message({}, temperature=sent, top_p=sent) is None


@pytest.mark.shows("000-44", "000-46")
@each_row("field", ["temperature", "top_p"])
@each_row(
    ("expected", "actual", "passes"),
    [
        (0.7, 0.7, True),
        (0.7, 0.700001, True),
        (0.7, 0.699999, True),
        (0.7, 0.7000011, False),
        (0.7, 0.6999989, False),
        (1, 1.000001, True),
        (1, 1.0000010001, False),
        (0, 0.000001, True),
        (0, -0.0000011, False),
        (0.30000000000000004, 0.3, True),
    ],
)
def test_numbers_differ_by_a_millionth_at_most(
    field: str, expected: float, actual: float, passes: bool
) -> None:
    name = {"temperature": "expectedTemperature", "top_p": "expectedTopP"}[field]

    assert (check_message({name: expected}, **{field: actual}) is None) == passes


@pytest.mark.shows("000-45", "000-47")
@each_row(
    ("number", "printed"),
    [
        (1, "1"),
        (1.0, "1"),
        (0.0, "0"),
        (-0.5, "-0.5"),
        (0.1, "0.1"),
        (0.30000000000000004, "0.30000000000000004"),
        (0.000001, "0.000001"),
        (0.00000015, "1.5e-7"),
        (1e16, "10000000000000000"),
        (1.5e20, "150000000000000000000"),
        (1e21, "1e+21"),
    ],
)
def test_numbers_are_printed_as_javascript_prints_them(number: float, printed: str) -> None:
    assert check_message({"expectedTemperature": 7}, temperature=number) == (
        f"Expected temperature 7 but received {printed}"
    )
    assert check_message({"expectedTopP": number}, top_p=7) == (
        f"Expected topP {printed} but received 7"
    )


def test_an_expected_number_that_is_none_is_never_met() -> None:
    for number in (float("nan"), float("inf")):
        [step] = parse_scenario(scenario_document(text_turn())).turns
        step_with_number = type(step)(turn=1, response=step.response, expected_temperature=number)

        assert (
            scripting.check_expectations(step_with_number, Conversation((), temperature=1))
            is not None
        )


# Reasoning


@pytest.mark.shows("000-49", "000-50", "000-51", "000-14")
@in_every_dialect
async def test_reasoning_is_on_where_its_switch_is_there_and_not_off(
    tmp_path: Path, dialect: str
) -> None:
    on = scenario_document(text_turn("On.", expectedReasoning="enabled"), name="on")
    off = scenario_document(text_turn("Off.", expectedReasoning="disabled"), name="off")
    async with serve_scenarios(tmp_path, on, off) as server:
        responses = {
            (scenario_id, reasons): await server.send(
                dialect, texts=(scenario_id,), reasoning=reasons
            )
            for scenario_id in ("on", "off")
            for reasons in (True, False, None)
        }

    assert responses["on", True].turn.text == "On."
    for reasons in (False, None):
        missing = mismatch_message(responses["on", reasons])
        assert missing == "Expected reasoning to remain enabled"
        assert responses["off", reasons].turn.text == "Off."
    assert mismatch_message(responses["off", True]) == "Expected reasoning to be disabled"


@pytest.mark.shows("000-48")
@each_row("reasons", [True, False])
def test_reasoning_that_nothing_is_expected_of_may_be_either(reasons: bool) -> None:
    assert check_message({}, reasoning_enabled=reasons) is None
