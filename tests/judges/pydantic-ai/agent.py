"""An agent with Pydantic AI: it reads and writes files with two tools until the model is done."""

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

API_KEY: Final = "sk-canary-of-a-test"


def write_file(path: str, content: str) -> str:
    """Write a file."""
    Path(path).write_text(content)
    return f"{path} is written"


def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


def create_model(dialect: str, url: str, model_name: str) -> Model:
    """Create the model class of one of OpenAI's dialects."""
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key=API_KEY, max_retries=0)
    provider = OpenAIProvider(openai_client=client)
    if dialect == "openai-responses":
        return OpenAIResponsesModel(model_name, provider=provider)
    return OpenAIChatModel(model_name, provider=provider)


async def run_task(task: dict[str, Any]) -> str:
    """Run a task to its end and return the model's last text."""
    agent = Agent(
        create_model(task["dialect"], task["url"], task["model"]),
        system_prompt=task["system"],
        tools=[write_file, read_file],
    )
    if not task["stream"]:
        return (await agent.run(task["say"])).output
    async with agent.run_stream(task["say"]) as result:
        return await result.get_output()


async def main() -> None:
    """Run the tasks on stdin, one after the other."""
    print(json.dumps([await run_task(task) for task in json.load(sys.stdin)["tasks"]]))


asyncio.run(main())
