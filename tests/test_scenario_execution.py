"""Which scenario answers a request, with which of its turns, and in which order it decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from llm_proxy.conversation import Conversation, ToolDefinition
from llm_proxy.scenario.engine.failure_counter import FailureCounter
from llm_proxy.scenario.scripted_response import FailResponse
from raw_http import ask, post
from scenario_server import (
    DIALECTS,
    PROVIDERS,
    cue,
    directed,
    error_turn,
    fallback,
    in_every_dialect,
    in_every_form,
    playing,
    read,
    reported,
    says,
    script,
    turn_of,
)
from stub_upstream import chunked, upstream

# Identity


@pytest.mark.shows("000-01")
async def test_the_source_of_an_answer_is_called_test_llm(tmp_path: Path) -> None:
    async with playing(tmp_path, script(says())) as stage:
        await stage.ask()
        await stage.ask(said=("nobody",))
        models = json.loads((await ask(stage.url, post("/v1/models", b"", method="GET"))).body)

    known, unknown = [entry.origin for entry in stage.entries[:2]]
    assert (known, unknown) == ("test-llm: refund, turn 1", "test-llm")
    assert [item["owned_by"] for item in models["data"]] == ["test-llm"]


@pytest.mark.shows("000-02", "001-01", "001-02")
@pytest.mark.parametrize("key", ["", "Authorization: Bearer sk-any", "x-api-key: other"])
async def test_any_key_is_right_and_no_provider_is_asked(tmp_path: Path, key: str) -> None:
    async with upstream(chunked([b"from the provider"])) as live:
        async with playing(tmp_path, script(says("Here.")), upstream=live.url) as stage:
            heard = [await stage.ask(dialect, header=key) for dialect in DIALECTS]

    assert [(item.raw.status, item.turn.text) for item in heard] == [(200, "Here.")] * len(DIALECTS)
    assert live.requests == []


@pytest.mark.shows("000-03", "001-10")
@in_every_dialect
@in_every_form
async def test_any_model_is_taken_and_told_in_every_dialect(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    model: dict[str, Any] = {"more": {"model": "of-my-own:1"}} if dialect != "gemini" else {}
    async with playing(tmp_path, script(says("Here."))) as stage:
        heard = await stage.ask(dialect, stream=stream, **model)

    assert (heard.raw.status, heard.turn.text) == (200, "Here.")
    assert heard.turn.model == ("of-my-own:1" if model else "m")
    assert stage.entries[0].provider == PROVIDERS[dialect]


# The order


STRICT: Final = script(
    says(
        "Right.",
        expectedTools=["lookup"],
        expectedTemperature=0.5,
        expectedTopP=0.9,
        expectedReasoning="enabled",
        failuresBeforeSuccess=1,
        failureMessage="no luck",
    ),
    systemPromptMustInclude=["Be brief."],
)
RIGHT: Final[dict[str, Any]] = {
    "system": "Be brief.",
    "tools": ("lookup",),
    "temperature": 0.5,
    "top_p": 0.9,
    "reasons": True,
}
STEPS: Final = (
    ("system", "System prompt missing: Be brief."),
    ("tools", "Expected tools not available: lookup"),
    ("temperature", "Expected temperature 0.5 but received 0.25"),
    ("top_p", "Expected topP 0.9 but received 0.25"),
    ("reasons", "Expected reasoning to remain enabled"),
)
WRONG: Final[dict[str, Any]] = {
    "system": "", "tools": (), "temperature": 0.25, "top_p": 0.25, "reasons": False,
}  # fmt: skip


@pytest.mark.shows("000-22", "000-23")
@pytest.mark.parametrize("first", range(len(STEPS)), ids=[name for name, _ in STEPS])
async def test_the_first_check_that_fails_decides_alone(tmp_path: Path, first: int) -> None:
    names = [name for name, _ in STEPS]
    about = RIGHT | {name: WRONG[name] for name in names[first:]}
    async with playing(tmp_path, STRICT) as stage:
        heard = await stage.ask(**about)

    assert reported(heard.turn) == error_turn(STEPS[first][1])
    assert stage.last.failure == ""


@pytest.mark.shows("000-22")
async def test_a_scenario_that_is_not_found_comes_before_every_check(tmp_path: Path) -> None:
    async with playing(tmp_path, STRICT) as stage:
        heard = await stage.ask(said=("refunds",), **WRONG)

    assert "Scenario not found: refunds." in reported(heard.turn)["report_content"]


@pytest.mark.shows("000-22", "000-35")
async def test_the_system_prompt_is_checked_before_a_turn_is_missed(tmp_path: Path) -> None:
    async with playing(tmp_path, STRICT) as stage:
        context = await stage.ask(said=("refund", "Hi", "and?"), **WRONG)
        missed = await stage.ask(said=("refund", "Hi", "and?"), **WRONG | {"system": "Be brief."})

    assert reported(context.turn) == error_turn(STEPS[0][1])
    assert reported(missed.turn) == fallback("Scenario refund has no turn 2; its turns: 1.")


@pytest.mark.shows("000-23")
async def test_a_check_that_fails_uses_up_no_failure(tmp_path: Path) -> None:
    async with playing(tmp_path, STRICT) as stage:
        await stage.ask(**WRONG)
        failed, right = [await stage.ask(**RIGHT) for _ in range(2)]

    assert (failed.raw.status, right.turn.text) == (500, "Right.")


# The turn


@pytest.mark.shows("000-29", "000-30")
@in_every_dialect
async def test_the_number_of_the_turn_is_the_models_messages_and_one(
    tmp_path: Path, dialect: str
) -> None:
    backwards = [says(f"Turn {item}.") | {"turn": item} for item in (3, 2, 1)]
    async with playing(tmp_path, script(*backwards)) as stage:
        heard = [
            (await stage.ask(dialect, said=("refund", *("x", "y") * number))).turn.text
            for number in range(3)
        ]

    assert heard == ["Turn 1.", "Turn 2.", "Turn 3."]


@pytest.mark.shows("000-29")
@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic", "ollama"])
async def test_a_last_message_that_is_put_into_the_models_mouth_counts(
    tmp_path: Path, dialect: str
) -> None:
    async with playing(tmp_path, script(says("One."), says("Two."))) as stage:
        heard = await stage.ask(dialect, said=("refund", "The answer is"))

    assert heard.turn.text == "Two."


@pytest.mark.shows("000-29")
@in_every_form
async def test_a_response_that_continues_another_is_its_next_turn(
    tmp_path: Path, stream: bool
) -> None:
    async with playing(tmp_path, script(says("One."), says("Two."), says("Three."))) as stage:
        heard = [await stage.ask("openai-responses", stream=stream)]
        for _ in range(2):
            more = {"previous_response_id": heard[-1].turn.id}
            heard.append(
                await stage.ask("openai-responses", said=("Go on",), stream=stream, more=more)
            )
        more = {"previous_response_id": heard[0].turn.id}
        branch = await stage.ask("openai-responses", said=("Else?",), more=more)
        elsewhere = await stage.ask("openai-responses", session="other", more=more)

    assert [item.turn.text for item in heard] == ["One.", "Two.", "Three."]
    assert branch.turn.text == "Two."
    assert (
        "which was not given in this session and run" in reported(elsewhere.turn)["report_content"]
    )


@pytest.mark.shows("000-29")
async def test_a_conversation_that_the_provider_keeps_goes_on_by_its_id(tmp_path: Path) -> None:
    async with playing(tmp_path, script(says("One."), says("Two."), says("Three."))) as stage:
        heard = [
            await stage.ask("openai-responses", said=(said,), more={"conversation": conversation})
            for said, conversation in (
                ("refund", "conv_1"), ("Go on", {"id": "conv_1"}), ("refund", "conv_2"),
                ("And?", "conv_1"),
            )
        ]  # fmt: skip

    assert [item.turn.text for item in heard] == ["One.", "Two.", "One.", "Three."]


# The fallback step


@pytest.mark.shows("000-35", "000-36")
@in_every_dialect
@in_every_form
async def test_a_turn_that_a_scenario_does_not_have_is_answered_by_the_fallback_step(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    gap = script(says(), says() | {"turn": 3})
    async with playing(tmp_path, gap) as stage:
        heard = await stage.ask(dialect, said=("refund", "x", "y"), stream=stream)

    why = "Scenario refund has no turn 2; its turns: 1, 3."
    assert (heard.raw.status, reported(heard.turn)) == (200, fallback(why))
    assert stage.last.unsuccessful == why


@pytest.mark.shows("000-36")
def test_a_scenario_without_turns_says_so() -> None:
    direction = directed(script(), cue("refund"))

    assert reported(turn_of(direction)) == fallback(
        "Scenario refund has no turn 1; its turns: none."
    )


@pytest.mark.shows("000-35")
def test_the_fallback_step_expects_nothing_and_fails_not() -> None:
    attempts = FailureCounter()
    document = script(says(expectedTools=["x"], failuresBeforeSuccess=5))
    first, second = (
        directed(document, item, attempts) for item in (cue("refund", "Hi"), cue("refund"))
    )

    assert not isinstance(first.action, FailResponse)
    assert first.unsuccessful == "Scenario refund has no turn 2; its turns: 1."
    assert second.unsuccessful == "Expected tools not available: x"


def test_a_step_for_any_turn_answers_those_that_no_other_is_for() -> None:
    document = script(says("Any.", turn="any"), says("Two.", turn=2))
    said = ("refund", "x", "y", "x", "y")

    heard = [directed(document, cue(*said[: 2 * number + 1])) for number in range(3)]

    assert [turn_of(item).text for item in heard] == ["Any.", "Two.", "Any."]
    assert [item.unsuccessful for item in heard] == ["", "", ""]


def test_a_step_for_any_turn_fails_first_in_each_of_them() -> None:
    document = script(says(turn="any", failuresBeforeSuccess=1))
    attempts = FailureCounter()

    heard = [
        directed(document, cue(*said), attempts)
        for said in (["refund"], ["refund"], ["refund", "x", "y"], ["refund", "x", "y"])
    ]

    assert [isinstance(item.action, FailResponse) for item in heard] == [True, False, True, False]


# Everything in one conversation


@pytest.mark.shows("000-103", "000-104")
@in_every_dialect
async def test_a_conversation_of_many_turns_is_played_to_its_end(
    tmp_path: Path, dialect: str
) -> None:
    turns = [says(f"Turn {number}.", failuresBeforeSuccess=number % 2) for number in range(1, 13)]
    said, heard = ["refund"], list[str]()
    async with playing(tmp_path, script(*turns)) as stage:
        for _ in turns:
            answer = await stage.ask(dialect, said=tuple(said), stream=False)
            if answer.raw.status != 200:
                answer = await stage.ask(dialect, said=tuple(said), stream=False)
            heard.append(answer.turn.text)
            said += [heard[-1], "Go on."]

    assert heard == [f"Turn {number}." for number in range(1, 13)]
    assert [entry.status for entry in stage.entries] == [500, 200, 200] * 6


@pytest.mark.shows("000-30")
def test_expectations_are_those_of_the_turn_that_is_asked_for() -> None:
    document = script(says("One.", expectedTools=["first"]), says("Two."))
    asked = cue(
        messages=cue("refund", "One.", "Go on").conversation.messages,
        tools=(ToolDefinition("other"),),
    )

    assert turn_of(directed(document, asked)).text == "Two."


@pytest.mark.shows("000-04", "000-05", "000-06", "000-07")
def test_a_scenario_has_an_id_a_description_and_turns_and_perhaps_fragments() -> None:
    plain = read({"id": "a", "description": "b", "turns": []})
    full = read(script(says(), systemPromptMustInclude=["x"]))

    assert (plain.id, plain.description, plain.turns) == ("a", "b", ())
    assert plain.system_prompt_must_include == ()
    assert full.system_prompt_must_include == ("x",)
    assert Conversation(()).system == ""
