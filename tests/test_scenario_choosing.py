"""Selection of the scenario that answers a request."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import thread_time
from typing import Final

import pytest
from msgspec.structs import replace as msgspec_replace

from case_tables import each_row
from cli_process import run_command
from llm_proxy.conversation import RequestMessage
from llm_proxy.scenario.choosing import (
    ChosenScenario,
    NoScenario,
    ScenarioSet,
    choose_scenario,
    no_scenario_message,
)
from llm_proxy.scenario.documents.document import ScenarioMatch
from llm_proxy.turns import Media, Text
from scenario_server import (
    in_every_dialect,
    in_every_form,
    locate_scenario,
    make_match_context,
    mismatch_message,
    scenario_document,
    serve_scenarios,
    text_turn,
    write_scenarios,
)


@pytest.mark.shows("000-24", "000-25")
@in_every_dialect
async def test_the_first_message_of_the_user_names_the_scenario(
    tmp_path: Path, dialect: str
) -> None:
    documents = (
        scenario_document(text_turn(), text_turn("Second."), name="a"),
        scenario_document(text_turn(), text_turn("No."), name="b"),
    )
    async with serve_scenarios(tmp_path, *documents) as server:
        response = await server.send(dialect, texts=(" \n a\t", "Hello.", "b"))

    assert response.turn.text == "Second."


@pytest.mark.shows("000-24")
def test_texts_of_one_message_are_joined_and_its_other_parts_ignored() -> None:
    message = RequestMessage("user", (Text("re"), Media("image/png", base64="aGk="), Text("fund")))
    chosen = choose_scenario(
        ScenarioSet((locate_scenario(scenario_document(text_turn(), name="re\nfund")),)),
        make_match_context(messages=(message,)),
        thread_time,
    )

    assert isinstance(chosen, ChosenScenario)
    assert chosen.reason == "the scenario id equals the first user message"


TWO_SCENARIOS: Final = ScenarioSet(
    (
        locate_scenario(scenario_document(text_turn(), name="a")),
        locate_scenario(scenario_document(text_turn(), name="b")),
    )
)


@pytest.mark.shows("000-24")
def test_a_header_or_the_session_wins_over_the_message() -> None:
    chosen = choose_scenario(TWO_SCENARIOS, make_match_context("a", scenario="b"), thread_time)

    assert chosen == ChosenScenario(
        TWO_SCENARIOS.scenarios[1], "selected by a header or by the session"
    )


@pytest.mark.shows("000-24")
async def test_a_header_names_a_scenario_in_any_script(tmp_path: Path) -> None:
    async with serve_scenarios(
        tmp_path, scenario_document(text_turn("Ja."), name="Rückgabe")
    ) as server:
        header = "x-llm-proxy-scenario: Rückgabe".encode().decode("latin-1")
        response = await server.send(texts=("Hi",), header=header)

    assert response.turn.text == "Ja."


@pytest.mark.shows("000-24")
async def test_a_session_is_answered_by_the_scenario_that_was_chosen_for_it(
    tmp_path: Path,
) -> None:
    documents = (
        scenario_document(text_turn("Mine."), name="a"),
        scenario_document(text_turn("Chosen."), name="b"),
    )
    async with serve_scenarios(tmp_path, *documents) as server:
        body = b'{"scenario": "b"}'
        session_scenario = await server.request_proxy_page(
            "sessions/s1/scenario", body, method="PUT"
        )
        chosen, other = [
            (await server.send(texts=("a",), session=item)).turn.text for item in ("s1", "s2")
        ]
        await server.request_proxy_page("sessions/s1/reset", method="POST")
        after_reset = (await server.send(texts=("a",), session="s1")).turn.text

    assert session_scenario == {"session": "s1", "scenario": "b"}
    assert (chosen, other, after_reset) == ("Chosen.", "Mine.", "Mine.")


@pytest.mark.shows("000-24")
def test_a_matcher_finds_requests_that_begin_with_an_agents_own_text() -> None:
    matched = locate_scenario(
        scenario_document(text_turn(), name="b", match={"user": "money back", "turn": 1})
    )
    chosen = choose_scenario(
        ScenarioSet((*TWO_SCENARIOS.scenarios, matched)),
        make_match_context("I am an agent. Give money back."),
        thread_time,
    )

    assert chosen == ChosenScenario(matched, "the request meets the match conditions")
    assert matched.value.match == ScenarioMatch(user="money back", turn=1)


@pytest.mark.shows("000-26")
@in_every_form
@each_row("messages", [(), (" \n ",)], ids=["no message", "blanks"])
async def test_a_request_without_text_of_a_user_names_no_scenario(
    tmp_path: Path, messages: tuple[str, ...], stream: bool
) -> None:
    async with serve_scenarios(tmp_path, scenario_document(text_turn())) as server:
        response = await server.send(texts=messages, stream=stream)

    reason = "No scenario was selected, because the request contains no user text."
    assert mismatch_message(response) == reason
    assert server.last_simulated.unsuccessful == reason


@pytest.mark.shows("000-27")
@in_every_dialect
async def test_an_unknown_id_is_reported_with_the_nearest_ones(
    tmp_path: Path, dialect: str
) -> None:
    async with serve_scenarios(
        tmp_path, scenario_document(text_turn()), scenario_document(text_turn(), name="hello")
    ) as server:
        response = await server.send(dialect, texts=("refunds please",))

    nearest = "Scenario not found: refunds please. Did you mean refund?"
    assert mismatch_message(response) == f"{nearest} Run `llm-proxy scenario ls` to list all ids."


@pytest.mark.shows("000-27")
def test_an_id_in_a_header_that_no_scenario_has_is_unknown_whatever_the_message_says() -> None:
    chosen = choose_scenario(TWO_SCENARIOS, make_match_context("a", scenario="zzz"), thread_time)

    assert chosen == NoScenario("zzz", is_explicit=True)
    assert (
        no_scenario_message(TWO_SCENARIOS, chosen)
        == "Scenario not found: zzz. Run `llm-proxy scenario ls` to list all ids."
    )


@pytest.mark.shows("000-27")
async def test_synthesis_answers_unknown_ids_where_the_operator_asks_for_it(
    tmp_path: Path,
) -> None:
    async with serve_scenarios(
        tmp_path, scenario_document(text_turn("Mine.")), on_unknown="synthesis"
    ) as server:
        unknown = await server.send(texts=("What?",), stream=False)
        known = await server.send()

    assert unknown.turn.text.startswith("lorem ipsum")
    assert unknown.turn.text.endswith(" What?")
    assert known.turn.text == "Mine."
    assert server.journal.failed_sessions == []


@pytest.mark.shows("000-28")
async def test_every_id_is_listed(tmp_path: Path) -> None:
    path = write_scenarios(
        tmp_path,
        *(scenario_document(text_turn(), name=item) for item in ("one", "two words", "three")),
    )

    listed = await run_command("scenario", "ls", "--json", str(path), folder=tmp_path)

    assert listed.exit_code == 0, listed.stderr
    assert [scenario["id"] for scenario in json.loads(listed.stdout)["scenarios"]] == [
        "one",
        "two words",
        "three",
    ]


def test_among_very_many_ids_the_nearest_are_those_that_begin_alike() -> None:
    template = locate_scenario(scenario_document(text_turn()))
    ids = [f"{prefix}-{number}" for prefix in ("alpha", "refund") for number in range(2000)]
    many = ScenarioSet(
        tuple(replace(template, value=msgspec_replace(template.value, id=item)) for item in ids)
    )

    assert many.nearest_ids("refund-17x")[0] == "refund-17"
