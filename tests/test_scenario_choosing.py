"""Which scenario answers a request."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import thread_time
from typing import Final

import pytest
from msgspec.structs import replace as msgspec_replace

from cli_process import run
from llm_proxy.conversation import RequestMessage
from llm_proxy.scenario.documents.document import ScenarioMatch
from llm_proxy.scenario.engine.choosing import (
    ChosenScenario,
    NoScenario,
    choose_scenario,
    no_scenario_message,
)
from llm_proxy.scenario.engine.scenario_set import ScenarioSet
from llm_proxy.turns import Media, Text
from scenario_server import (
    cue,
    error_turn,
    in_every_dialect,
    in_every_form,
    playing,
    reported,
    says,
    script,
    scripted,
    write,
)


@pytest.mark.shows("000-24", "000-25")
@in_every_dialect
async def test_the_first_message_of_the_user_names_the_scenario(
    tmp_path: Path, dialect: str
) -> None:
    documents = (script(says(), says("Second."), name="a"), script(says(), says("No."), name="b"))
    async with playing(tmp_path, *documents) as stage:
        heard = await stage.ask(dialect, said=(" \n a\t", "Hello.", "b"))

    assert heard.turn.text == "Second."


@pytest.mark.shows("000-24")
def test_texts_of_one_message_are_joined_and_its_other_parts_ignored() -> None:
    message = RequestMessage("user", (Text("re"), Media("image/png", base64="aGk="), Text("fund")))
    chosen = choose_scenario(
        ScenarioSet((scripted(script(says(), name="re\nfund")),)),
        cue(messages=(message,)),
        thread_time,
    )

    assert isinstance(chosen, ChosenScenario)
    assert chosen.reason == "the first user message is its id"


BOTH: Final = ScenarioSet((scripted(script(says(), name="a")), scripted(script(says(), name="b"))))


@pytest.mark.shows("000-24")
def test_a_header_or_the_session_wins_over_the_message() -> None:
    chosen = choose_scenario(BOTH, cue("a", scenario="b"), thread_time)

    assert chosen == ChosenScenario(BOTH.scenarios[1], "a header or the session names it")


@pytest.mark.shows("000-24")
async def test_a_header_names_a_scenario_in_any_script(tmp_path: Path) -> None:
    async with playing(tmp_path, script(says("Ja."), name="Rückgabe")) as stage:
        header = "x-llm-proxy-scenario: Rückgabe".encode().decode("latin-1")
        heard = await stage.ask(said=("Hi",), header=header)

    assert heard.turn.text == "Ja."


@pytest.mark.shows("000-24")
async def test_a_session_is_answered_by_the_scenario_that_was_chosen_for_it(
    tmp_path: Path,
) -> None:
    documents = (script(says("Mine."), name="a"), script(says("Chosen."), name="b"))
    async with playing(tmp_path, *documents) as stage:
        body = b'{"scenario": "b"}'
        told = await stage.page("sessions/s1/scenario", body, method="PUT")
        chosen, other = [
            (await stage.ask(said=("a",), session=item)).turn.text for item in ("s1", "s2")
        ]
        await stage.page("sessions/s1/reset", method="POST")
        again = (await stage.ask(said=("a",), session="s1")).turn.text

    assert told == {"session": "s1", "scenario": "b"}
    assert (chosen, other, again) == ("Chosen.", "Mine.", "Mine.")


@pytest.mark.shows("000-24")
def test_a_matcher_finds_requests_that_begin_with_an_agents_own_text() -> None:
    matched = scripted(script(says(), name="b", match={"user": "money back", "turn": 1}))
    chosen = choose_scenario(
        ScenarioSet((*BOTH.scenarios, matched)), cue("I am an agent. Give money back."), thread_time
    )

    assert chosen == ChosenScenario(matched, "its match holds")
    assert matched.scenario.match == ScenarioMatch(user="money back", turn=1)


@pytest.mark.shows("000-26")
@in_every_form
@pytest.mark.parametrize("said", [(), (" \n ",)], ids=["no message", "blanks"])
async def test_a_request_without_text_of_a_user_names_no_scenario(
    tmp_path: Path, said: tuple[str, ...], stream: bool
) -> None:
    async with playing(tmp_path, script(says())) as stage:
        heard = await stage.ask(said=said, stream=stream)

    why = "The request has no user text to name a scenario."
    assert (heard.raw.status, reported(heard.turn)) == (200, error_turn(why))
    assert stage.last.unsuccessful == why


@pytest.mark.shows("000-27")
@in_every_dialect
async def test_an_unknown_id_is_told_with_the_nearest_ones(tmp_path: Path, dialect: str) -> None:
    async with playing(tmp_path, script(says()), script(says(), name="hello")) as stage:
        heard = await stage.ask(dialect, said=("refunds please",))

    nearest = "Scenario not found: refunds please. The nearest: refund."
    assert reported(heard.turn) == error_turn(f"{nearest} `llm-proxy scenario ls` lists all ids.")


@pytest.mark.shows("000-27")
def test_an_id_in_a_header_that_no_scenario_has_is_unknown_whatever_the_message_says() -> None:
    chosen = choose_scenario(BOTH, cue("a", scenario="zzz"), thread_time)

    assert chosen == NoScenario("zzz", was_named=True)
    assert (
        no_scenario_message(BOTH, chosen)
        == "Scenario not found: zzz. `llm-proxy scenario ls` lists all ids."
    )


@pytest.mark.shows("000-27")
async def test_synthesis_answers_unknown_ids_where_the_operator_asks_for_it(
    tmp_path: Path,
) -> None:
    async with playing(tmp_path, script(says("Mine.")), on_unknown="synthesis") as stage:
        unknown = await stage.ask(said=("What?",), stream=False)
        known = await stage.ask()

    assert unknown.turn.text.startswith("lorem ipsum")
    assert unknown.turn.text.endswith(" What?")
    assert known.turn.text == "Mine."
    assert stage.journal.unsuccessful == []


@pytest.mark.shows("000-28")
async def test_every_id_is_listed(tmp_path: Path) -> None:
    path = write(tmp_path, *(script(says(), name=item) for item in ("one", "two words", "three")))

    listed = await run("scenario", "ls", "--json", str(path), folder=tmp_path)

    assert listed.code == 0, listed.err
    assert [scenario["id"] for scenario in json.loads(listed.out)["scenarios"]] == [
        "one",
        "two words",
        "three",
    ]


def test_among_very_many_ids_the_nearest_are_those_that_begin_alike() -> None:
    one = scripted(script(says()))
    ids = [f"{prefix}-{number}" for prefix in ("alpha", "refund") for number in range(2000)]
    many = ScenarioSet(
        tuple(replace(one, scenario=msgspec_replace(one.scenario, id=item)) for item in ids)
    )

    assert many.nearest_ids("refund-17x")[0] == "refund-17"
