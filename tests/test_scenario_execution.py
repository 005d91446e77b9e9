"""Selection of scenario and turn, and the order of the checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from case_tables import each_row
from llm_proxy.conversation import Conversation, ToolDefinition
from llm_proxy.scenario.scripted_response import FailResponse
from llm_proxy.take_numbers import RequestCounter
from raw_http import build_http_request, send_request
from scenario_server import (
    DIALECTS,
    PROVIDERS,
    in_every_dialect,
    in_every_form,
    make_match_context,
    mismatch_message,
    missing_turn_report,
    parse_scenario,
    report_fields,
    respond_to,
    scenario_document,
    serve_scenarios,
    text_turn,
    turn_of_response,
)
from stub_upstream import chunked, upstream

# Identity


@pytest.mark.shows("000-01")
async def test_the_source_of_an_answer_is_called_test_llm(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, scenario_document(text_turn())) as server:
        await server.send()
        await server.send(texts=("nobody",))
        models = json.loads(
            (
                await send_request(server.url, build_http_request("/v1/models", b"", method="GET"))
            ).body
        )

    known, unknown = [entry.origin for entry in server.entries[:2]]
    assert (known, unknown) == ("test-llm: refund, turn 1", "test-llm")
    assert [item["owned_by"] for item in models["data"]] == ["test-llm"]


@pytest.mark.shows("000-02", "001-01", "001-02")
@each_row("key", ["", "Authorization: Bearer sk-any", "x-api-key: other"])
async def test_any_api_key_is_accepted_and_no_provider_is_called(tmp_path: Path, key: str) -> None:
    async with upstream(chunked([b"from the provider"])) as provider:
        async with serve_scenarios(
            tmp_path, scenario_document(text_turn("Here.")), upstream=provider.url
        ) as server:
            responses = [await server.send(dialect, header=key) for dialect in DIALECTS]

    assert [(item.raw_response.status, item.turn.text) for item in responses] == [
        (200, "Here.")
    ] * len(DIALECTS)
    assert provider.requests == []


@pytest.mark.shows("000-03", "001-10")
@in_every_dialect
@in_every_form
async def test_any_model_is_accepted_and_returned_in_every_dialect(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    model: dict[str, Any] = {"more": {"model": "of-my-own:1"}} if dialect != "gemini" else {}
    async with serve_scenarios(tmp_path, scenario_document(text_turn("Here."))) as server:
        response = await server.send(dialect, stream=stream, **model)

    assert (response.raw_response.status, response.turn.text) == (200, "Here.")
    assert response.turn.model == ("of-my-own:1" if model else "m")
    assert server.entries[0].provider == PROVIDERS[dialect]


# Order of checks


STRICT: Final = scenario_document(
    text_turn(
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
    "reasoning": True,
}
CHECKS: Final = (
    ("system", "System prompt missing: Be brief."),
    ("tools", "Expected tools not available: lookup"),
    ("temperature", "Expected temperature 0.5 but received 0.25"),
    ("top_p", "Expected topP 0.9 but received 0.25"),
    ("reasoning", "Expected reasoning to remain enabled"),
)
WRONG: Final[dict[str, Any]] = {
    "system": "", "tools": (), "temperature": 0.25, "top_p": 0.25, "reasoning": False,
}  # fmt: skip


@pytest.mark.shows("000-22", "000-23")
@each_row("first", range(len(CHECKS)), ids=[name for name, _ in CHECKS])
async def test_the_first_check_that_fails_decides_alone(tmp_path: Path, first: int) -> None:
    names = [name for name, _ in CHECKS]
    request_fields = RIGHT | {name: WRONG[name] for name in names[first:]}
    async with serve_scenarios(tmp_path, STRICT) as server:
        response = await server.send(**request_fields)

    assert mismatch_message(response) == CHECKS[first][1]
    assert server.last_simulated.failure == ""


@pytest.mark.shows("000-22")
async def test_a_scenario_that_is_not_found_comes_before_every_check(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, STRICT) as server:
        response = await server.send(texts=("refunds",), **WRONG)

    assert "Scenario not found: refunds." in mismatch_message(response)


@pytest.mark.shows("000-22", "000-35")
async def test_the_system_prompt_is_checked_before_a_turn_is_missed(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, STRICT) as server:
        without_prompt = await server.send(texts=("refund", "Hi", "and?"), **WRONG)
        missed = await server.send(
            texts=("refund", "Hi", "and?"), **WRONG | {"system": "Be brief."}
        )

    assert mismatch_message(without_prompt) == CHECKS[0][1]
    assert mismatch_message(missed) == "Scenario refund has no turn 2; its turns: 1."


@pytest.mark.shows("000-23")
async def test_a_check_that_fails_uses_up_no_failure(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, STRICT) as server:
        await server.send(**WRONG)
        failed, right = [await server.send(**RIGHT) for _ in range(2)]

    assert (failed.raw_response.status, right.turn.text) == (500, "Right.")


# Turn selection


@pytest.mark.shows("000-29", "000-30")
@in_every_dialect
async def test_the_number_of_the_turn_is_the_models_messages_and_one(
    tmp_path: Path, dialect: str
) -> None:
    turns = [text_turn(f"Turn {item}.") | {"turn": item} for item in (3, 2, 1)]
    async with serve_scenarios(tmp_path, scenario_document(*turns)) as server:
        texts = [
            (await server.send(dialect, texts=("refund", *("x", "y") * number))).turn.text
            for number in range(3)
        ]

    assert texts == ["Turn 1.", "Turn 2.", "Turn 3."]


@pytest.mark.shows("000-29")
@each_row("dialect", ["openai-chat", "anthropic", "ollama"])
async def test_a_prefilled_assistant_message_counts_as_a_turn(tmp_path: Path, dialect: str) -> None:
    async with serve_scenarios(
        tmp_path, scenario_document(text_turn("One."), text_turn("Two."))
    ) as server:
        response = await server.send(dialect, texts=("refund", "The answer is"))

    assert response.turn.text == "Two."


@pytest.mark.shows("000-29")
@in_every_form
async def test_a_response_that_continues_another_is_its_next_turn(
    tmp_path: Path, stream: bool
) -> None:
    async with serve_scenarios(
        tmp_path, scenario_document(text_turn("One."), text_turn("Two."), text_turn("Three."))
    ) as server:
        responses = [await server.send("openai-responses", stream=stream)]
        for _ in range(2):
            more = {"previous_response_id": responses[-1].turn.id}
            responses.append(
                await server.send("openai-responses", texts=("Go on",), stream=stream, more=more)
            )
        more = {"previous_response_id": responses[0].turn.id}
        branch = await server.send("openai-responses", texts=("Else?",), more=more)
        elsewhere = await server.send("openai-responses", session="other", more=more)

    assert [item.turn.text for item in responses] == ["One.", "Two.", "Three."]
    assert branch.turn.text == "Two."
    assert "which is not stored in this session" in mismatch_message(elsewhere)


@pytest.mark.shows("000-29")
async def test_a_conversation_that_the_provider_keeps_goes_on_by_its_id(tmp_path: Path) -> None:
    async with serve_scenarios(
        tmp_path, scenario_document(text_turn("One."), text_turn("Two."), text_turn("Three."))
    ) as server:
        responses = [
            await server.send(
                "openai-responses", texts=(text,), more={"conversation": conversation}
            )
            for text, conversation in (
                ("refund", "conv_1"),
                ("Go on", {"id": "conv_1"}),
                ("refund", "conv_2"),
                ("And?", "conv_1"),
            )
        ]

    assert [item.turn.text for item in responses] == ["One.", "Two.", "One.", "Three."]


# Fallback step


@pytest.mark.shows("000-35", "000-36")
@in_every_dialect
@in_every_form
async def test_a_turn_that_a_scenario_does_not_have_is_reported_with_those_it_has(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    document = scenario_document(text_turn(), text_turn() | {"turn": 3})
    async with serve_scenarios(tmp_path, document) as server:
        response = await server.send(dialect, texts=("refund", "x", "y"), stream=stream)

    reason = "Scenario refund has no turn 2; its turns: 1, 3."
    assert mismatch_message(response) == reason
    assert server.last_simulated.unsuccessful == reason


@pytest.mark.shows("000-36")
def test_a_scenario_without_turns_says_so() -> None:
    scripted = respond_to(scenario_document(), make_match_context("refund"))

    assert report_fields(turn_of_response(scripted)) == missing_turn_report(
        "Scenario refund has no turn 1; its turns: none."
    )


@pytest.mark.shows("000-35")
def test_the_fallback_step_expects_nothing_and_fails_not() -> None:
    counter = RequestCounter()
    document = scenario_document(text_turn(expectedTools=["x"], failuresBeforeSuccess=5))
    first, second = (
        respond_to(document, item, counter)
        for item in (make_match_context("refund", "Hi"), make_match_context("refund"))
    )

    assert not isinstance(first.scripted_action, FailResponse)
    assert first.session_failure_reason == "Scenario refund has no turn 2; its turns: 1."
    assert second.session_failure_reason == "Expected tools not available: x"


def test_a_step_for_any_turn_answers_those_that_no_other_is_for() -> None:
    document = scenario_document(text_turn("Any.", turn="any"), text_turn("Two.", turn=2))
    messages = ("refund", "x", "y", "x", "y")

    responses = [
        respond_to(document, make_match_context(*messages[: 2 * number + 1])) for number in range(3)
    ]

    assert [turn_of_response(item).text for item in responses] == ["Any.", "Two.", "Any."]
    assert [item.session_failure_reason for item in responses] == ["", "", ""]


def test_a_step_for_any_turn_fails_first_in_each_of_them() -> None:
    document = scenario_document(text_turn(turn="any", failuresBeforeSuccess=1))
    counter = RequestCounter()

    responses = [
        respond_to(document, make_match_context(*messages), counter)
        for messages in (["refund"], ["refund"], ["refund", "x", "y"], ["refund", "x", "y"])
    ]

    assert [isinstance(item.scripted_action, FailResponse) for item in responses] == [
        True,
        False,
        True,
        False,
    ]


# Whole conversations


@pytest.mark.shows("000-103", "000-104")
@in_every_dialect
async def test_a_conversation_of_many_turns_is_played_to_its_end(
    tmp_path: Path, dialect: str
) -> None:
    turns = [
        text_turn(f"Turn {number}.", failuresBeforeSuccess=number % 2) for number in range(1, 13)
    ]
    messages, texts = ["refund"], list[str]()
    async with serve_scenarios(tmp_path, scenario_document(*turns)) as server:
        for _ in turns:
            response = await server.send(dialect, texts=tuple(messages), stream=False)
            if response.raw_response.status != 200:
                response = await server.send(dialect, texts=tuple(messages), stream=False)
            texts.append(response.turn.text)
            messages += [texts[-1], "Go on."]

    assert texts == [f"Turn {number}." for number in range(1, 13)]
    assert [entry.status for entry in server.entries] == [500, 200, 200] * 6


@pytest.mark.shows("000-30")
def test_expectations_are_those_of_the_requested_turn() -> None:
    document = scenario_document(text_turn("One.", expectedTools=["first"]), text_turn("Two."))
    match_context = make_match_context(
        messages=make_match_context("refund", "One.", "Go on").conversation.messages,
        tools=(ToolDefinition("other"),),
    )

    assert turn_of_response(respond_to(document, match_context)).text == "Two."


@pytest.mark.shows("000-04", "000-05", "000-06", "000-07")
def test_a_scenario_has_an_id_a_description_and_turns_and_perhaps_fragments() -> None:
    plain = parse_scenario({"id": "a", "description": "b", "turns": []})
    full = parse_scenario(scenario_document(text_turn(), systemPromptMustInclude=["x"]))

    assert (plain.id, plain.description, plain.turns) == ("a", "b", ())
    assert plain.system_prompt_must_include == ()
    assert full.system_prompt_must_include == ("x",)
    assert Conversation(()).system == ""
