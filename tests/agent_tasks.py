"""Real agents that do a task with tools: to write a file, read it, and report that.

The provider is `llm-proxy simulate`, which serves a scenario generated for the folder.
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
from scenario_server import serve_scenarios

PROMPT: Final = "Make the file greeting.txt, then look at it."
FILE_LINE: Final = "hello"

Calls = tuple[tuple[str, dict[str, Any]], ...]
"""Tool names, with the arguments of their calls."""


def final_text(file: Path) -> str:
    """The model's final text."""
    return f"The file {file} is there."


@asynccontextmanager
async def task_provider(folder: Path, file: Path, calls: Calls) -> AsyncIterator[str]:
    """Run a provider that requests these calls and then sends the final text; yield its URL."""
    folder.mkdir(parents=True, exist_ok=True)
    steps: list[dict[str, Any]] = [
        {
            "kind": "tool-call",
            "tool_calls": [{"tool_name": tool, "arguments": arguments}],
        }
        for tool, arguments in calls
    ]
    steps.append({"kind": "text", "assistant_text": final_text(file)})
    scenario = {
        "id": "task",
        "description": "Writes a file, and looks at it.",
        "match": {"model": "*"},
        "turns": [{"turn": n, "response": step} for n, step in enumerate(steps, 1)],
    }
    async with serve_scenarios(folder, scenario) as stage:
        yield stage.url


@dataclass(frozen=True, slots=True)
class TerminalAgent:
    """A terminal program, and the names of its own tools that do the task."""

    program: Program
    write_tool: str
    read_tool: str

    def tool_calls(self, file: Path) -> Calls:
        """Return the calls of its tools that do the task."""
        if self.write_tool == self.read_tool:
            return (
                (self.write_tool, {"cmd": f"echo {FILE_LINE} > '{file}'"}),
                (self.read_tool, {"cmd": f"cat '{file}'"}),
            )
        return (
            (self.write_tool, {"file_path": str(file), "content": f"{FILE_LINE}\n"}),
            (self.read_tool, {"file_path": str(file)}),
        )


def _with_task(program: Program, *extra_arguments: str) -> Program:
    """Return the program with this task, without its arguments that only fix the request."""
    kept_arguments = [
        argument
        for argument in program.arguments
        if argument.startswith(("--skip", "--danger", "exec", "-p"))
    ]
    flags = [item for item in kept_arguments if item.startswith("--")]
    leading_argument = next(item for item in kept_arguments if not item.startswith("--"))
    return Program(
        program.name,
        program.launcher,
        (leading_argument, PROMPT, *flags, *extra_arguments),
        program.environment,
        program.prepare_home,
        program.request_line,
        program.varying_paths,
        program.shell_arguments,
    )


TERMINAL_AGENTS: Final = {
    "claude-code": TerminalAgent(
        _with_task(CLAUDE_CODE, "--allowedTools", "Write,Read", "--model", "claude-sonnet-5"),
        "Write",
        "Read",
    ),
    "codex": TerminalAgent(_with_task(CODEX), "exec_command", "exec_command"),
}
"""Terminal programs, by the name of their preset."""

LIBRARY_PROGRAMS: Final = {
    "langchain": "agent.py",
    "pydantic-ai": "agent.py",
    "ai-sdk": "agent.mjs",
}
"""Script names of the agents built with libraries, by the name of the library's preset."""
_OF_OPENAI: Final = (("openai-chat", True), ("openai-responses", False))
DIALECTS_BY_LIBRARY: Final = {
    "langchain": _OF_OPENAI,
    "pydantic-ai": _OF_OPENAI,
    "ai-sdk": (*_OF_OPENAI, ("anthropic", True), ("gemini", True)),
}
"""The tested dialects, each with whether to stream; few, as each class takes seconds to import."""
_MODELS: Final = {"anthropic": "claude-sonnet-5", "gemini": "gemini-3-pro"}


def library_calls(file: Path) -> Calls:
    """Return the calls of the library agents' tools that do the task."""
    return (
        ("write_file", {"path": str(file), "content": f"{FILE_LINE}\n"}),
        ("read_file", {"path": str(file)}),
    )


async def run_library_agent(library: str, url: str, system: str) -> list[str]:
    """Run an agent of this library in each of its dialects, and return the model's final texts."""
    tasks = [
        {
            "dialect": dialect, "model": _MODELS.get(dialect, "gpt-5"), "stream": stream,
            "url": url, "system": system, "say": PROMPT,
        }
        for dialect, stream in DIALECTS_BY_LIBRARY[library]
    ]  # fmt: skip
    program = judge_runner.FOLDER / library / LIBRARY_PROGRAMS[library]
    final_texts: list[str] = json.loads(await judge_runner.run_program(program, {"tasks": tasks}))
    return final_texts
