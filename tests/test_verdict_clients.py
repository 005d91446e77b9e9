"""Verdicts on real clients, good and bad, from the journal."""

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

from case_tables import each_row
from fast_retry_sdks import FastRetryOpenAI
from llm_proxy.faults.grammar import parse_rule
from raw_http import build_http_request, open_line
from scenario_server import ScenarioServer, serve_scenarios
from sdk_clients import KEY
from waiting import wait_until

Client = Callable[[str], Awaitable[Any]]

MESSAGES: Final[Any] = [{"role": "user", "content": "Which rivers?"}]


async def openai_streams(url: str) -> None:
    """OpenAI's SDK with its default settings, streaming."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        async for _ in stream:
            pass


async def openai_whole(url: str) -> None:
    """OpenAI's SDK with its default settings, not streaming."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        await client.chat.completions.create(model="m", messages=MESSAGES)


async def anthropic_streams(url: str) -> None:
    """Anthropic's SDK with its default settings."""
    async with (
        anthropic.AsyncAnthropic(base_url=url, api_key=KEY) as client,
        client.messages.stream(model="m", max_tokens=64, messages=MESSAGES) as stream,
    ):
        await stream.get_final_message()


async def ollama_streams(url: str) -> None:
    """Ollama's SDK with its default settings."""
    async with ollama.AsyncClient(host=url) as client:
        async for _ in await client.chat(model="m", messages=MESSAGES, stream=True):
            pass


SDKS: Final[dict[str, Client]] = {
    "openai": openai_streams,
    "anthropic": anthropic_streams,
    "ollama": ollama_streams,
}

GAVE_UP: Final = "gave-up, warning: gave up after the first failure: "


async def exception_name(url: str, client: Client) -> str:
    """The name of the exception that the client raises, or an empty string."""
    try:
        async with asyncio.timeout(20):
            await client(url)
    except Exception as error:
        return type(error).__name__
    return ""


@asynccontextmanager
async def faulty_server(
    folder: Path, *rules: str, **server_settings: Any
) -> AsyncIterator[ScenarioServer]:
    """A mock model with these faults injected into each session."""
    faults = tuple(map(parse_rule, rules))
    async with serve_scenarios(
        folder, mock="{reply: Rivers are long.}", faults=faults, **server_settings
    ) as simulator:
        yield simulator


async def judge_all(
    folder: Path, *rules: str, clients: Mapping[str, Client] = SDKS, **server_settings: Any
) -> dict[str, list[str]]:
    """Run the clients concurrently, each in its own session; return the findings by client."""
    async with faulty_server(folder, *rules, **server_settings) as simulator:
        await asyncio.gather(
            *(
                exception_name(f"{simulator.url}/@{name}", client)
                for name, client in clients.items()
            )
        )
        verdict = await simulator.request_proxy_page("verdict", method="GET")
    return {name: findings_in(verdict, name) for name in clients}


def findings_in(verdict: Any, session: str) -> list[str]:
    """The findings in a session."""
    return [
        f"{finding['rule']}, {finding['level']}: {finding['message']}"
        for finding in verdict["findings"]
        if finding["session"] == session
    ]


async def test_with_default_settings_two_sdks_retry_as_they_should_and_one_never_does(
    tmp_path: Path,
) -> None:
    lost_connection = "connection closed before the response"
    failures = {
        # Their default backoff: 0.5 s, then 1 s.
        ("status,code=503,nth=1", "status,code=500,nth=2"): "HTTP 503",
        ("status,code=429,retry-after=700ms,nth=1",): "HTTP 429, Retry-After 700 ms",
        ("reset,first=1",): lost_connection,
        ("close,first=1",): lost_connection,
    }
    findings = await asyncio.gather(*(judge_all(tmp_path, *rules) for rules in failures))
    assert findings == [
        {
            "openai": [],
            "anthropic": [],
            "ollama": [f"{GAVE_UP}{failure} (fault {rules[0]})"],
        }
        for rules, failure in failures.items()
    ]


async def test_with_default_settings_no_sdk_retries_a_permanent_refusal(
    tmp_path: Path,
) -> None:
    assert await judge_all(tmp_path, "status,code=400") == {name: [] for name in SDKS}


async def test_with_default_settings_giving_up_at_last_is_a_note(tmp_path: Path) -> None:
    rule = "status,code=429,retry-after=1ms"
    failure = f"HTTP 429, Retry-After 1.00 ms (fault {rule})"
    assert await judge_all(tmp_path, rule, clients={"openai": openai_whole}) == {
        "openai": [f"gave-up, note: gave up after 3 attempts: {failure}"]
    }


async def test_with_default_settings_a_stream_that_broke_off_is_lost(tmp_path: Path) -> None:
    message = "body cut off after 1 event (fault reset,after=1)"
    assert await judge_all(tmp_path, "reset,after=1") == {
        name: [f"gave-up, note: did not retry an interrupted stream: {message}"] for name in SDKS
    }


async def test_with_default_settings_no_sdk_shows_that_it_noticed_a_truncated_stream(
    tmp_path: Path,
) -> None:
    message = (
        "did not retry after an incomplete response, and may have accepted the response as complete"
    )
    assert await judge_all(tmp_path, "truncate,after=2") == {
        name: [f"truncated-accepted, warning: {message}"] for name in SDKS
    }


@pytest.mark.parametrize(
    ("rule", "expected_message"),
    [
        ("stall,after=1", "gave-up, note: did not retry an interrupted stream: no more data"),
        ("hang", f"{GAVE_UP}no response"),
    ],
)
async def test_a_silence_that_the_proxy_ended_is_reported_with_its_length(
    tmp_path: Path, rule: str, expected_message: str
) -> None:
    clients = {"ollama": ollama_streams}
    findings = (await judge_all(tmp_path, rule, clients=clients, silence=0.3))["ollama"]
    [gave_up, no_read_timeout] = sorted(findings)
    assert gave_up.startswith(expected_message)
    assert no_read_timeout.startswith("no-read-timeout, note: waited 3")


async def test_a_page_in_place_of_the_answer_goes_unnoticed_by_some(tmp_path: Path) -> None:
    findings = await judge_all(tmp_path, "html,code=200,nth=1")
    assert [item.partition(":")[0] for item in findings["openai"]] == [
        "truncated-accepted, warning"
    ]


async def test_an_sdk_whose_retries_find_the_listener_closed_is_not_blamed(tmp_path: Path) -> None:
    async with (
        faulty_server(tmp_path) as simulator,
        open_line(simulator.url) as control,
        FastRetryOpenAI(base_url=f"{simulator.url}/v1", api_key=KEY) as client,
    ):
        await client.chat.completions.create(model="m", messages=MESSAGES)
        rules = json.dumps({"faults": ["refuse,window=1h"]}).encode()
        await control.send(build_http_request("/_proxy/faults", rules, "Host: HOST", method="PUT"))
        await control.read_response()
        await wait_until(lambda: bool(simulator.journal.listener_closures))
        with pytest.raises(openai.APIConnectionError):
            await client.chat.completions.create(model="m", messages=MESSAGES)
        await control.send(build_http_request("/_proxy/verdict", b"", "Host: HOST", method="GET"))
        verdict = json.loads((await control.read_response()).body)

    assert (verdict["ok"], verdict["faults"]) == (True, 1)
    [finding] = findings_in(verdict, "default")
    assert finding == (
        "gave-up, note: gave up after the first failure: connection closed before the response "
        "(fault refuse,window=1h); a retry may have been refused while the listener was closed"
    )


# Clients without an SDK


async def _post(url: str, messages: Any = MESSAGES) -> tuple[int, str, bool]:
    """Send a request without an SDK; return the status, the text, and whether it has finished."""
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


async def retry_without_backoff(url: str) -> None:
    """Retry until success, without a pause."""
    for _ in range(5):
        if (await _post(url))[0] == 200:
            return


async def retry_in_a_storm(url: str) -> None:
    """Retry far too often, with growing pauses."""
    for attempt in range(20):
        if (await _post(url))[0] == 200:
            return
        await asyncio.sleep(0.002 * 1.1**attempt)


async def accept_partial_answer(url: str) -> None:
    """Accept any response as complete and continue the conversation with it."""
    _, text, _ = await _post(url)
    assert text
    await _post(url, [*MESSAGES, {"role": "assistant", "content": text}, *MESSAGES])


async def retry_properly(url: str) -> None:
    """Retry with backoff a limited number of times, and accept only a complete response."""
    for attempt in range(3):
        status, _, has_ended = await _post(url)
        if status == 200 and has_ended:
            return
        await asyncio.sleep(0.15 * 2**attempt)


async def retry_properly_over_two_turns(url: str) -> None:
    """The same, and continue the conversation with the complete response."""
    for attempt in range(3):
        status, text, has_ended = await _post(url)
        if status == 200 and has_ended:
            await _post(url, [*MESSAGES, {"role": "assistant", "content": text}, *MESSAGES])
            return
        await asyncio.sleep(0.15 * 2**attempt)


async def judge(folder: Path, client: Client, *rules: str) -> Any:
    """Run the client; return the verdict on it."""
    async with faulty_server(folder, *rules) as simulator:
        await client(simulator.url)
        return await simulator.request_proxy_page("verdict", method="GET")


@each_row(
    ("client", "rules", "expected"),
    [
        (retry_without_backoff, ["status,code=503,first=4"], {"no-backoff": "error"}),
        (
            retry_in_a_storm,
            ["status,code=503,first=11"],
            {"retry-storm": "error", "no-backoff": "error"},
        ),
        (accept_partial_answer, ["truncate,after=3,first=1"], {"truncated-accepted": "error"}),
        (retry_properly, ["status,code=503,nth=1", "truncate,after=3,nth=2"], {}),
        (retry_properly_over_two_turns, ["truncate,at=finish,nth=1"], {}),
    ],
    ids=[
        "without backoff", "a storm", "half an answer accepted", "behaving",
        "behaving, and the same words came whole",
    ],
)  # fmt: skip
async def test_a_client_without_an_sdk_is_judged_by_what_it_does(
    tmp_path: Path, client: Client, rules: list[str], expected: dict[str, str]
) -> None:
    verdict = await judge(tmp_path, client, *rules)
    assert {finding["rule"]: finding["level"] for finding in verdict["findings"]} == expected
    assert verdict["faults"] > 0


async def test_half_an_answer_that_was_used_is_proven_by_the_request_that_holds_it(
    tmp_path: Path,
) -> None:
    verdict = await judge(tmp_path, accept_partial_answer, "truncate,after=3,first=1")
    [finding] = verdict["findings"]
    [evidence] = finding["evidence"]
    assert (evidence["entry"], evidence["reaction"]) == (1, "sent in the history of request #2")
