"""Real clients, good and bad, each judged by what the journal shows of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import aiohttp
import anthropic
import ollama
import openai
import pytest

from llm_proxy.verdict.judging import Verdict
from sdks import KEY
from spoiled import CUT, HANG, MALFORMED, RESET, TRUNCATED, Fault, Spoiled, spoiled, status
from watching import found

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


async def heard(server: Spoiled, name: str, client: Client) -> str:
    """The exception that a client ended with; empty where it was content."""
    try:
        async with asyncio.timeout(20):
            await client(server.session(name))
    except Exception as error:
        return type(error).__name__
    return ""


async def all_judged(*faults: Fault, clients: Mapping[str, Client] = SDKS) -> dict[str, list[str]]:
    """What is found in each of these clients, which meet the faults at the same time."""
    async with spoiled(*faults) as server:
        await asyncio.gather(*(heard(server, name, it) for name, it in clients.items()))
        return {name: found(server.verdict(name)) for name in clients}


async def test_with_default_settings_two_sdks_retry_as_they_should_and_one_never_does() -> None:
    # Their own pauses: half a second, then a whole one.
    assert await all_judged(status(503), status(500)) == {
        "openai": [],
        "anthropic": [],
        "ollama": [f"{GAVE_UP}HTTP 503 (fault status,code=503)"],
    }


async def test_with_default_settings_they_wait_as_long_as_they_are_told() -> None:
    assert await all_judged(status(429, retry_after_ms=700.0)) == {
        "openai": [],
        "anthropic": [],
        "ollama": [f"{GAVE_UP}HTTP 429, told to wait 700 ms (fault status,code=429)"],
    }


async def test_with_default_settings_none_asks_again_what_was_refused_for_good() -> None:
    assert await all_judged(status(400)) == {"openai": [], "anthropic": [], "ollama": []}


async def test_with_default_settings_a_lost_connection_is_asked_again() -> None:
    assert await all_judged(RESET) == {
        "openai": [],
        "anthropic": [],
        "ollama": [f"{GAVE_UP}a connection that closed before any answer (fault reset)"],
    }


async def test_with_default_settings_giving_up_at_last_is_a_note() -> None:
    told = "HTTP 429, told to wait 1.00 ms (fault status,code=429)"
    limits = [status(429, retry_after_ms=1.0)] * 3
    assert await all_judged(*limits, clients={"openai": openai_whole}) == {
        "openai": [f"gave-up, note: gave up after it had asked 3 times: {told}"]
    }


async def test_with_default_settings_a_stream_that_broke_off_is_lost() -> None:
    words = "a body that broke off after 1 event (fault close,after=1)"
    assert await all_judged(CUT) == {
        key: [f"gave-up, note: a stream was lost, and nobody asked again: {words}"] for key in SDKS
    }


async def test_with_default_settings_no_sdk_shows_that_it_noticed_a_truncated_stream() -> None:
    words = "an answer that was not whole was not asked for again, and nothing shows that it was"
    expected = [f"truncated-accepted, warning: {words} noticed"]
    assert await all_judged(TRUNCATED) == dict.fromkeys(SDKS, expected)


async def test_with_default_settings_malformed_json_ends_the_stream() -> None:
    assert await all_judged(MALFORMED, clients={"openai": openai_streams}) == {"openai": []}


async def test_a_silence_that_we_ended_is_told_with_its_length() -> None:
    [gave_up, waited] = (await all_judged(HANG, clients={"ollama": ollama_streams}))["ollama"]
    assert gave_up.startswith(f"{GAVE_UP}no answer")
    assert waited.startswith("no-read-timeout, note: waited 3")


# Clients that were made badly


async def _post(url: str, messages: Any = ASKED) -> tuple[int, str, bool]:
    """A request without any SDK: the status, the text of the answer, and whether it has its end."""
    async with aiohttp.ClientSession(trust_env=False) as session:
        body = {"model": "m", "messages": messages, "stream": True}
        async with session.post(f"{url}/v1/chat/completions", json=body) as response:
            raw = await response.text()
    events = [it.removeprefix("data: ") for it in raw.split("\n\n") if it.startswith("data: {")]
    deltas = [json.loads(it)["choices"] for it in events]
    text = "".join(it[0]["delta"].get("content") or "" for it in deltas if it)
    return response.status, text, any(it[0]["finish_reason"] for it in deltas if it)


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


def rules(it: Verdict) -> dict[str, str]:
    """The findings by rule."""
    return {case.rule.name: str(case.finding.level) for case in it.findings if case.finding}


@pytest.mark.parametrize(
    ("client", "faults", "expected"),
    [
        (without_backoff, [status(503)] * 4, {"no-backoff": "error"}),
        (storming, [status(503)] * 11, {"retry-storm": "error", "no-backoff": "error"}),
        (behaving, [status(503), TRUNCATED], {}),
    ],
)
async def test_a_client_without_an_sdk_is_judged_by_what_it_does(
    client: Client, faults: list[Fault], expected: dict[str, str]
) -> None:
    async with spoiled(*faults) as server:
        await client(server.session("one"))
        it = server.verdict("one")
    assert rules(it) == expected
    assert it.faults == len(faults)


async def test_half_an_answer_that_was_used_is_proven_by_the_request_that_holds_it() -> None:
    async with spoiled(TRUNCATED) as server:
        await accepting(server.session("one"))
        first, second = server.stage.entries("one")
        second.continues = first.number
        it = server.verdict("one")
    assert rules(it) == {"truncated-accepted": "error"}
    [case] = it.findings
    assert case.finding is not None
    [evidence] = case.finding.evidence
    assert (evidence.entry, evidence.did) == (1, "sent as history with #2")
