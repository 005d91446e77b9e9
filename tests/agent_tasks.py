"""Real clients that do a task in a folder, with tools: to write a file, look at it, and say so.

The provider is `llm-proxy simulate`, which plays a scenario made for the folder.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import judge_runner
from real_programs import CLAUDE_CODE, CODEX, Program
from scenario_server import playing

SAY: Final = "Make the file greeting.txt, then look at it."
LINE: Final = "hello"

Calls = tuple[tuple[str, dict[str, Any]], ...]
"""Tools, and what they are called with."""


def last_word(file: Path) -> str:
    """What the model says in the end."""
    return f"The file {file} is there."


@asynccontextmanager
async def provider(folder: Path, file: Path, calls: Calls) -> AsyncIterator[str]:
    """The URL of one that has these calls made, and then says that the file is there."""
    folder.mkdir(parents=True, exist_ok=True)
    steps: list[dict[str, Any]] = [
        {
            "kind": "tool-call",
            "tool_calls": [{"tool_name": tool, "arguments": arguments}],
        }
        for tool, arguments in calls
    ]
    steps.append({"kind": "text", "assistant_text": last_word(file)})
    scenario = {
        "id": "task",
        "description": "Writes a file, and looks at it.",
        "match": {"model": "*"},
        "turns": [{"turn": n, "response": step} for n, step in enumerate(steps, 1)],
    }
    async with playing(folder, scenario) as stage:
        yield stage.url


@dataclass(frozen=True, slots=True)
class Terminal:
    """A program, and the calls of its own tools that do the task."""

    program: Program
    write: str
    read: str

    def calls(self, file: Path) -> Calls:
        """Of the tools that it offers."""
        if self.write == self.read:
            return (
                (self.write, {"cmd": f"echo {LINE} > '{file}'"}),
                (self.read, {"cmd": f"cat '{file}'"}),
            )
        return (
            (self.write, {"file_path": str(file), "content": f"{LINE}\n"}),
            (self.read, {"file_path": str(file)}),
        )


def _asking(program: Program, *more: str) -> Program:
    """The program with this task, and nothing else that is the same at every start."""
    kept = [
        argument
        for argument in program.arguments
        if argument.startswith(("--skip", "--danger", "exec", "-p"))
    ]
    flags = [item for item in kept if item.startswith("--")]
    verb = next(item for item in kept if not item.startswith("--"))
    return Program(
        program.name, program.launcher, (verb, SAY, *flags, *more), program.environment,
        program.furnish, program.asks, program.rolls, program.late,
    )  # fmt: skip


TERMINALS: Final = {
    "claude-code": Terminal(
        _asking(CLAUDE_CODE, "--allowedTools", "Write,Read", "--model", "claude-sonnet-5"),
        "Write",
        "Read",
    ),
    "codex": Terminal(_asking(CODEX), "exec_command", "exec_command"),
}
"""By the name of their preset."""

LIBRARIES: Final = {"langchain": "agent.py", "pydantic-ai": "agent.py", "ai-sdk": "agent.mjs"}
"""The programs of those that are no programs themselves, by the name of their preset."""
_OF_OPENAI: Final = (("openai-chat", True), ("openai-responses", False))
ASKED: Final = {
    "langchain": _OF_OPENAI,
    "pydantic-ai": _OF_OPENAI,
    "ai-sdk": (*_OF_OPENAI, ("anthropic", True), ("gemini", True)),
}
"""In which dialects they ask, and whether for a stream: each class costs seconds to import."""
_MODELS: Final = {"anthropic": "claude-sonnet-5", "gemini": "gemini-3-pro"}


def library_calls(file: Path) -> Calls:
    """Of the tools that the agents offer."""
    return (
        ("write_file", {"path": str(file), "content": f"{LINE}\n"}),
        ("read_file", {"path": str(file)}),
    )


async def ask(library: str, url: str, system: str) -> list[str]:
    """What the model said at last to an agent of this library, in one dialect after the other."""
    tasks = [
        {
            "dialect": dialect, "model": _MODELS.get(dialect, "gpt-5"), "stream": stream,
            "url": url, "system": system, "say": SAY,
        }
        for dialect, stream in ASKED[library]
    ]  # fmt: skip
    program = judge_runner.FOLDER / library / LIBRARIES[library]
    said: list[str] = json.loads(await judge_runner.run(program, {"tasks": tasks}))
    return said
