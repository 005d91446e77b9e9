"""Simulation with slow functions, large bodies, odd characters and secrets."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from case_tables import each_row
from llm_proxy.shell.running.active_modes import run_in_thread
from raw_http import build_http_request, send_request
from scenario_server import (
    mismatch_message,
    scenario_document,
    serve_scenarios,
    text_turn,
)

RESPONDERS = """
import threading
begun, free = threading.Event(), threading.Event()

def wait(cue):
    begun.set()
    free.wait(20)
    return "At last."

def leave(cue):
    raise SystemExit(3)

def lines(cue):
    return {"content": "one\\u2028two\\x7f"}
"""


@pytest.fixture
def responder_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an importable module of respond functions, new for each test."""
    module_name = f"blocking_{abs(hash(tmp_path))}"
    (tmp_path / f"{module_name}.py").write_text(RESPONDERS)
    monkeypatch.syspath_prepend(tmp_path)
    return module_name


async def test_a_slow_function_delays_no_other_request(
    tmp_path: Path, responder_module: str
) -> None:
    async with serve_scenarios(tmp_path, respond=f"{responder_module}:wait") as simulator:
        pending_response = asyncio.ensure_future(simulator.send(texts=("Hi",)))
        imported_module: Any = __import__(responder_module)
        await asyncio.to_thread(imported_module.begun.wait, 10)
        health = await simulator.request_proxy_page("health")
        imported_module.free.set()
        response = await pending_response

    assert health["ok"]
    assert response.turn.text == "At last."


async def test_a_function_that_ends_the_process_is_an_error_and_ends_nothing(
    tmp_path: Path, responder_module: str
) -> None:
    async with serve_scenarios(tmp_path, respond=f"{responder_module}:leave") as simulator:
        first, second = [await simulator.send(texts=("Hi",)) for _ in range(2)]

    assert first.raw_response.status == second.raw_response.status == 500
    assert "SystemExit" in first.raw_response.body.decode()


async def test_a_reply_may_hold_any_character(tmp_path: Path, responder_module: str) -> None:
    async with serve_scenarios(tmp_path, respond=f"{responder_module}:lines") as simulator:
        assert (await simulator.send(texts=("Hi",))).turn.text == "one\u2028two\x7f"


async def test_run_in_thread_returns_the_result_and_raises_the_error() -> None:
    assert await run_in_thread(threading.current_thread) is not threading.main_thread()
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(lambda: 1 // 0)


def nested_list(levels: int) -> Any:
    """Lists nested to this depth."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@each_row("levels", [50, 150, 900])
async def test_a_path_does_not_match_a_body_that_is_nested_too_deeply(
    tmp_path: Path, levels: int
) -> None:
    match = {"json": {"$..zzz": {"exists": True}}}
    async with serve_scenarios(tmp_path, scenario_document(text_turn(), match=match)) as simulator:
        response = await simulator.send(texts=("x",), more={"extra": nested_list(levels)})

    assert mismatch_message(response).startswith("Scenario not found: x.")


async def test_true_is_not_1_in_a_match(tmp_path: Path) -> None:
    match = {"json": {"$.n": {"equals": True}}}
    async with serve_scenarios(
        tmp_path, scenario_document(text_turn("True."), match=match)
    ) as simulator:
        responses = [await simulator.send(texts=("x",), more={"n": n}) for n in (1, True)]

    assert [item.raw_response.status for item in responses] == [424, 200]


async def test_an_unknown_named_scenario_is_reported_even_with_a_mock(
    tmp_path: Path,
) -> None:
    async with serve_scenarios(
        tmp_path, scenario_document(text_turn()), mock="{reply: Mocked.}"
    ) as simulator:
        misspelt = await simulator.send(header="x-llm-proxy-scenario: refnd")
        unnamed = await simulator.send(texts=("Anything",))

    assert "Scenario not found: refnd" in mismatch_message(misspelt)
    assert unnamed.turn.text == "Mocked."


@pytest.mark.parametrize("mode", ["replay", "auto"])
async def test_with_cassettes_a_request_without_a_scenario_is_a_miss(
    tmp_path: Path, mode: Any
) -> None:
    async with serve_scenarios(
        tmp_path, scenario_document(text_turn()), mode=mode, on_miss="scenario"
    ) as simulator:
        response = await simulator.send(texts=("unknown",))

    assert (response.raw_response.status, response.raw_response.header("x-llm-proxy-error")) == (
        424,
        "cassette_not_found",
    )
    assert simulator.journal.counts.missed == 1


async def test_the_order_of_named_scenarios_changes_no_byte(tmp_path: Path) -> None:
    documents = [
        scenario_document(text_turn("A."), name="a"),
        scenario_document(text_turn("B."), name="b"),
    ]
    bodies: dict[str, dict[str, bytes]] = {}
    for order in ("ab", "ba"):
        async with serve_scenarios(tmp_path, *documents) as simulator:
            bodies[order] = {
                scenario_id: (
                    await simulator.send(header=f"x-llm-proxy-scenario: {scenario_id}")
                ).raw_response.body
                for scenario_id in order
            }

    assert bodies["ab"] == bodies["ba"]


async def test_a_credential_that_a_message_repeats_is_in_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "sk-canary-0123456789abcdef"
    body = {"model": "m", "messages": [{"role": "user", "content": f"my key is {key}"}]}
    request = build_http_request(
        "/v1/chat/completions", json.dumps(body).encode(), f"Authorization: Bearer {key}"
    )
    async with serve_scenarios(tmp_path, scenario_document(text_turn())) as simulator:
        raw = await send_request(simulator.url, request)
        pages = [await simulator.request_proxy_page(item) for item in ("journal", "unsuccessful")]

    assert raw.status == 424
    assert "Scenario not found" in caplog.text
    assert key not in caplog.text + json.dumps(pages)


async def test_a_block_of_instructions_that_asks_for_too_much_is_not_followed(
    tmp_path: Path,
) -> None:
    call = {"name": "a", "args": {}}
    oversized = {"messages": [{"tool_call": [call] * 500}] * 3}
    prompt = f"<|instruction_start|>{json.dumps(oversized)}<|instruction_end|>"
    async with serve_scenarios(tmp_path) as simulator:
        response = await simulator.send(texts=(prompt,), stream=False)

    assert response.turn.text.endswith(prompt)


async def test_a_stored_response_is_retrieved_in_its_own_dialect_alone(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, scenario_document(text_turn("Kept."))) as simulator:
        response = await simulator.send("openai-responses", stream=False)
        response_id = response.turn.id
        retrieved = await send_request(
            simulator.url, build_http_request(f"/v1/responses/{response_id}", b"", method="GET")
        )
        other_endpoint = await send_request(
            simulator.url, build_http_request(f"/v1/models/{response_id}", b"", method="GET")
        )

    assert json.loads(retrieved.body)["id"] == response_id
    assert other_endpoint.status == 404


async def test_an_answer_that_is_not_to_be_stored_is_not_found(tmp_path: Path) -> None:
    async with serve_scenarios(tmp_path, scenario_document(text_turn("Gone."))) as simulator:
        response = await simulator.send("openai-responses", stream=False, more={"store": False})
        retrieved = await send_request(
            simulator.url,
            build_http_request(f"/v1/responses/{response.turn.id}", b"", method="GET"),
        )

    assert retrieved.status == 404
