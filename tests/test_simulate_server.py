"""A server that simulates: what it says of itself in journal, log and pages, and where it stops."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any, Final

import pytest

from llm_proxy.pacing import InstantPace
from llm_proxy.routing import SCENARIO_HEADER
from llm_proxy.turns import ToolCall
from raw_http import ask, line, post
from scenario_server import (
    DIALECTS,
    answering,
    calls,
    error_turn,
    in_every_dialect,
    in_every_form,
    playing,
    reported,
    says,
    script,
    turn_of,
)
from scenario_server import cue as on
from scenario_server import directed as direction
from stored_cassettes import chat, put
from stored_cassettes import says as told
from stub_upstream import chunked, upstream
from waiting import until

# Error turns


@pytest.mark.shows("000-96", "000-97", "000-98", "000-33")
@in_every_dialect
@in_every_form
async def test_a_check_that_fails_is_answered_by_a_report_in_the_form_that_was_asked(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    document = script(says(), systemPromptMustInclude=["Be brief."])
    async with playing(tmp_path, document) as stage:
        heard = await stage.ask(dialect, stream=stream)

    kind = heard.raw.header("content-type") or ""
    streams = "application/x-ndjson" if dialect == "ollama" else "text/event-stream"
    assert (heard.raw.status, heard.raw.how) == (200, "clean")
    assert kind.startswith(streams if stream else "application/json")
    assert reported(heard.turn) == error_turn("System prompt missing: Be brief.")


@pytest.mark.shows("000-96")
def test_an_error_turn_has_the_id_of_a_final_report() -> None:
    turn = turn_of(direction(script(says(expectedTemperature=1)), on("refund")))

    assert turn.parts[-1] == ToolCall(
        "agent-final-report",
        "agent__final_report",
        '{"status":"failure","report_format":"markdown","report_content":"# Test Harness Error'
        "\\n\\nExpected temperature 1 but received undefined (the request does not send it; some "
        'SDKs and models never do)"}',
    )


@pytest.mark.shows("000-98")
async def test_error_turns_and_fallback_steps_mark_the_session_unsuccessful(
    tmp_path: Path,
) -> None:
    document = script(says(failuresBeforeSuccess=1))
    async with playing(tmp_path, document) as stage:
        for session in ("a", "a", "b"):
            await stage.ask(session=session)
        before = await stage.page("unsuccessful")
        await stage.ask(session="b", said=("refund", "x", "y"))
        await stage.ask(session="a", said=())
        after = await stage.page("unsuccessful")

    assert before == {"unsuccessful": []}
    assert after == {
        "unsuccessful": [
            {"session": "b", "why": "Scenario refund has no turn 2; its turns: 1."},
            {"session": "a", "why": "The request has no user text to name a scenario."},
        ]
    }
    assert stage.journal.counts.unsuccessful == 2


# Log and journal


WARNED: Final[dict[str, dict[str, Any]]] = {
    "Scenario not found: refunds": {"said": ("refunds",)},
    "System prompt missing: Be brief.": {"system": ""},
    "Expected tools not available: lookup": {"tools": ()},
    "Expected temperature 0.5 but received 0.25": {"temperature": 0.25},
    "Expected topP 0.9 but received 0.25": {"top_p": 0.25},
    "Expected reasoning to remain enabled": {"reasons": False},
}
RIGHT: Final[dict[str, Any]] = {
    "system": "Be brief.",
    "tools": ("lookup",),
    "temperature": 0.5,
    "top_p": 0.9,
    "reasons": True,
}


@pytest.mark.shows("000-99")
async def test_a_warning_is_logged_for_each_check_that_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checks = {
        "expectedTools": ["lookup"],
        "expectedTemperature": 0.5,
        "expectedTopP": 0.9,
        "expectedReasoning": "enabled",
    }
    document = script(says(**checks), systemPromptMustInclude=["Be brief."])
    async with playing(tmp_path, document) as stage:
        await stage.ask(**RIGHT)
        for about in WARNED.values():
            await stage.ask(**RIGHT | about)

    logged = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(logged) == len(WARNED)
    for message, warning in zip(logged, WARNED, strict=True):
        assert message.startswith(f"POST /v1/chat/completions: {warning}")


@pytest.mark.shows("000-100", "000-101", "000-102")
async def test_the_journal_tells_latency_finish_calls_chunks_and_metadata_of_a_turn(
    tmp_path: Path,
) -> None:
    metadata = {"openai": {"service_tier": "flex"}}
    document = script(calls("a", "b"), answering("text", assistantText="x")["turns"][0])
    document["turns"][1] |= {"turn": 2}
    document["turns"][0]["response"]["providerMetadata"] = metadata
    async with playing(tmp_path, document) as stage:
        streamed = await stage.ask("anthropic")
        await stage.ask(said=("refund", "x", "y"), stream=False)
        first, second = (await stage.page("journal"))["entries"]

    assert first["ms"] > 0
    assert (first["ending"], first["status"]) == ("sent", 200)
    assert first["bytes"] == len(streamed.raw.body)
    assert first["simulated"] == {
        "source": "test-llm: refund, turn 1",
        "finish": "tool_calls",
        "tool_calls": ["a", "b"],
        "chunks": len(streamed.events),
        "failure": "",
        "unsuccessful": "",
        "notes": [],
        "metadata": metadata,
    }
    assert (second["simulated"]["finish"], second["simulated"]["chunks"]) == ("stop", 1)


@pytest.mark.shows("001-41")
async def test_each_answer_is_one_line_of_the_log_with_what_it_follows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "llm_proxy")
    block = '<|instruction_start|>{"messages":[{"text_message":{"length":1}}]}<|instruction_end|>'
    async with playing(tmp_path) as stage:
        for said in ("Hi", "Hi\nReason: x", block):
            await stage.ask("anthropic", said=(said,), stream=False)

    assert [message for message in caplog.messages if message.startswith("POST")] == [
        f"POST /v1/messages: synthesis: {mode}" for mode in ("text", "reasoning", "instruction")
    ]


@pytest.mark.shows("001-36", "001-41")
async def test_an_instruction_that_cannot_be_followed_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with playing(tmp_path) as stage:
        await stage.ask(said=("<|instruction_start|>{<|instruction_end|>",), stream=False)

    [warning] = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert "The instruction in the user's message cannot be followed" in warning
    assert stage.journal.unsuccessful == []


# Our own pages


@pytest.mark.parametrize(
    "body", [b'{"scenario":null}', b'{"scenario":7}', b"{}", b"[]", b"{", b""], ids=str
)
async def test_choosing_a_scenario_takes_its_id(tmp_path: Path, body: bytes) -> None:
    async with playing(tmp_path, script(says())) as stage:
        request = post("/_proxy/sessions/s/scenario", body, method="PUT")
        raw = await ask(stage.url, request)

    assert raw.status == 400
    assert json.loads(raw.body) == {
        "error": 'name a scenario: {"scenario": "ID"}; "" takes the choice back'
    }


@pytest.mark.parametrize("name", ["a%20b", "-a", "%C3%A9", "x" * 101])
async def test_a_scenario_is_chosen_for_a_session_that_there_can_be(
    tmp_path: Path, name: str
) -> None:
    async with playing(tmp_path, script(says())) as stage:
        request = post(f"/_proxy/sessions/{name}/scenario", b'{"scenario":"refund"}', method="PUT")
        raw = await ask(stage.url, request)

    assert raw.status == 400
    assert "' is no session name: use letters, digits" in json.loads(raw.body)["error"]


@pytest.mark.parametrize(
    ("method", "body"),
    [("PUT", b'{"scenario": ""}'), ("PUT", b'{"scenario":" "}'), ("DELETE", b"")],
)
async def test_a_choice_can_be_taken_back(tmp_path: Path, method: str, body: bytes) -> None:
    documents = [script(says(f"{item}."), name=item) for item in "ab"]
    async with playing(tmp_path, *documents) as stage:
        chosen = await stage.page("sessions/default/scenario", b'{"scenario":"a"}', method="PUT")
        first = await stage.ask(said=("b",))
        back = await stage.page("sessions/default/scenario", body, method=method)
        second = await stage.ask(said=("b",))

    assert chosen == {"session": "default", "scenario": "a"}
    assert back == {"session": "default", "scenario": ""}
    assert [item.turn.text for item in (first, second)] == ["a.", "b."]


async def test_where_no_scenario_is_played_none_can_be_chosen(tmp_path: Path) -> None:
    async with playing(tmp_path, mode="replay") as stage:
        request = post("/_proxy/sessions/s/scenario", b'{"scenario":"a"}', method="PUT")
        raw = await ask(stage.url, request)

    assert raw.status == 409
    assert json.loads(raw.body)["error"] == "replay plays no scenarios; start llm-proxy simulate"


@pytest.mark.shows("000-27")
async def test_a_chosen_scenario_that_there_is_not_is_told_where_it_is_asked_for(
    tmp_path: Path,
) -> None:
    async with playing(tmp_path, script(says())) as stage:
        page = "sessions/default/scenario"
        chosen = await stage.page(page, b'{"scenario":"refnd"}', method="PUT")
        heard = await stage.ask()

    assert chosen == {
        "session": "default",
        "scenario": "refnd",
        "warning": "no scenario refnd is loaded now; it is chosen all the same, and answers once "
        "it is there: llm-proxy scenario ls lists all ids",
    }
    assert "Scenario not found: refnd. The nearest: refund." in stage.last.unsuccessful
    assert heard.raw.status == 200


async def test_a_header_wins_over_what_was_chosen_for_the_session(tmp_path: Path) -> None:
    documents = [script(says(f"{item}."), name=item) for item in "ab"]
    async with playing(tmp_path, *documents) as stage:
        await stage.page("sessions/default/scenario", b'{"scenario":"a"}', method="PUT")
        heard = await stage.ask(said=("Hi",), header=f"{SCENARIO_HEADER}: b")

    assert heard.turn.text == "b."


# Synthesis over HTTP


@pytest.mark.shows("001-10", "001-12", "001-13", "001-16", "001-44")
@in_every_dialect
@in_every_form
async def test_without_scenarios_every_dialect_answers_with_lorem_and_an_echo(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    said = ("First.", "Yes?", "Tell me more.")
    async with playing(tmp_path, pace=InstantPace()) as stage:
        heard = await stage.ask(dialect, said=said, stream=stream)

    assert heard.turn.text.startswith("lorem ipsum dolor sit amet ")
    assert heard.turn.text.endswith(" Tell me more.")


@pytest.mark.shows("001-11")
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/nowhere"), ("GET", "/v1/chat/completions"), ("POST", "/v1/files")],
)
async def test_a_path_that_nothing_is_simulated_for_is_told_the_known_ones(
    tmp_path: Path, method: str, path: str
) -> None:
    async with upstream(chunked([b"from the provider"])) as live:
        async with playing(tmp_path, upstream=live.url) as stage:
            raw = await ask(stage.url, post(path, b"{}", method=method))

    document = json.dumps(json.loads(raw.body))
    assert raw.status == 404
    assert f"nothing is simulated for {method} {path}" in document
    assert all(item in document for item in ("/v1/chat/completions", "/v1/messages", "/api/chat"))
    assert live.requests == []


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b""], ids=str)
async def test_a_body_that_asks_for_nothing_is_a_bad_request(tmp_path: Path, body: bytes) -> None:
    async with playing(tmp_path) as stage:
        raw = await ask(stage.url, post("/v1/chat/completions", body))

    why = "POST /v1/chat/completions asks for no turn: its body is no JSON that says what"
    assert (raw.status, json.loads(raw.body)["error"]["message"]) == (400, why)


@pytest.mark.shows("001-12")
async def test_a_model_stands_in_where_none_is_named(tmp_path: Path) -> None:
    async with playing(tmp_path) as stage:
        heard = await stage.ask(more={"model": None}, stream=False)

    assert heard.json["model"] == "synthesis"


@pytest.mark.shows("001-03")
async def test_a_cassette_is_never_played(tmp_path: Path) -> None:
    put(tmp_path, chat("refund"), told("recorded"))
    async with playing(tmp_path, script(says("Scripted."))) as stage:
        raw = await ask(stage.url, chat("refund"))

    assert b"Scripted." in raw.body
    assert b"recorded" not in raw.body


@pytest.mark.shows("001-42")
async def test_a_stream_is_written_to_its_end_unless_the_client_leaves(tmp_path: Path) -> None:
    request = chat("Grüße 🌊").replace(b"\r\n", b"\r\nHost: HOST\r\n", 1)
    async with playing(tmp_path, pace=InstantPace()) as stage:
        await ask(stage.url, chat("Grüße 🌊"))
        [whole] = stage.entries
    async with playing(tmp_path) as stage:
        async with line(stage.url) as client:
            await client.send(request)
            await client.reader.readuntil(b"ipsum")
        await until(lambda: stage.entries[0].ending == "client_gone")
        [left] = stage.entries

    assert whole.ending == "sent"
    assert left.bytes < whole.bytes / 2


@pytest.mark.shows("001-43")
async def test_calls_in_free_text_are_but_text(tmp_path: Path) -> None:
    said = 'Please: {"tool_call": [{"name": "a", "args": {}}]} tool_calls a()'
    async with playing(tmp_path) as stage:
        heard = await stage.ask(said=(said,), stream=False)

    assert heard.turn.text.endswith(said)
    assert stage.last.tool_calls == ()


# Beside cassettes


@pytest.mark.shows("001-08")
@pytest.mark.parametrize("mode", ["replay", "auto"])
async def test_what_no_cassette_answers_a_scenario_does(tmp_path: Path, mode: Any) -> None:
    put(tmp_path, chat("recorded"), told("hello"))
    async with upstream(chunked([b"from the provider"])) as live:
        async with playing(
            tmp_path, script(says("Scripted.")), mode=mode, on_miss="scenario", upstream=live.url
        ) as stage:
            recorded, scripted = [
                await ask(stage.url, chat(item)) for item in ("recorded", "refund")
            ]
            reset = await stage.page("sessions/default/reset", method="POST")

    assert b"hello" in recorded.body
    assert b"Scripted." in scripted.body
    assert (stage.journal.counts.replayed, stage.journal.counts.simulated) == (1, 1)
    assert stage.journal.counts.missed == 0
    assert live.requests == []
    assert reset == {"session": "default", "reset": True}


@pytest.mark.parametrize("mode", ["replay", "auto"])
async def test_what_no_scenario_could_answer_either_is_a_miss(tmp_path: Path, mode: Any) -> None:
    about: dict[str, Any] = {"mode": mode, "on_miss": "scenario"}
    async with playing(tmp_path, script(says()), **about) as stage:
        raw = await ask(stage.url, post("/v1/files", b"{}"))

    assert (raw.status, raw.header("x-llm-proxy-error")) == (424, "cassette_not_found")
    assert stage.journal.counts.missed == 1


@pytest.mark.parametrize("mode", ["replay", "auto"])
async def test_resetting_begins_scenarios_anew_too(tmp_path: Path, mode: Any) -> None:
    document = script(says(failuresBeforeSuccess=1))
    about: dict[str, Any] = {"mode": mode, "on_miss": "scenario"}
    async with playing(tmp_path, document, **about) as stage:
        before = [(await stage.ask()).raw.status for _ in range(2)]
        await stage.page("sessions/default/reset", method="POST")
        after = [(await stage.ask()).raw.status for _ in range(2)]

    assert before == after == [500, 200]


# Files that change


async def test_a_broken_edit_leaves_what_was_good(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with playing(tmp_path, script(says("Good."))) as stage:
        await stage.ask()
        (tmp_path / "scenarios.json").write_text('[{"id": "refund"}]')

        async def told_so() -> None:
            while "what was good before stays" not in caplog.text:
                assert (await stage.ask()).turn.text == "Good."
                await asyncio.sleep(0.02)

        async with asyncio.timeout(10):
            await told_so()
        assert (await stage.ask()).turn.text == "Good."

    assert "turns is missing" in caplog.text


async def test_dialects_share_a_session_and_its_scenario(tmp_path: Path) -> None:
    async with playing(tmp_path, script(says("Chosen."))) as stage:
        await stage.page("sessions/s/scenario", b'{"scenario":"refund"}', method="PUT")
        heard = [
            (await stage.ask(dialect, said=("x",), session="s")).turn.text for dialect in DIALECTS
        ]

    assert heard == ["Chosen."] * len(DIALECTS)


# Counts


async def test_what_should_have_been_simulated_and_could_not_be_is_counted_with_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing.py").write_text("def respond(cue):\n    raise KeyError('x')\n")
    monkeypatch.syspath_prepend(tmp_path)
    counts = []
    abouts: list[dict[str, Any]] = [{"mock": "{replies: [One.]}"}, {"respond": "failing:respond"}]
    for about in abouts:
        async with playing(tmp_path, **about) as stage:
            statuses = [(await stage.ask()).raw.status for _ in range(2)]
            it = stage.journal.counts
            counts.append((statuses, it.requests, it.simulated, it.unsuccessful))

    assert counts == [([200, 424], 2, 2, 1), ([500, 500], 2, 2, 2)]
