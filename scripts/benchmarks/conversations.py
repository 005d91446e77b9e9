"""What `llm_chat` costs: CPU for a response, and many conversations at the same time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

import aiohttp
from result_table import Row
from server_processes import run_llm_proxy, run_reference_server

from llm_chat import (
    ChatClient,
    ChatOptions,
    Finish,
    HttpProvider,
    HttpSettings,
    ProviderRegistry,
    TextEvent,
    Tool,
    ToolCallResult,
)
from llm_proxy.dialects import dialect_named
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.turns import Text, Turn

CPU_TARGET_MS: Final = 1.0
"""For a response of `_EVENT_COUNT` events, above a request with aiohttp that discards the body."""
GROWTH_TARGET_PERCENT: Final = 10.0
_DIALECTS: Final = (
    *("openai-chat", "openai-responses", "anthropic"),
    *("gemini", "gemini-interactions", "cohere"),
)
_EVENT_COUNT: Final = 20
_BLOCKS: Final = 7
_PAGE_BYTES: Final = 4096
_ANSWER: Final = "Sunny in all three."
_SCENARIO: Final = {
    "id": "weather",
    "description": "Two tools at once, then one, then the answer.",
    "match": {"user": "weather"},
    "turns": [
        {"turn": 1, "response": {"kind": "tool-call", "tool_calls": [
            {"tool_name": "weather", "arguments": {"city": "Oslo"}},
            {"tool_name": "weather", "arguments": {"city": "Rome"}},
        ]}},
        {"turn": 2, "response": {"kind": "tool-call", "tool_calls": [
            {"tool_name": "weather", "arguments": {"city": "Bonn"}},
        ]}},
        {"turn": 3, "response": {"kind": "text", "assistant_text": _ANSWER}},
    ],
}  # fmt: skip
_MESSAGE_COUNT: Final = 6
"""The messages of a whole conversation."""


def measure(folder: Path, *, is_quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    for dialect in _DIALECTS:
        body_file = folder / f"{dialect}.body"
        body_file.write_bytes(_response_body(dialect))
        with run_reference_server("body", str(body_file)) as port:
            yield asyncio.run(_cpu_row(dialect, port, 30 if is_quick else 150))
    scenario_file = folder / "weather.json"
    scenario_file.write_text(json.dumps(_SCENARIO))
    options = ("--scenarios", str(scenario_file), "--pace", "instant")
    with run_llm_proxy(folder, "simulate", *options) as port:
        yield from asyncio.run(_conversation_rows(port, 100 if is_quick else 1000))


def _response_body(name: str) -> bytes:
    """A streamed response with `_EVENT_COUNT` pieces of text."""
    dialect = dialect_named(name)
    request = dialect.sample_request("bench", stream=True)
    pieces = [f"word-{number:03} " for number in range(_EVENT_COUNT)]
    context = EncodeContext("bench", 0, split_text=lambda _: pieces)
    return dialect.encode_response(request, [Turn((Text("".join(pieces)),))], context).body


async def _cpu_row(dialect: str, port: int, rounds: int) -> Row:
    base_url = f"http://127.0.0.1:{port}"
    registry = _registry(dialect, base_url)
    client = ChatClient(registry)

    async def chat() -> None:
        texts = [event async for event in client.chat("hello") if isinstance(event, TextEvent)]
        assert len(texts) == _EVENT_COUNT

    async with aiohttp.ClientSession() as session:
        document = {"model": "default", "messages": [{"role": "user", "content": "hello"}]}

        async def bare_request() -> None:
            async with session.post(base_url, json=document) as response:
                async for _ in response.content.iter_chunks():
                    pass

        differences_ms: list[float] = []
        bare_ms: list[float] = []
        for _ in range(_BLOCKS + 1):
            bare_ms.append(await _cpu_ms(bare_request, rounds))
            differences_ms.append(await _cpu_ms(chat, rounds) - bare_ms[-1])
    await registry.aclose()
    # the first block loads modules
    return Row("chat", f"CPU of {_EVENT_COUNT} events, {dialect}", median(differences_ms[1:]), "ms",
               {"bare request": median(bare_ms[1:])}, CPU_TARGET_MS)  # fmt: skip


async def _cpu_ms(work: Callable[[], Awaitable[None]], rounds: int) -> float:
    """CPU time of this process for one round."""
    began_s = time.process_time()
    for _ in range(rounds):
        await work()
    return (time.process_time() - began_s) / rounds * 1000


async def _conversation_rows(port: int, count: int) -> Iterator[Row]:
    """Two waves of conversations: the second one shows whether memory stays flat."""
    registry = _registry("openai-chat", f"http://127.0.0.1:{port}")
    rates: list[float] = []
    memory_mb: list[float] = []
    for _ in range(3):
        began_s = time.perf_counter()
        answers = await asyncio.gather(*(_converse(registry) for _ in range(count)))
        rates.append(count / (time.perf_counter() - began_s))
        memory_mb.append(_memory_mb())
        assert answers == [_ANSWER] * count
    await registry.aclose()
    growth_percent = (memory_mb[-1] / memory_mb[0] - 1) * 100
    return iter(
        (
            Row("chat", f"{count} conversations of 3 turns at once", median(rates), "/s"),
            Row("chat", "growth of memory in two more waves", growth_percent, "%",
                {"MB after the first": memory_mb[0]}, GROWTH_TARGET_PERCENT),
        )
    )  # fmt: skip


async def _converse(registry: ProviderRegistry) -> str:
    """The answer of one conversation, whose tools and messages are checked."""
    client = ChatClient(registry, tools=[Tool.from_function(weather)])
    answer, result_count, reason = "", 0, ""
    async for event in client.chat("weather", ChatOptions(max_turns=3)):
        match event:
            case TextEvent(text):
                answer += text
            case ToolCallResult(failed=False):
                result_count += 1
            case Finish(reason):
                pass
            case _:
                pass
    assert (reason, result_count, len(client.messages)) == ("complete", 3, _MESSAGE_COUNT)
    return answer


async def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def _registry(dialect: str, base_url: str) -> ProviderRegistry:
    registry = ProviderRegistry()
    settings = HttpSettings(base_url, timeout_s=120.0, max_retries=0)
    registry.register(HttpProvider(dialect, dialect, settings))
    registry.set_default(dialect)
    return registry


def _memory_mb() -> float:
    """The resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES / 1e6
