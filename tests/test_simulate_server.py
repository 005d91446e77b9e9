"""A simulating server: its journal, log and pages, and its limits."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from pathlib import Path
from typing import Any, Final

import pytest

from case_tables import each_row
from in_process_proxy import proxy
from llm_proxy.pacing import InstantPace
from llm_proxy.routing import SCENARIO_HEADER, RoutedRequest
from llm_proxy.shell.server import intake
from llm_proxy.turns import ToolCall
from raw_http import build_http_request, open_line, send_request
from scenario_server import (
    DIALECTS,
    in_every_dialect,
    in_every_form,
    scenario_document,
    serve_scenarios,
    single_turn_scenario,
    text_turn,
    tool_call_turn,
    turn_of_response,
)
from scenario_server import make_match_context as make_context
from scenario_server import respond_to as script_response
from stored_cassettes import raw_chat_request, write_cassettes
from stored_cassettes import text_response as chat_answer
from stub_upstream import chunked, upstream
from waiting import wait_until

# Mismatches


@pytest.mark.shows("000-96")
def test_the_report_of_a_failed_check_has_the_id_of_a_final_report() -> None:
    turn = turn_of_response(
        script_response(scenario_document(text_turn(expectedTemperature=1)), make_context("refund"))
    )

    assert turn.parts[-1] == ToolCall(
        "agent-final-report",
        "agent__final_report",
        '{"status":"failure","report_format":"markdown","report_content":"# Test Harness Error'
        "\\n\\nExpected temperature 1 but received undefined (the request does not set it; some "
        'SDKs never do)"}',
    )


@pytest.mark.shows("000-98")
async def test_failed_checks_and_missing_turns_mark_the_session_unsuccessful(
    tmp_path: Path,
) -> None:
    document = scenario_document(text_turn(failuresBeforeSuccess=1))
    async with serve_scenarios(tmp_path, document) as simulator:
        for session in ("a", "a", "b"):
            await simulator.send(session=session)
        before = await simulator.request_proxy_page("unsuccessful")
        await simulator.send(session="b", texts=("refund", "x", "y"))
        await simulator.send(session="a", texts=())
        after = await simulator.request_proxy_page("unsuccessful")

    assert before == {"unsuccessful": []}
    assert after == {
        "unsuccessful": [
            {"session": "b", "reason": "Scenario refund has no turn 2; its turns: 1."},
            {
                "session": "a",
                "reason": "No scenario was selected, because the request contains no user text.",
            },
        ]
    }
    assert simulator.journal.counts.unsuccessful == 2


# Log and journal


REQUESTS_BY_WARNING: Final[dict[str, dict[str, Any]]] = {
    "Scenario not found: refunds": {"texts": ("refunds",)},
    "System prompt missing: Be brief.": {"system": ""},
    "Expected tools not available: lookup": {"tools": ()},
    "Expected temperature 0.5 but received 0.25": {"temperature": 0.25},
    "Expected topP 0.9 but received 0.25": {"top_p": 0.25},
    "Expected reasoning to remain enabled": {"reasoning": False},
}
VALID_REQUEST: Final[dict[str, Any]] = {
    "system": "Be brief.",
    "tools": ("lookup",),
    "temperature": 0.5,
    "top_p": 0.9,
    "reasoning": True,
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
    document = scenario_document(text_turn(**checks), systemPromptMustInclude=["Be brief."])
    async with serve_scenarios(tmp_path, document) as simulator:
        await simulator.send(**VALID_REQUEST)
        for changes in REQUESTS_BY_WARNING.values():
            await simulator.send(**VALID_REQUEST | changes)

    logged = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(logged) == len(REQUESTS_BY_WARNING)
    for message, warning in zip(logged, REQUESTS_BY_WARNING, strict=True):
        assert message.startswith(f"POST /v1/chat/completions: {warning}")


@pytest.mark.shows("000-100", "000-101", "000-102")
async def test_the_journal_records_latency_finish_calls_chunks_and_metadata(
    tmp_path: Path,
) -> None:
    metadata = {"openai": {"service_tier": "flex"}}
    document = scenario_document(
        tool_call_turn("a", "b"), single_turn_scenario("text", assistantText="x")["turns"][0]
    )
    document["turns"][1] |= {"turn": 2}
    document["turns"][0]["response"]["providerMetadata"] = metadata
    async with serve_scenarios(tmp_path, document) as simulator:
        streamed = await simulator.send("anthropic")
        await simulator.send(texts=("refund", "x", "y"), stream=False)
        first, second = (await simulator.request_proxy_page("journal"))["entries"]

    assert first["ms"] > 0
    assert (first["ending"], first["status"]) == ("sent", 200)
    assert first["bytes"] == len(streamed.raw_response.body)
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
async def test_each_answer_is_one_line_of_the_log_with_its_source(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "llm_proxy")
    block = '<|instruction_start|>{"messages":[{"text_message":{"length":1}}]}<|instruction_end|>'
    async with serve_scenarios(tmp_path) as simulator:
        for prompt in ("Hi", "Hi\nReason: x", block):
            await simulator.send("anthropic", texts=(prompt,), stream=False)

    assert [message for message in caplog.messages if message.startswith("POST")] == [
        f"POST /v1/messages: synthesis: {mode}" for mode in ("text", "reasoning", "instruction")
    ]


@pytest.mark.shows("001-36", "001-41")
async def test_an_instruction_that_cannot_be_followed_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve_scenarios(tmp_path) as simulator:
        await simulator.send(texts=("<|instruction_start|>{<|instruction_end|>",), stream=False)

    [warning] = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert "ignored the instruction in the user message" in warning
    assert simulator.journal.failed_sessions == []


# Control pages


@each_row("body", [b'{"scenario":null}', b'{"scenario":7}', b"{}", b"[]", b"{", b""])
async def test_choosing_a_scenario_takes_its_id(tmp_path: Path, body: bytes) -> None:
    async with serve_scenarios(tmp_path, scenario_document(text_turn())) as simulator:
        request = build_http_request("/_proxy/sessions/s/scenario", body, method="PUT")
        raw = await send_request(simulator.url, request)

    assert raw.status == 400
    assert json.loads(raw.body) == {
        "error": 'expected JSON such as {"scenario": "ID"}; an empty ID removes the selection'
    }


@each_row("name", ["a%20b", "-a", "%C3%A9", "x" * 101])
async def test_a_scenario_is_chosen_only_for_a_valid_session_name(
    tmp_path: Path, name: str
) -> None:
    async with serve_scenarios(tmp_path, scenario_document(text_turn())) as simulator:
        request = build_http_request(
            f"/_proxy/sessions/{name}/scenario", b'{"scenario":"refund"}', method="PUT"
        )
        raw = await send_request(simulator.url, request)

    assert raw.status == 400
    assert (
        "' is not a valid session name: use at most 100 letters, digits"
        in json.loads(raw.body)["error"]
    )


@each_row(
    ("method", "body"),
    [("PUT", b'{"scenario": ""}'), ("PUT", b'{"scenario":" "}'), ("DELETE", b"")],
)
async def test_a_choice_can_be_taken_back(tmp_path: Path, method: str, body: bytes) -> None:
    documents = [scenario_document(text_turn(f"{item}."), name=item) for item in "ab"]
    async with serve_scenarios(tmp_path, *documents) as simulator:
        chosen = await simulator.request_proxy_page(
            "sessions/default/scenario", b'{"scenario":"a"}', method="PUT"
        )
        first = await simulator.send(texts=("b",))
        cleared = await simulator.request_proxy_page(
            "sessions/default/scenario", body, method=method
        )
        second = await simulator.send(texts=("b",))

    assert chosen == {"session": "default", "scenario": "a"}
    assert cleared == {"session": "default", "scenario": ""}
    assert [item.turn.text for item in (first, second)] == ["a.", "b."]


async def test_where_no_scenario_is_played_none_can_be_chosen(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, mode="replay") as simulator:
        request = build_http_request(
            "/_proxy/sessions/s/scenario", b'{"scenario":"a"}', method="PUT"
        )
        raw = await send_request(simulator.url, request)

    assert raw.status == 409
    assert (
        json.loads(raw.body)["error"]
        == "llm-proxy replay does not use scenarios; run llm-proxy simulate"
    )


@pytest.mark.shows("000-27")
async def test_an_unknown_chosen_scenario_is_reported_at_the_request(
    tmp_path: Path,
) -> None:
    async with serve_scenarios(tmp_path, scenario_document(text_turn())) as simulator:
        path = "sessions/default/scenario"
        chosen = await simulator.request_proxy_page(path, b'{"scenario":"refnd"}', method="PUT")
        response = await simulator.send()

    assert chosen == {
        "session": "default",
        "scenario": "refnd",
        "warning": "scenario refnd is not loaded; once it is loaded, the session will use it; "
        "did you mean refund?",
    }
    assert (
        "Scenario not found: refnd. Did you mean refund?" in simulator.last_simulated.unsuccessful
    )
    assert response.raw_response.status == 424


async def test_a_header_wins_over_what_was_chosen_for_the_session(tmp_path: Path) -> None:
    documents = [scenario_document(text_turn(f"{item}."), name=item) for item in "ab"]
    async with serve_scenarios(tmp_path, *documents) as simulator:
        await simulator.request_proxy_page(
            "sessions/default/scenario", b'{"scenario":"a"}', method="PUT"
        )
        response = await simulator.send(texts=("Hi",), header=f"{SCENARIO_HEADER}: b")

    assert response.turn.text == "b."


# Synthesis over HTTP


@pytest.mark.shows("001-10", "001-12", "001-13", "001-16", "001-44")
@in_every_dialect
@in_every_form
async def test_without_scenarios_every_dialect_answers_with_lorem_and_an_echo(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    messages = ("First.", "Yes?", "Tell me more.")
    async with serve_scenarios(tmp_path, pace=InstantPace()) as simulator:
        response = await simulator.send(dialect, texts=messages, stream=stream)

    assert response.turn.text.startswith("lorem ipsum dolor sit amet ")
    assert response.turn.text.endswith(" Tell me more.")


@pytest.mark.shows("001-11")
@each_row(
    ("method", "path"),
    [("POST", "/nowhere"), ("GET", "/v1/chat/completions"), ("POST", "/v1/files")],
)
async def test_an_unsimulated_path_is_answered_with_the_known_ones(
    tmp_path: Path, method: str, path: str
) -> None:
    async with upstream(chunked([b"from the provider"])) as live:
        async with serve_scenarios(tmp_path, upstream=live.url) as simulator:
            raw = await send_request(simulator.url, build_http_request(path, b"{}", method=method))

    document = json.dumps(json.loads(raw.body))
    assert raw.status == 404
    assert f"cannot simulate a response to {method} {path}" in document
    assert all(item in document for item in ("/v1/chat/completions", "/v1/messages", "/api/chat"))
    assert live.requests == []


@each_row("body", [b"{", b"[]", b"{}", b""])
async def test_a_body_without_a_prompt_is_a_bad_request(tmp_path: Path, body: bytes) -> None:
    async with serve_scenarios(tmp_path) as simulator:
        raw = await send_request(simulator.url, build_http_request("/v1/chat/completions", body))

    expected_message = (
        "POST /v1/chat/completions: the request body is not a JSON object with messages"
    )
    assert (raw.status, json.loads(raw.body)["error"]["message"]) == (400, expected_message)


async def test_a_large_request_is_journaled_whole_though_its_client_leaves_after_the_response(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_left_event, cached_key = threading.Event(), RoutedRequest.__dict__["key"]

    class LeavingClient(intake.ClientConnection):
        def connection_lost(self, exc: BaseException | None) -> None:
            super().connection_lost(exc)  # cancels the handler of its request
            client_left_event.set()

    monkeypatch.setattr(intake, "ClientConnection", LeavingClient)
    body = json.dumps({"model": "large", "messages": [], "padding": "x" * 2_000_000}).encode()
    async with proxy("simulate", tmp_path) as simulator:

        def key_that_outlasts_the_client(routed: RoutedRequest) -> Any:
            is_answered = simulator.journal.entries[-1].ending == "sent"
            if is_answered and threading.current_thread() is not threading.main_thread():
                assert client_left_event.wait(20)
            return cached_key.__get__(routed, RoutedRequest)

        monkeypatch.setattr(RoutedRequest, "key", property(key_that_outlasts_the_client))
        await send_request(simulator.url, build_http_request("/v1/chat/completions", body))
        await wait_until(client_left_event.is_set)
        await wait_until(lambda: simulator.server.active_request_count == 0)
        [entry] = simulator.journal.entries

    assert (entry.ending, entry.dialect, entry.model) == ("sent", "openai-chat", "large")
    assert len(entry.key) == 16


@pytest.mark.shows("001-12")
async def test_a_model_stands_in_where_none_is_named(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path) as simulator:
        response = await simulator.send(more={"model": None}, stream=False)

    assert response.json["model"] == "synthesis"


@pytest.mark.shows("001-03")
async def test_a_cassette_is_never_played(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request("refund"), chat_answer("recorded"))
    async with serve_scenarios(tmp_path, scenario_document(text_turn("Scripted."))) as simulator:
        raw = await send_request(simulator.url, raw_chat_request("refund"))

    assert b"Scripted." in raw.body
    assert b"recorded" not in raw.body


@pytest.mark.shows("001-42")
async def test_a_stream_is_written_to_its_end_unless_the_client_leaves(tmp_path: Path) -> None:
    request = raw_chat_request("Grüße 🌊").replace(b"\r\n", b"\r\nHost: HOST\r\n", 1)
    async with serve_scenarios(tmp_path, pace=InstantPace()) as simulator:
        await send_request(simulator.url, raw_chat_request("Grüße 🌊"))
        [completed] = simulator.entries
    async with serve_scenarios(tmp_path) as simulator:
        async with open_line(simulator.url) as client:
            await client.send(request)
            await client.reader.readuntil(b"ipsum")
        await wait_until(lambda: simulator.entries[0].ending == "client_gone")
        [aborted] = simulator.entries

    assert completed.ending == "sent"
    assert aborted.bytes < completed.bytes / 2


@pytest.mark.shows("001-43")
async def test_tool_calls_in_free_text_stay_text(tmp_path: Path) -> None:
    prompt = 'Please: {"tool_call": [{"name": "a", "args": {}}]} tool_calls a()'
    async with serve_scenarios(tmp_path) as simulator:
        response = await simulator.send(texts=(prompt,), stream=False)

    assert response.turn.text.endswith(prompt)
    assert simulator.last_simulated.tool_calls == ()


# With cassettes


@pytest.mark.shows("001-08")
@pytest.mark.parametrize("mode", ["replay", "auto"])
async def test_a_scenario_answers_what_no_cassette_answers(tmp_path: Path, mode: Any) -> None:
    write_cassettes(tmp_path, raw_chat_request("recorded"), chat_answer("hello"))
    async with upstream(chunked([b"from the provider"])) as live:
        async with serve_scenarios(
            tmp_path,
            scenario_document(text_turn("Scripted.")),
            mode=mode,
            on_miss="scenario",
            upstream=live.url,
        ) as simulator:
            recorded, scripted = [
                await send_request(simulator.url, raw_chat_request(item))
                for item in ("recorded", "refund")
            ]
            reset = await simulator.request_proxy_page("sessions/default/reset", method="POST")

    assert b"hello" in recorded.body
    assert b"Scripted." in scripted.body
    assert (simulator.journal.counts.replayed, simulator.journal.counts.simulated) == (1, 1)
    assert simulator.journal.counts.missed == 0
    assert live.requests == []
    assert reset == {"session": "default", "reset": True}


@pytest.mark.parametrize("mode", ["replay", "auto"])
async def test_a_request_that_no_scenario_could_answer_is_a_miss(tmp_path: Path, mode: Any) -> None:
    settings: dict[str, Any] = {"mode": mode, "on_miss": "scenario"}
    async with serve_scenarios(tmp_path, scenario_document(text_turn()), **settings) as simulator:
        raw = await send_request(simulator.url, build_http_request("/v1/files", b"{}"))

    assert (raw.status, raw.header("x-llm-proxy-error")) == (424, "cassette_not_found")
    assert simulator.journal.counts.missed == 1


@pytest.mark.parametrize("mode", ["replay", "auto"])
async def test_a_reset_restarts_scenarios_too(tmp_path: Path, mode: Any) -> None:
    document = scenario_document(text_turn(failuresBeforeSuccess=1))
    settings: dict[str, Any] = {"mode": mode, "on_miss": "scenario"}
    async with serve_scenarios(tmp_path, document, **settings) as simulator:
        before = [(await simulator.send()).raw_response.status for _ in range(2)]
        await simulator.request_proxy_page("sessions/default/reset", method="POST")
        after = [(await simulator.send()).raw_response.status for _ in range(2)]

    assert before == after == [500, 200]


# Files that change


async def test_a_broken_edit_keeps_the_last_valid_scenarios(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve_scenarios(tmp_path, scenario_document(text_turn("Good."))) as simulator:
        await simulator.send()
        (tmp_path / "scenarios.json").write_text('[{"id": "refund"}]')

        async def wait_for_the_warning() -> None:
            while "keeping the previous scenarios" not in caplog.text:
                assert (await simulator.send()).turn.text == "Good."
                await asyncio.sleep(0.02)

        async with asyncio.timeout(10):
            await wait_for_the_warning()
        assert (await simulator.send()).turn.text == "Good."

    assert "missing field 'turns'" in caplog.text


async def test_dialects_share_a_session_and_its_scenario(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, scenario_document(text_turn("Chosen."))) as simulator:
        await simulator.request_proxy_page(
            "sessions/s/scenario", b'{"scenario":"refund"}', method="PUT"
        )
        texts = [
            (await simulator.send(dialect, texts=("x",), session="s")).turn.text
            for dialect in DIALECTS
        ]

    assert texts == ["Chosen."] * len(DIALECTS)


# Counts


async def test_failed_simulations_are_counted_with_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing.py").write_text("def respond(cue):\n    raise KeyError('x')\n")
    monkeypatch.syspath_prepend(tmp_path)
    counts = []
    settings_list: list[dict[str, Any]] = [
        {"mock": "{replies: [One.]}"},
        {"respond": "failing:respond"},
    ]
    for settings in settings_list:
        async with serve_scenarios(tmp_path, **settings) as simulator:
            statuses = [(await simulator.send()).raw_response.status for _ in range(2)]
            totals = simulator.journal.counts
            counts.append((statuses, totals.requests, totals.simulated, totals.unsuccessful))

    assert counts == [([200, 424], 2, 2, 1), ([500, 500], 2, 2, 2)]
