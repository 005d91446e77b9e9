"""What a simulation does with what is slow, large, odd or secret."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from llm_proxy.shell.running.simulation import run_in_thread
from raw_http import ask, post
from scenario_server import REPORT, playing, reported, says, script

BLOCKING = """
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
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the operator's, new for each test."""
    name = f"blocking_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(BLOCKING)
    monkeypatch.syspath_prepend(tmp_path)
    return name


async def test_a_function_that_takes_its_time_keeps_nobody_waiting(
    tmp_path: Path, module: str
) -> None:
    async with playing(tmp_path, respond=f"{module}:wait") as stage:
        waiting = asyncio.ensure_future(stage.ask(said=("Hi",)))
        own: Any = __import__(module)
        await asyncio.to_thread(own.begun.wait, 10)
        health = await stage.page("health")
        own.free.set()
        heard = await waiting

    assert health["ok"]
    assert heard.turn.text == "At last."


async def test_a_function_that_ends_the_process_is_an_error_and_ends_nothing(
    tmp_path: Path, module: str
) -> None:
    async with playing(tmp_path, respond=f"{module}:leave") as stage:
        first, again = [await stage.ask(said=("Hi",)) for _ in range(2)]

    assert first.raw.status == again.raw.status == 500
    assert "SystemExit" in first.raw.body.decode()


async def test_a_reply_may_hold_any_character(tmp_path: Path, module: str) -> None:
    async with playing(tmp_path, respond=f"{module}:lines") as stage:
        assert (await stage.ask(said=("Hi",))).turn.text == "one\u2028two\x7f"


async def test_aside_passes_on_what_a_function_gives_and_what_it_raises() -> None:
    assert await run_in_thread(threading.current_thread) is not threading.main_thread()
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(lambda: 1 // 0)


def deep(levels: int) -> Any:
    """Lists within each other."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [50, 150, 900])
async def test_a_path_that_a_body_is_too_deep_for_does_not_match(
    tmp_path: Path, levels: int
) -> None:
    match = {"json": {"$..zzz": {"exists": True}}}
    async with playing(tmp_path, script(says(), match=match)) as stage:
        heard = await stage.ask(said=("x",), more={"extra": deep(levels)})

    assert reported(heard.turn)["report_content"].startswith("# Test Harness Error")


async def test_true_is_not_1_in_a_match(tmp_path: Path) -> None:
    match = {"json": {"$.n": {"equals": True}}}
    async with playing(tmp_path, script(says("True."), match=match)) as stage:
        heard = [await stage.ask(said=("x",), more={"n": n}) for n in (1, True)]

    assert [REPORT in item.raw.body.decode() for item in heard] == [True, False]


async def test_a_named_scenario_that_is_not_there_is_told_though_there_is_a_mock(
    tmp_path: Path,
) -> None:
    async with playing(tmp_path, script(says()), mock="{reply: Mocked.}") as stage:
        misspelt = await stage.ask(header="x-llm-proxy-scenario: refnd")
        unnamed = await stage.ask(said=("Anything",))

    assert "Scenario not found: refnd" in reported(misspelt.turn)["report_content"]
    assert unnamed.turn.text == "Mocked."


@pytest.mark.parametrize("mode", ["replay", "auto"])
async def test_beside_cassettes_a_request_without_a_scenario_is_a_miss(
    tmp_path: Path, mode: Any
) -> None:
    async with playing(tmp_path, script(says()), mode=mode, on_miss="scenario") as stage:
        heard = await stage.ask(said=("unknown",))

    assert (heard.raw.status, heard.raw.header("x-llm-proxy-error")) == (424, "cassette_not_found")
    assert stage.journal.counts.missed == 1


async def test_the_order_of_named_scenarios_changes_no_byte(tmp_path: Path) -> None:
    documents = [script(says("A."), name="a"), script(says("B."), name="b")]
    heard: dict[str, dict[str, bytes]] = {}
    for order in ("ab", "ba"):
        async with playing(tmp_path, *documents) as stage:
            heard[order] = {
                name: (await stage.ask(header=f"x-llm-proxy-scenario: {name}")).raw.body
                for name in order
            }

    assert heard["ab"] == heard["ba"]


async def test_a_credential_that_a_message_repeats_is_in_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "sk-canary-0123456789abcdef"
    body = {"model": "m", "messages": [{"role": "user", "content": f"my key is {key}"}]}
    asked = post("/v1/chat/completions", json.dumps(body).encode(), f"Authorization: Bearer {key}")
    async with playing(tmp_path, script(says())) as stage:
        raw = await ask(stage.url, asked)
        told = [await stage.page(item) for item in ("journal", "unsuccessful")]

    assert raw.status == 200
    assert "Scenario not found" in caplog.text
    assert key not in caplog.text + json.dumps(told)


async def test_a_block_of_instructions_that_asks_for_too_much_is_not_followed(
    tmp_path: Path,
) -> None:
    call = {"name": "a", "args": {}}
    many = {"messages": [{"tool_call": [call] * 500}] * 3}
    said = f"<|instruction_start|>{json.dumps(many)}<|instruction_end|>"
    async with playing(tmp_path) as stage:
        heard = await stage.ask(said=(said,), stream=False)

    assert heard.turn.text.endswith(said)


async def test_an_answer_is_asked_for_again_in_its_own_dialect_alone(tmp_path: Path) -> None:
    async with playing(tmp_path, script(says("Kept."))) as stage:
        heard = await stage.ask("openai-responses", stream=False)
        name = heard.turn.id
        again = await ask(stage.url, post(f"/v1/responses/{name}", b"", method="GET"))
        elsewhere = await ask(stage.url, post(f"/v1/models/{name}", b"", method="GET"))

    assert json.loads(again.body)["id"] == name
    assert elsewhere.status == 404


async def test_an_answer_that_is_not_to_be_stored_is_not_found(tmp_path: Path) -> None:
    async with playing(tmp_path, script(says("Gone."))) as stage:
        heard = await stage.ask("openai-responses", stream=False, more={"store": False})
        again = await ask(stage.url, post(f"/v1/responses/{heard.turn.id}", b"", method="GET"))

    assert again.status == 404
