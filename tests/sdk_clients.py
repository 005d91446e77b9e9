"""The official SDKs, pointed at a proxy of ours: each asks one question and gives all it heard."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import anthropic
import ollama
import openai

NODE: Final = Path(__file__).parent / "judges" / "openai-node"
KEY: Final = "sk-canary-of-a-test"

Ask = Callable[[str, str, int], Awaitable[Any]]
"""Asks a proxy at this URL this question, with so many retries, and gives what the SDK gave."""


def openai_client(url: str, retries: int = 0) -> openai.AsyncOpenAI:
    """OpenAI's own client."""
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=retries)


def anthropic_client(url: str, retries: int = 0) -> anthropic.AsyncAnthropic:
    """Anthropic's own client."""
    return anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=retries)


async def openai_stream(url: str, question: str, retries: int) -> list[dict[str, Any]]:
    """Every chunk of a streamed chat."""
    async with openai_client(url, retries) as client:
        stream = await client.chat.completions.create(
            model="gpt-5", messages=[{"role": "user", "content": question}], stream=True
        )
        return [chunk.to_dict() async for chunk in stream]


async def openai_sync(url: str, question: str, retries: int) -> list[dict[str, Any]]:
    """The same, from the client that knows no event loop."""

    def ask() -> list[dict[str, Any]]:
        with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=retries) as client:
            stream = client.chat.completions.create(
                model="gpt-5", messages=[{"role": "user", "content": question}], stream=True
            )
            return [chunk.to_dict() for chunk in stream]

    return await asyncio.to_thread(ask)


async def openai_whole(url: str, question: str, retries: int) -> dict[str, Any]:
    """A chat that is not streamed."""
    async with openai_client(url, retries) as client:
        answer = await client.chat.completions.create(
            model="gpt-5", messages=[{"role": "user", "content": question}]
        )
        return answer.to_dict()


async def openai_tools(url: str, question: str, retries: int) -> dict[str, Any]:
    """What the SDK makes of a stream of tool calls."""
    async with (
        openai_client(url, retries) as client,
        client.chat.completions.stream(
            model="gpt-5", messages=[{"role": "user", "content": question}]
        ) as stream,
    ):
        return (await stream.get_final_completion()).to_dict()


async def openai_responses(url: str, question: str, retries: int) -> list[dict[str, Any]]:
    """Every event of a streamed response."""
    async with openai_client(url, retries) as client:
        stream = await client.responses.create(model="gpt-5", input=question, stream=True)
        return [event.to_dict() async for event in stream]


async def anthropic_stream(url: str, question: str, retries: int) -> dict[str, Any]:
    """What the SDK makes of a streamed message."""
    async with (
        anthropic_client(url, retries) as client,
        client.messages.stream(
            model="claude-sonnet-5",
            max_tokens=64,
            messages=[{"role": "user", "content": question}],
        ) as stream,
    ):
        return (await stream.get_final_message()).to_dict()


async def anthropic_whole(url: str, question: str, retries: int) -> dict[str, Any]:
    """A message that is not streamed."""
    async with anthropic_client(url, retries) as client:
        answer = await client.messages.create(
            model="claude-sonnet-5",
            max_tokens=64,
            messages=[{"role": "user", "content": question}],
        )
        return answer.to_dict()


async def ollama_stream(url: str, question: str, _retries: int) -> list[dict[str, Any]]:
    """Every line of a streamed chat; this SDK never retries."""
    async with ollama.AsyncClient(host=url) as client:
        stream = await client.chat(
            model="qwen3", messages=[{"role": "user", "content": question}], stream=True
        )
        return [line.model_dump() async for line in stream]


async def ollama_whole(url: str, question: str, _retries: int) -> dict[str, Any]:
    """A completion that is not streamed."""
    async with ollama.AsyncClient(host=url) as client:
        answer: dict[str, Any] = (
            await client.generate(model="qwen3", prompt=question)
        ).model_dump()
        return answer


def node_missing() -> str:
    """Why OpenAI's SDK for Node cannot judge here; empty if it can."""
    if shutil.which("node") is None:
        return "there is no node"
    if not (NODE / "node_modules" / "openai").is_dir():
        return "run scripts/judges for OpenAI's SDK for Node"
    return ""


async def node(url: str, question: dict[str, Any]) -> dict[str, Any]:
    """What OpenAI's SDK for Node heard; `judge.mjs` says how it is spelled."""
    process = await asyncio.create_subprocess_exec(
        "node", str(NODE / "judge.mjs"), f"{url}/v1",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        printed, _ = await process.communicate(json.dumps(question).encode())
    heard: dict[str, Any] = json.loads(printed)
    return heard
