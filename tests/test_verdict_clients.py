"""Real clients, good and bad, each judged by what the journal shows of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import anthropic
import ollama
import openai
import pytest

from llm_proxy.faults.grammar import parse_rule
from scenario_server import Stage, playing
from sdk_clients import KEY

Client = Callable[[str], Awaitable[Any]]

ASKED: Final[Any] = [{"role": "user", "content": "Which rivers?"}]


async def openai_streams(url: str) -> None:
    """OpenAI's SDK with its default settings, streaming."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        stream = await client.chat.completions.create(model="m", messages=ASKED, stream=True)
        async for _ in stream:
            pass


async def openai_whole(url: str) -> None:
    """The same, not streaming."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        await client.chat.completions.create(model="m", messages=ASKED)


async def anthropic_streams(url: str) -> None:
    """Anthropic's SDK with its default settings."""
    async with (
        anthropic.AsyncAnthropic(base_url=url, api_key=KEY) as client,
        client.messages.stream(model="m", max_tokens=64, messages=ASKED) as stream,
    ):
        await stream.get_final_message()


async def ollama_streams(url: str) -> None:
    """Ollama's SDK with its default settings."""
    async with ollama.AsyncClient(host=url) as client:
        async for _ in await client.chat(model="m", messages=ASKED, stream=True):
            pass


SDKS: Final[dict[str, Client]] = {
    "openai": openai_streams,
    "anthropic": anthropic_streams,
    "ollama": ollama_streams,
}

GAVE_UP: Final = "gave-up, warning: gave up at the first failure: "


async def heard(url: str, client: Client) -> str:
    """The exception that a client ended with; empty where it was content."""
    try:
        async with asyncio.timeout(20):
            await client(url)
    except Exception as error:
        return type(error).__name__
    return ""


@asynccontextmanager
async def faulty(folder: Path, *rules: str, **about: Any) -> AsyncIterator[Stage]:
    """A model that answers, and these faults on the way to each session."""
    faults = tuple(map(parse_rule, rules))
    async with playing(folder, mock="{reply: Rivers are long.}", faults=faults, **about) as stage:
        yield stage


async def all_judged(
    folder: Path, *rules: str, clients: Mapping[str, Client] = SDKS, **about: Any
) -> dict[str, list[str]]:
    """What is found in each of these clients, each in a session of its own, all at once."""
    async with faulty(folder, *rules, **about) as stage:
        await asyncio.gather(*(heard(f"{stage.url}/@{name}", it) for name, it in clients.items()))
        verdict = await stage.page("verdict", method="GET")
    return {name: found_in(verdict, name) for name in clients}


def found_in(verdict: Any, session: str) -> list[str]:
    """The findings in a session."""
    return [
        f"{finding['rule']}, {finding['level']}: {finding['message']}"
        for finding in verdict["findings"]
        if finding["session"] == session
    ]


async def test_with_default_settings_two_sdks_retry_as_they_should_and_one_never_does(
    tmp_path: Path,
) -> None:
    # Their own pauses: half a second, then a whole one.
    rules = ("status,code=503,nth=1", "status,code=500,nth=2")
    assert await all_judged(tmp_path, *rules) == {
        "openai": [],
        "anthropic": [],
        "ollama": [f"{GAVE_UP}HTTP 503 (fault status,code=503,nth=1)"],
    }


async def test_with_default_settings_they_wait_as_long_as_they_are_told(tmp_path: Path) -> None:
    rule = "status,code=429,retry-after=700ms,nth=1"
    assert await all_judged(tmp_path, rule) == {
        "openai": [],
        "anthropic": [],
        "ollama": [f"{GAVE_UP}HTTP 429, told to wait 700 ms (fault {rule})"],
    }


async def test_with_default_settings_none_asks_again_what_was_refused_for_good(
    tmp_path: Path,
) -> None:
    assert await all_judged(tmp_path, "status,code=400") == {name: [] for name in SDKS}


@pytest.mark.parametrize("rule", ["reset,first=1", "close,first=1"])
async def test_with_default_settings_a_lost_connection_is_asked_again(
    tmp_path: Path, rule: str
) -> None:
    assert await all_judged(tmp_path, rule) == {
        "openai": [],
        "anthropic": [],
        "ollama": [f"{GAVE_UP}a connection that closed before any answer (fault {rule})"],
    }


async def test_with_default_settings_giving_up_at_last_is_a_note(tmp_path: Path) -> None:
    rule = "status,code=429,retry-after=1ms"
    told = f"HTTP 429, told to wait 1.00 ms (fault {rule})"
    assert await all_judged(tmp_path, rule, clients={"openai": openai_whole}) == {
        "openai": [f"gave-up, note: gave up after it had asked 3 times: {told}"]
    }


async def test_with_default_settings_a_stream_that_broke_off_is_lost(tmp_path: Path) -> None:
    words = "a body that broke off after 1 event (fault reset,after=1)"
    assert await all_judged(tmp_path, "reset,after=1") == {
        name: [f"gave-up, note: a stream was lost, and nobody asked again: {words}"]
        for name in SDKS
    }


async def test_with_default_settings_no_sdk_shows_that_it_noticed_a_truncated_stream(
    tmp_path: Path,
) -> None:
    words = "an answer that was not whole was not asked for again, and nothing shows that it was"
    assert await all_judged(tmp_path, "truncate,after=2") == {
        name: [f"truncated-accepted, warning: {words} noticed"] for name in SDKS
    }


@pytest.mark.parametrize(
    ("rule", "lost"),
    [
        ("stall,after=1", "gave-up, note: a stream was lost, and nobody asked again: silence"),
        ("hang", f"{GAVE_UP}no answer"),
    ],
)
async def test_a_silence_that_was_ended_for_it_is_told_with_its_length(
    tmp_path: Path, rule: str, lost: str
) -> None:
    clients = {"ollama": ollama_streams}
    found = (await all_judged(tmp_path, rule, clients=clients, silence=0.3))["ollama"]
    [gave_up, waited] = sorted(found)
    assert gave_up.startswith(lost)
    assert waited.startswith("no-read-timeout, note: waited 3")


async def test_a_page_in_place_of_the_answer_goes_unnoticed_by_some(tmp_path: Path) -> None:
    noticed = await all_judged(tmp_path, "html,code=200,nth=1")
    assert [item.partition(":")[0] for item in noticed["openai"]] == ["truncated-accepted, warning"]


# Clients that were made badly


async def _post(url: str, messages: Any = ASKED) -> tuple[int, str, bool]:
    """A request without any SDK: the status, the text of the answer, and whether it has its end."""
    async with aiohttp.ClientSession(trust_env=False) as session:
        body = {"model": "m", "messages": messages, "stream": True}
        async with session.post(f"{url}/v1/chat/completions", json=body) as response:
            raw = await response.text()
    events = [
        item.removeprefix("data: ") for item in raw.split("\n\n") if item.startswith("data: {")
    ]
    deltas = [json.loads(event)["choices"] for event in events]
    text = "".join(delta[0]["delta"].get("content") or "" for delta in deltas if delta)
    return response.status, text, any(delta[0]["finish_reason"] for delta in deltas if delta)


async def without_backoff(url: str) -> None:
    """Asks until it is answered, at once."""
    for _ in range(5):
        if (await _post(url))[0] == 200:
            return


async def storming(url: str) -> None:
    """Asks far too often, with pauses that grow."""
    for attempt in range(20):
        if (await _post(url))[0] == 200:
            return
        await asyncio.sleep(0.002 * 1.1**attempt)


async def accepting(url: str) -> None:
    """Takes whatever came for the answer, and goes on with it."""
    _, text, _ = await _post(url)
    assert text
    await _post(url, [*ASKED, {"role": "assistant", "content": text}, *ASKED])


async def behaving(url: str) -> None:
    """Asks again after a pause, as often as is fit, and takes only what has its end."""
    for attempt in range(3):
        number, _, has_ended = await _post(url)
        if number == 200 and has_ended:
            return
        await asyncio.sleep(0.15 * 2**attempt)


async def behaving_over_two_turns(url: str) -> None:
    """The same, and it goes on with the answer that was whole."""
    for attempt in range(3):
        number, text, has_ended = await _post(url)
        if number == 200 and has_ended:
            await _post(url, [*ASKED, {"role": "assistant", "content": text}, *ASKED])
            return
        await asyncio.sleep(0.15 * 2**attempt)


async def judged(folder: Path, client: Client, *rules: str) -> Any:
    """The verdict on this client."""
    async with faulty(folder, *rules) as stage:
        await client(stage.url)
        return await stage.page("verdict", method="GET")


@pytest.mark.parametrize(
    ("client", "rules", "expected"),
    [
        (without_backoff, ["status,code=503,first=4"], {"no-backoff": "error"}),
        (
            storming,
            ["status,code=503,first=11"],
            {"retry-storm": "error", "no-backoff": "error"},
        ),
        (accepting, ["truncate,after=3,first=1"], {"truncated-accepted": "error"}),
        (behaving, ["status,code=503,nth=1", "truncate,after=3,nth=2"], {}),
        (behaving_over_two_turns, ["truncate,at=finish,nth=1"], {}),
    ],
    ids=[
        "without backoff", "a storm", "half an answer accepted", "behaving",
        "behaving, and the same words came whole",
    ],
)  # fmt: skip
async def test_a_client_without_an_sdk_is_judged_by_what_it_does(
    tmp_path: Path, client: Client, rules: list[str], expected: dict[str, str]
) -> None:
    verdict = await judged(tmp_path, client, *rules)
    assert {finding["rule"]: finding["level"] for finding in verdict["findings"]} == expected
    assert verdict["faults"] > 0


async def test_half_an_answer_that_was_used_is_proven_by_the_request_that_holds_it(
    tmp_path: Path,
) -> None:
    verdict = await judged(tmp_path, accepting, "truncate,after=3,first=1")
    [finding] = verdict["findings"]
    [evidence] = finding["evidence"]
    assert (evidence["entry"], evidence["did"]) == (1, "sent as history with #2")
