"""An agent of Pydantic AI: it works on files with two tools until the model is done."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

KEY: Final = "sk-canary-of-a-test"


def write_file(path: str, content: str) -> str:
    """Write a file."""
    Path(path).write_text(content)
    return f"{path} is written"


def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


def model(dialect: str, url: str, name: str) -> Model:
    """The class of a dialect of OpenAI's."""
    openai = AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    provider = OpenAIProvider(openai_client=openai)
    if dialect == "openai-responses":
        return OpenAIResponsesModel(name, provider=provider)
    return OpenAIChatModel(name, provider=provider)


async def work(task: dict[str, Any]) -> str:
    """Do the task; what the model said at last."""
    agent = Agent(
        model(task["dialect"], task["url"], task["model"]),
        system_prompt=task["system"],
        tools=[write_file, read_file],
    )
    if not task["stream"]:
        return (await agent.run(task["say"])).output
    async with agent.run_stream(task["say"]) as result:
        return await result.get_output()


async def main() -> None:
    """One task after the other."""
    print(json.dumps([await work(task) for task in json.load(sys.stdin)["tasks"]]))


asyncio.run(main())
