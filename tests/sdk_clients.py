"""Official SDK clients of a proxy: each sends one question and returns the whole response."""

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

SdkCall = Callable[[str, str, int], Awaitable[Any]]
"""Sends a question to the proxy at a URL with so many retries; returns what the SDK returns."""


def openai_client(url: str, retries: int = 0) -> openai.AsyncOpenAI:
    """OpenAI's official client."""
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=retries)


def anthropic_client(url: str, retries: int = 0) -> anthropic.AsyncAnthropic:
    """Anthropic's official client."""
    return anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=retries)


async def openai_stream(url: str, question: str, retries: int) -> list[dict[str, Any]]:
    """Return every chunk of a streamed chat completion."""
    async with openai_client(url, retries) as client:
        stream = await client.chat.completions.create(
            model="gpt-5", messages=[{"role": "user", "content": question}], stream=True
        )
        return [chunk.to_dict() async for chunk in stream]


async def openai_sync(url: str, question: str, retries: int) -> list[dict[str, Any]]:
    """Return the same from the synchronous client."""

    def read_chunks() -> list[dict[str, Any]]:
        with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=retries) as client:
            stream = client.chat.completions.create(
                model="gpt-5", messages=[{"role": "user", "content": question}], stream=True
            )
            return [chunk.to_dict() for chunk in stream]

    return await asyncio.to_thread(read_chunks)


async def openai_whole(url: str, question: str, retries: int) -> dict[str, Any]:
    """Return a chat completion that is not streamed."""
    async with openai_client(url, retries) as client:
        response = await client.chat.completions.create(
            model="gpt-5", messages=[{"role": "user", "content": question}]
        )
        return response.to_dict()


async def openai_tools(url: str, question: str, retries: int) -> dict[str, Any]:
    """Return the completion that the SDK assembles from a stream of tool calls."""
    async with (
        openai_client(url, retries) as client,
        client.chat.completions.stream(
            model="gpt-5", messages=[{"role": "user", "content": question}]
        ) as stream,
    ):
        return (await stream.get_final_completion()).to_dict()


async def openai_responses(url: str, question: str, retries: int) -> list[dict[str, Any]]:
    """Return every event of a streamed response."""
    async with openai_client(url, retries) as client:
        stream = await client.responses.create(model="gpt-5", input=question, stream=True)
        return [event.to_dict() async for event in stream]


async def anthropic_stream(url: str, question: str, retries: int) -> dict[str, Any]:
    """Return the message that the SDK assembles from a stream."""
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
    """Return a message that is not streamed."""
    async with anthropic_client(url, retries) as client:
        response = await client.messages.create(
            model="claude-sonnet-5",
            max_tokens=64,
            messages=[{"role": "user", "content": question}],
        )
        return response.to_dict()


async def ollama_stream(url: str, question: str, _retries: int) -> list[dict[str, Any]]:
    """Return every line of a streamed chat; this SDK never retries."""
    async with ollama.AsyncClient(host=url) as client:
        stream = await client.chat(
            model="qwen3", messages=[{"role": "user", "content": question}], stream=True
        )
        return [line.model_dump() async for line in stream]


async def ollama_whole(url: str, question: str, _retries: int) -> dict[str, Any]:
    """Return a completion that is not streamed."""
    async with ollama.AsyncClient(host=url) as client:
        response: dict[str, Any] = (
            await client.generate(model="qwen3", prompt=question)
        ).model_dump()
        return response


def node_missing_reason() -> str:
    """Why OpenAI's SDK for Node cannot run here; empty if it can run."""
    if shutil.which("node") is None:
        return "there is no node"
    if not (NODE / "node_modules" / "openai").is_dir():
        return "run scripts/judges for OpenAI's SDK for Node"
    return ""


async def run_node_sdk(url: str, question: dict[str, Any]) -> dict[str, Any]:
    """Return the response of OpenAI's SDK for Node; `judge.mjs` defines its format."""
    process = await asyncio.create_subprocess_exec(
        "node", str(NODE / "judge.mjs"), f"{url}/v1",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        stdout, _ = await process.communicate(json.dumps(question).encode())
    response: dict[str, Any] = json.loads(stdout)
    return response
