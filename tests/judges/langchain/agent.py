"""An agent of LangChain's chat models: it works on files with two tools until the model is done."""

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

KEY: Final = "sk-canary-of-a-test"


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


def work(task: dict[str, Any]) -> str:
    """Do the task; what the model said at last."""
    chat = ChatOpenAI(
        model=task["model"],
        base_url=f"{task['url']}/v1",
        api_key=SecretStr(KEY),
        max_retries=0,
        use_responses_api=task["dialect"] == "openai-responses",
    ).bind_tools(list(TOOLS.values()))
    said: list[BaseMessage] = [SystemMessage(task["system"]), HumanMessage(task["say"])]
    while True:
        answer: AIMessage | None = None
        for piece in chat.stream(said) if task["stream"] else [chat.invoke(said)]:
            answer = piece if answer is None else answer + piece
        said.append(answer)
        if not answer.tool_calls:
            return str(answer.text)
        said += [TOOLS[call["name"]].invoke(call) for call in answer.tool_calls]


print(json.dumps([work(task) for task in json.load(sys.stdin)["tasks"]]))
