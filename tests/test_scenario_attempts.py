"""A turn that fails first: how often, for whom, and as what."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any, Final

import pytest

from cli_process import run
from llm_proxy.pacing import InstantPace
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.engine.failure_counter import FailureCounter
from llm_proxy.scenario.scripted_response import SIMULATED, FailResponse
from scenario_server import (
    DIALECTS,
    cue,
    directed,
    in_every_dialect,
    in_every_form,
    playing,
    read,
    says,
    script,
    write,
)
from waiting import until


def failing(times: int = 1, **fields: Any) -> dict[str, Any]:
    """A scenario whose only turn fails so often."""
    return script(says("At last.", failuresBeforeSuccess=times, **fields))


def failure(**fields: Any) -> FailResponse:
    """The failure that these fields script."""
    what = directed(failing(**fields), cue("refund")).action
    assert isinstance(what, FailResponse)
    return what


# Counting


@pytest.mark.shows("000-53", "000-54", "000-55", "000-15")
@pytest.mark.parametrize("times", [0, 1, 3])
async def test_a_turn_fails_so_often_and_then_succeeds(tmp_path: Path, times: int) -> None:
    async with playing(tmp_path, failing(times)) as stage:
        heard = [(await stage.ask()).raw.status for _ in range(times + 3)]

    assert heard == [500] * times + [200] * 3


@pytest.mark.shows("000-53")
async def test_without_a_number_nothing_fails(tmp_path: Path) -> None:
    async with playing(tmp_path, script(says())) as stage:
        assert (await stage.ask()).raw.status == 200


@pytest.mark.shows("000-55")
async def test_requests_at_once_never_share_an_attempt(tmp_path: Path) -> None:
    async with playing(tmp_path, failing(7)) as stage:
        heard = await asyncio.gather(*(stage.ask(stream=bool(number % 2)) for number in range(20)))

    assert sorted(item.raw.status for item in heard) == [200] * 13 + [500] * 7
    notes = [note for entry in stage.entries if entry.simulated for note in entry.simulated.notes]
    assert sorted(notes) == [
        f"failure {number} of 7: model_error, Simulated failure" for number in range(1, 8)
    ]


@pytest.mark.shows("000-56")
async def test_a_file_that_changes_leaves_the_count_as_it_is(tmp_path: Path) -> None:
    async with playing(tmp_path, failing(2)) as stage:
        before = [await stage.ask(session=item) for item in ("a", "a", "a", "b")]
        write(tmp_path, script(says("Changed, and longer.", failuresBeforeSuccess=2)))
        seen: list[str] = []

        async def changed() -> None:
            while "Changed, and longer." not in seen:
                seen.append((await stage.ask(session="a")).turn.text)
                await asyncio.sleep(0.02)

        async with asyncio.timeout(10):
            await changed()
        after = [await stage.ask(session="b") for _ in range(2)]

    assert [item.raw.status for item in before] == [500, 500, 200, 500]
    assert set(seen) <= {"At last.", "Changed, and longer."}
    assert [item.raw.status for item in after] == [500, 200]


@pytest.mark.shows("000-56")
async def test_a_session_that_is_reset_fails_anew_and_no_other(tmp_path: Path) -> None:
    async with playing(tmp_path, failing(1)) as stage:
        for session in ("a", "b"):
            for _ in range(2):
                await stage.ask(session=session)
        await stage.page("sessions/a/reset", method="POST")
        heard = [(await stage.ask(session=item)).raw.status for item in ("a", "a", "b")]

    assert heard == [500, 200, 200]


@pytest.mark.shows("000-56", "001-09")
async def test_a_start_begins_with_no_counts_no_sessions_and_no_journal(tmp_path: Path) -> None:
    heard = []
    for _ in range(2):
        async with playing(tmp_path, failing(1)) as stage:
            heard.append((await stage.page("journal"))["requests"])
            await stage.page("sessions/default/scenario", b'{"scenario":"x"}', method="PUT")
            await stage.page("sessions/default/reset", method="POST")
            heard += [(await stage.ask()).raw.status for _ in range(2)]

    assert heard == [0, 500, 200] * 2


@pytest.mark.shows("000-52", "000-57")
async def test_each_scenario_turn_provider_and_session_has_a_count_of_its_own(
    tmp_path: Path,
) -> None:
    turns = [says(failuresBeforeSuccess=1), says(failuresBeforeSuccess=1)]
    asked: list[dict[str, Any]] = [
        {},
        {"said": ("other",)},
        {"said": ("refund", "x", "y")},
        {"dialect": "anthropic"},
        {"dialect": "gemini"},
        {"dialect": "ollama"},
        {"session": "s"},
    ]
    async with playing(tmp_path, script(*turns), script(*turns, name="other")) as stage:
        first = [(await stage.ask(**item)).raw.status for item in asked]
        then = [(await stage.ask(**item)).raw.status for item in asked]

    assert (first, then) == ([500] * len(asked), [200] * len(asked))


@pytest.mark.shows("000-52")
async def test_dialects_of_one_provider_share_a_count_and_models_too(tmp_path: Path) -> None:
    async with playing(tmp_path, failing(2)) as stage:
        heard = [
            await stage.ask("openai-chat"),
            await stage.ask("openai-responses"),
            await stage.ask("openai-chat", more={"model": "another"}),
        ]

    assert [item.raw.status for item in heard] == [500, 500, 200]


@pytest.mark.shows("000-52")
def test_the_key_is_session_scenario_turn_and_provider() -> None:
    attempts = FailureCounter()
    fails = [
        attempts.take_failure(*key, 1)
        for key in (
            ("s", "a", 1, "openai"), ("s", "a", 1, "openai"), ("s", "a", 1, "ollama"),
            ("s", "a", 2, "openai"), ("s", "b", 1, "openai"), ("t", "a", 1, "openai"),
        )
    ]  # fmt: skip

    assert fails == [1, None, 1, 1, 1, 1]


# As what


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
        failing(2, failureMessage="no luck", **fields) | {"id": name}
        for name, (fields, _) in STATUSES.items()
    ]
    async with playing(tmp_path, *documents) as stage:
        heard = {
            name: [
                await stage.ask(dialect, said=(name,), stream=item) for item in (True, False, True)
            ]
            for name in STATUSES
        }

    for name, (_, status) in STATUSES.items():
        first, second, last = heard[name]
        assert (first.raw.status, second.raw.status, last.raw.status) == (status, status, 200)
        for failed in (first, second):
            assert failed.turn.failure is not None
            assert failed.turn.failure.message == "no luck"
        again = "false" if name.endswith("not again") else None
        assert first.raw.header("x-should-retry") == again
    waits = heard["rate_limit"][0].raw
    assert (waits.header("retry-after-ms"), waits.header("retry-after")) == ("1500", "2")


@pytest.mark.shows("000-60")
@in_every_dialect
@in_every_form
async def test_an_invalid_response_is_success_with_broken_json(
    tmp_path: Path, dialect: str, stream: bool
) -> None:
    async with playing(tmp_path, failing(failureStatus="invalid_response")) as stage:
        heard = await stage.ask(dialect, stream=stream)

    raw = heard.raw
    kinds = {"ollama": "application/x-ndjson"} if stream else {}
    kind = kinds.get(dialect, "text/event-stream" if stream else "application/json")
    assert (raw.status, raw.how) == (200, "clean")
    assert (raw.header("content-type") or "").startswith(kind)
    with pytest.raises(json.JSONDecodeError):
        assert heard.events if stream else heard.json


@pytest.mark.shows("000-61")
@in_every_form
@pytest.mark.parametrize("again", [True, False])
async def test_a_network_error_is_a_reset(tmp_path: Path, stream: bool, again: bool) -> None:
    fields: dict[str, Any] = {"failureStatus": "network_error", "failureRetryable": again}
    async with playing(tmp_path, failing(failureMessage="gone", **fields)) as stage:
        heard = [await stage.ask(dialect, stream=stream) for dialect in DIALECTS]

    for it in (item.raw for item in heard[:1] + heard[2:]):  # the second shares the first's count
        if again:
            assert (it.status, it.how, it.body) == (0, "rst", b"")
        elif stream:
            assert (it.status, it.how, len(it.chunks)) == (200, "rst", 1)
        else:
            assert (it.status, it.header("x-should-retry")) == (502, "false")
            assert b"gone" in it.body


@pytest.mark.shows("000-59")
async def test_a_timeout_is_silence_up_to_a_limit_at_any_pace(tmp_path: Path) -> None:
    document = failing(failureStatus="timeout")
    async with playing(tmp_path, document, silence=0.08, pace=InstantPace()) as stage:
        begun = asyncio.get_running_loop().time()
        heard = await stage.ask()
        took = asyncio.get_running_loop().time() - begun
        then = await stage.ask()

    assert (heard.raw.status, heard.raw.headers, heard.raw.how) == (0, [], "fin")
    assert took >= 0.079
    assert then.turn.text == "At last."


@pytest.mark.shows("000-59")
async def test_a_client_that_gives_up_on_a_timeout_has_used_an_attempt(tmp_path: Path) -> None:
    async with playing(tmp_path, failing(failureStatus="timeout")) as stage:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await stage.ask()
        await until(lambda: stage.entries[0].ending == "client_gone")
        then = await stage.ask()

    assert then.turn.text == "At last."


@pytest.mark.shows("000-59", "000-60", "000-61", "000-101")
@pytest.mark.parametrize("status", ["timeout", "invalid_response", "network_error"])
async def test_a_message_that_no_body_carries_stands_in_log_and_journal(
    tmp_path: Path, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "llm_proxy")
    document = failing(2, failureStatus=status, failureMessage="no luck")
    async with playing(tmp_path, document, silence=0.01) as stage:
        await stage.ask()
        [entry] = (await stage.page("journal"))["entries"]

    note = f"failure 1 of 2: {status}, no luck"
    assert (entry["simulated"]["failure"], entry["simulated"]["notes"]) == (status, [note])
    assert f"POST /v1/chat/completions: test-llm: refund, turn 1; {note}" in caplog.messages


@pytest.mark.shows("000-16", "000-58")
@pytest.mark.parametrize("status", ["", "timeout", "rate_limit", "nonsense"])
def test_what_is_thrown_is_thrown_whatever_its_status(status: str) -> None:
    assert failure(failureThrows=True, failureStatus=status) == FailResponse("thrown", SIMULATED)
    assert failure(failureThrows=True, failureMessage="mine") == FailResponse("thrown", "mine")


@pytest.mark.shows("000-63", "000-65", "000-18")
def test_a_failure_is_a_model_error_unless_it_says_what() -> None:
    assert failure() == FailResponse("model_error", "Simulated failure")


@pytest.mark.shows("000-19")
def test_a_failure_may_be_tried_again_unless_it_says_otherwise() -> None:
    assert failure(failureStatus="network_error").retryable
    assert failure(failureRetryable=True).retryable
    assert not failure(failureRetryable=False).retryable


@pytest.mark.shows("000-20", "000-62")
def test_when_to_try_again_is_told_in_ms() -> None:
    assert failure(failureStatus="rate_limit").retry_after_ms is None
    assert failure(failureStatus="rate_limit", failureRetryAfterMs=20).retry_after_ms == 20


@pytest.mark.shows("000-21")
def test_an_error_of_the_authors_goes_along() -> None:
    error = {"message": "mine", "type": "t", "statusCode": 503, "camelCase": [1]}

    assert failure(failureError=error).error == error
    assert failure().error is None


@pytest.mark.shows("000-64")
def test_a_status_that_there_is_not_is_played_as_a_model_error() -> None:
    assert failure(failureStatus="rate_limited", failureMessage="x") == FailResponse(
        "model_error", "x"
    )


@pytest.mark.shows("000-64")
async def test_loading_warns_of_such_a_status_and_lint_calls_it_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, failing(failureStatus="rate_limted"))
    loaded = loading.load_file(path.name, path.read_bytes())
    linted = await run("scenario", "lint", str(path), folder=tmp_path)

    assert [scenario.value.id for scenario in loaded.scenarios] == ["refund"]
    assert loaded.mistakes == ()
    [warning] = loaded.warnings
    assert "it is played as model_error" in str(warning)
    assert "did you mean rate_limit?" in str(warning)
    assert linted.code == 1
    assert "did you mean rate_limit?" in linted.out


@pytest.mark.shows("000-08 to 000-21")
def test_a_turn_needs_but_its_number_and_its_response() -> None:
    [step] = read(script(says())).turns

    assert (step.turn, step.expected_tools, step.allow_missing_tools) == (1, (), False)
    assert (step.expected_temperature, step.expected_top_p, step.expected_reasoning) == (None,) * 3
    assert (step.failures_before_success, step.failure_throws, step.failure_status) == (
        0,
        False,
        "",
    )
    assert (step.failure_message, step.failure_retryable, step.failure_error) == ("", True, {})
    assert step.failure_retry_after_ms is None
