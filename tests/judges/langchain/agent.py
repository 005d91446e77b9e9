"""An agent with LangChain's chat models.

It reads and writes files with two tools until the model is done.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

os.environ["LANGSMITH_TRACING"] = "false"  # read at import

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

API_KEY: Final = "sk-canary-of-a-test"


@tool
def write_file(path: str, content: str) -> str:
    """Write a file."""
    Path(path).write_text(content)
    return f"{path} is written"


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()


TOOLS: Final = {"write_file": write_file, "read_file": read_file}


def run_task(task: dict[str, Any]) -> str:
    """Run a task to its end and return the model's last text."""
    model = ChatOpenAI(
        model=task["model"],
        base_url=f"{task['url']}/v1",
        api_key=SecretStr(API_KEY),
        max_retries=0,
        use_responses_api=task["dialect"] == "openai-responses",
    ).bind_tools(list(TOOLS.values()))
    messages: list[BaseMessage] = [SystemMessage(task["system"]), HumanMessage(task["say"])]
    while True:
        reply: AIMessage | None = None
        for chunk in model.stream(messages) if task["stream"] else [model.invoke(messages)]:
            reply = chunk if reply is None else reply + chunk
        messages.append(reply)
        if not reply.tool_calls:
            return str(reply.text)
        messages += [TOOLS[call["name"]].invoke(call) for call in reply.tool_calls]


print(json.dumps([run_task(task) for task in json.load(sys.stdin)["tasks"]]))
