"""Scripted failures before success: how often, per which key, and as which error."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from case_tables import each_row
from cli_process import run_command
from llm_proxy.pacing import InstantPace
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.scripted_response import DEFAULT_FAILURE_MESSAGE, FailResponse
from llm_proxy.take_numbers import RequestCounter
from scenario_server import (
    DIALECTS,
    in_every_dialect,
    in_every_form,
    make_match_context,
    parse_scenario,
    respond_to,
    scenario_document,
    serve_scenarios,
    text_turn,
    write_scenarios,
)
from waiting import wait_until


def failing_scenario(times: int = 1, **fields: Any) -> dict[str, Any]:
    """Return a scenario whose only turn fails `times` times before it succeeds."""
    return scenario_document(text_turn("At last.", failuresBeforeSuccess=times, **fields))


def scripted_failure(**fields: Any) -> FailResponse:
    """Return the failure that these fields script."""
    action = respond_to(failing_scenario(**fields), make_match_context("refund")).scripted_action
    assert isinstance(action, FailResponse)
    return action


# Counting


@pytest.mark.shows("000-53", "000-54", "000-55", "000-15")
@each_row("times", [0, 1, 3])
async def test_a_turn_fails_so_often_and_then_succeeds(tmp_path: Path, times: int) -> None:
    async with serve_scenarios(tmp_path, failing_scenario(times)) as server:
        statuses = [(await server.send()).raw_response.status for _ in range(times + 3)]

    assert statuses == [500] * times + [200] * 3


@pytest.mark.shows("000-53")
async def test_without_a_number_nothing_fails(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, scenario_document(text_turn())) as server:
        assert (await server.send()).raw_response.status == 200


@pytest.mark.shows("000-55")
async def test_requests_at_once_never_share_an_attempt(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, failing_scenario(7)) as server:
        responses = await asyncio.gather(
            *(server.send(stream=bool(number % 2)) for number in range(20))
        )

    assert sorted(item.raw_response.status for item in responses) == [200] * 13 + [500] * 7
    notes = [note for entry in server.entries if entry.simulated for note in entry.simulated.notes]
    assert sorted(notes) == [
        f"failure {number} of 7: model_error, Simulated failure" for number in range(1, 8)
    ]


@pytest.mark.shows("000-56")
async def test_a_file_that_changes_leaves_the_count_as_it_is(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, failing_scenario(2)) as server:
        before = [await server.send(session=item) for item in ("a", "a", "a", "b")]
        write_scenarios(
            tmp_path, scenario_document(text_turn("Changed, and longer.", failuresBeforeSuccess=2))
        )
        seen: list[str] = []

        async def poll_until_changed() -> None:
            while "Changed, and longer." not in seen:
                seen.append((await server.send(session="a")).turn.text)
                await asyncio.sleep(0.02)

        async with asyncio.timeout(10):
            await poll_until_changed()
        after = [await server.send(session="b") for _ in range(2)]

    assert [item.raw_response.status for item in before] == [500, 500, 200, 500]
    assert set(seen) <= {"At last.", "Changed, and longer."}
    assert [item.raw_response.status for item in after] == [500, 200]


@pytest.mark.shows("000-56")
async def test_a_session_that_is_reset_fails_anew_and_no_other(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, failing_scenario(1)) as server:
        for session in ("a", "b"):
            for _ in range(2):
                await server.send(session=session)
        await server.request_proxy_page("sessions/a/reset", method="POST")
        statuses = [
            (await server.send(session=item)).raw_response.status for item in ("a", "a", "b")
        ]

    assert statuses == [500, 200, 200]


@pytest.mark.shows("000-56", "001-09")
async def test_a_start_begins_with_no_counts_no_sessions_and_no_journal(tmp_path: Path) -> None:
    results = []
    for _ in range(2):
        async with serve_scenarios(tmp_path, failing_scenario(1)) as server:
            results.append((await server.request_proxy_page("journal"))["requests"])
            await server.request_proxy_page(
                "sessions/default/scenario", b'{"scenario":"x"}', method="PUT"
            )
            await server.request_proxy_page("sessions/default/reset", method="POST")
            results += [(await server.send()).raw_response.status for _ in range(2)]

    assert results == [0, 500, 200] * 2


@pytest.mark.shows("000-52", "000-57")
async def test_each_scenario_turn_provider_and_session_has_a_count_of_its_own(
    tmp_path: Path,
) -> None:
    turns = [text_turn(failuresBeforeSuccess=1), text_turn(failuresBeforeSuccess=1)]
    requests: list[dict[str, Any]] = [
        {},
        {"texts": ("other",)},
        {"texts": ("refund", "x", "y")},
        {"dialect": "anthropic"},
        {"dialect": "gemini"},
        {"dialect": "ollama"},
        {"session": "s"},
    ]
    async with serve_scenarios(
        tmp_path, scenario_document(*turns), scenario_document(*turns, name="other")
    ) as server:
        first = [(await server.send(**item)).raw_response.status for item in requests]
        second = [(await server.send(**item)).raw_response.status for item in requests]

    assert (first, second) == ([500] * len(requests), [200] * len(requests))


@pytest.mark.shows("000-52")
async def test_dialects_of_one_provider_share_a_count_and_models_too(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, failing_scenario(2)) as server:
        responses = [
            await server.send("openai-chat"),
            await server.send("openai-responses"),
            await server.send("openai-chat", more={"model": "another"}),
        ]

    assert [item.raw_response.status for item in responses] == [500, 500, 200]


@pytest.mark.shows("000-52")
def test_the_key_is_session_scenario_turn_and_provider() -> None:
    counter = RequestCounter()
    contexts = (
        ("s", "a", 1, "openai"), ("s", "a", 1, "openai"), ("s", "a", 1, "ollama"),
        ("s", "a", 2, "openai"), ("s", "b", 1, "openai"), ("t", "a", 1, "openai"),
    )  # fmt: skip
    failures = []
    for session, scenario, turn, provider in contexts:
        document = failing_scenario(1) | {"id": scenario}
        document["turns"][0]["turn"] = turn
        texts = ("Hi", "x", "Hi")[: 2 * turn - 1]
        context = replace(make_match_context(*texts, session=session), provider=provider)
        response = respond_to(document, context, counter)
        failures.append(isinstance(response.scripted_action, FailResponse))

    assert failures == [True, False, True, True, True, True]


# Kinds of failure


STATUSES: Final[dict[str, tuple[dict[str, Any], int]]] = {
    "thrown": ({"failureThrows": True}, 500),
    "model_error": ({"failureStatus": "model_error"}, 500),
    "model_error, not again": ({"failureStatus": "model_error", "failureRetryable": False}, 400),
    "rate_limit": ({"failureStatus": "rate_limit", "failureRetryAfterMs": 1500}, 429),
    "an error of one's own": ({"failureError": {"statusCode": 503}}, 503),
}


@pytest.mark.shows("000-17", "000-18", "000-58", "000-62", "000-63", "000-103")
@in_every_dialect
async def test_failures_with_a_status_carry_the_message_in_every_dialect(
    tmp_path: Path, dialect: str
) -> None:
    documents = [
        failing_scenario(2, failureMessage="no luck", **fields) | {"id": name}
        for name, (fields, _) in STATUSES.items()
    ]
    async with serve_scenarios(tmp_path, *documents) as server:
        responses = {
            name: [
                await server.send(dialect, texts=(name,), stream=item)
                for item in (True, False, True)
            ]
            for name in STATUSES
        }

    for name, (_, status) in STATUSES.items():
        first, second, last = responses[name]
        assert (
            first.raw_response.status,
            second.raw_response.status,
            last.raw_response.status,
        ) == (status, status, 200)
        for failed in (first, second):
            assert failed.turn.failure is not None
            assert failed.turn.failure.message == "no luck"
        should_retry = "false" if name.endswith("not again") else None
        assert first.raw_response.header("x-should-retry") == should_retry
    rate_limited = responses["rate_limit"][0].raw_response
    assert (rate_limited.header("retry-after-ms"), rate_limited.header("retry-after")) == (
        "1500",
        "2",
    )


@pytest.mark.shows("000-60")
@in_every_dialect
@in_every_form
async def test_an_invalid_response_is_success_with_broken_json(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    async with serve_scenarios(
        tmp_path, failing_scenario(failureStatus="invalid_response")
    ) as server:
        response = await server.send(dialect, stream=stream)

    raw = response.raw_response
    stream_types = {"ollama": "application/x-ndjson"} if stream else {}
    content_type = stream_types.get(dialect, "text/event-stream" if stream else "application/json")
    assert (raw.status, raw.ending) == (200, "clean")
    assert (raw.header("content-type") or "").startswith(content_type)
    with pytest.raises(json.JSONDecodeError):
        assert response.events if stream else response.json


@pytest.mark.shows("000-61")
@in_every_form
@each_row("retryable", [True, False])
async def test_a_network_error_is_a_reset(tmp_path: Path, stream: bool, retryable: bool) -> None:
    fields: dict[str, Any] = {"failureStatus": "network_error", "failureRetryable": retryable}
    async with serve_scenarios(
        tmp_path, failing_scenario(failureMessage="gone", **fields)
    ) as server:
        responses = [await server.send(dialect, stream=stream) for dialect in DIALECTS]

    for raw in (
        item.raw_response for item in responses[:1] + responses[2:]
    ):  # [1] shares the count of [0]
        if retryable:
            assert (raw.status, raw.ending, raw.body) == (0, "rst", b"")
        elif stream:
            assert (raw.status, raw.ending, len(raw.chunks)) == (200, "rst", 1)
        else:
            assert (raw.status, raw.header("x-should-retry")) == (502, "false")
            assert b"gone" in raw.body


@pytest.mark.shows("000-59")
async def test_a_timeout_is_silence_up_to_a_limit_at_any_pace(tmp_path: Path) -> None:
    document = failing_scenario(failureStatus="timeout")
    async with serve_scenarios(tmp_path, document, silence=0.08, pace=InstantPace()) as server:
        started = asyncio.get_running_loop().time()
        response = await server.send()
        elapsed_s = asyncio.get_running_loop().time() - started
        next_response = await server.send()

    assert (
        response.raw_response.status,
        response.raw_response.headers,
        response.raw_response.ending,
    ) == (0, [], "fin")
    assert elapsed_s >= 0.079
    assert next_response.turn.text == "At last."


@pytest.mark.shows("000-59")
async def test_a_client_that_gives_up_on_a_timeout_has_used_an_attempt(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, failing_scenario(failureStatus="timeout")) as server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await server.send()
        await wait_until(lambda: server.entries[0].ending == "client_gone")
        next_response = await server.send()

    assert next_response.turn.text == "At last."


@pytest.mark.shows("000-59", "000-60", "000-61", "000-101")
@each_row("status", ["timeout", "invalid_response", "network_error"])
async def test_a_message_that_no_body_carries_stands_in_log_and_journal(
    tmp_path: Path, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "llm_proxy")
    document = failing_scenario(2, failureStatus=status, failureMessage="no luck")
    async with serve_scenarios(tmp_path, document, silence=0.01) as server:
        await server.send()
        [entry] = (await server.request_proxy_page("journal"))["entries"]

    note = f"failure 1 of 2: {status}, no luck"
    assert (entry["simulated"]["failure"], entry["simulated"]["notes"]) == (status, [note])
    assert f"POST /v1/chat/completions: test-llm: refund, turn 1; {note}" in caplog.messages


@pytest.mark.shows("000-16", "000-58")
@each_row("status", ["", "timeout", "rate_limit", "nonsense"])
def test_what_is_thrown_is_thrown_whatever_its_status(status: str) -> None:
    assert scripted_failure(failureThrows=True, failureStatus=status) == FailResponse(
        "thrown", DEFAULT_FAILURE_MESSAGE
    )
    assert scripted_failure(failureThrows=True, failureMessage="mine") == FailResponse(
        "thrown", "mine"
    )


@pytest.mark.shows("000-63", "000-65", "000-18")
def test_a_failure_is_a_model_error_unless_it_says_what() -> None:
    assert scripted_failure() == FailResponse("model_error", "Simulated failure")


@pytest.mark.shows("000-19")
def test_a_failure_may_be_tried_again_unless_it_says_otherwise() -> None:
    assert scripted_failure(failureStatus="network_error").retryable
    assert scripted_failure(failureRetryable=True).retryable
    assert not scripted_failure(failureRetryable=False).retryable


@pytest.mark.shows("000-20", "000-62")
def test_retry_after_is_given_in_ms() -> None:
    assert scripted_failure(failureStatus="rate_limit").retry_after_ms is None
    assert scripted_failure(failureStatus="rate_limit", failureRetryAfterMs=20).retry_after_ms == 20


@pytest.mark.shows("000-21")
def test_the_error_object_of_the_scenario_is_kept() -> None:
    error = {"message": "mine", "type": "t", "statusCode": 503, "camelCase": [1]}

    assert scripted_failure(failureError=error).error_fields == error
    assert scripted_failure().error_fields is None


@pytest.mark.shows("000-64")
def test_an_unknown_status_is_played_as_a_model_error() -> None:
    assert scripted_failure(failureStatus="rate_limited", failureMessage="x") == FailResponse(
        "model_error", "x"
    )


@pytest.mark.shows("000-64")
async def test_loading_warns_of_such_a_status_and_lint_calls_it_an_error(tmp_path: Path) -> None:
    path = write_scenarios(tmp_path, failing_scenario(failureStatus="rate_limted"))
    loaded = loading.parse_scenario_file(path.name, path.read_bytes())
    linted = await run_command("scenario", "lint", str(path), folder=tmp_path)

    assert [scenario.value.id for scenario in loaded.scenarios] == ["refund"]
    assert loaded.mistakes == ()
    [warning] = loaded.warnings
    assert "treated as model_error" in str(warning)
    assert "did you mean 'rate_limit'?" in str(warning)
    assert linted.exit_code == 1
    assert "did you mean 'rate_limit'?" in linted.stdout


@pytest.mark.shows("000-08 to 000-21")
def test_a_turn_needs_but_its_number_and_its_response() -> None:
    [step] = parse_scenario(scenario_document(text_turn())).turns

    assert (step.turn, step.expected_tools, step.allow_missing_tools) == (1, (), False)
    assert (step.expected_temperature, step.expected_top_p, step.expected_reasoning) == (None,) * 3
    assert (step.failures_before_success, step.failure_throws, step.failure_status) == (
        0,
        False,
        "",
    )
    assert (step.failure_message, step.failure_retryable, step.failure_error) == ("", True, {})
    assert step.failure_retry_after_ms is None
