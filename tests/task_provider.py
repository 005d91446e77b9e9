"""What a provider answers to a program with one small task: first a tool call, then a last word.

The tool writes the task's file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from llm_proxy.dialects import Dialect, DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.exchange import Request
from llm_proxy.turns import Text, ToolCall, Turn, Usage
from scripted_provider import provider as telling
from stub_upstream import Script

LINE: Final = "hello from the tool"
"""What stands in the task's file once the tool has run."""
LAST_WORD: Final = "The file is there."

_COST: Final = Usage(input=64, output=32)
_GIVEN: Final = (b'"tool_result"', b'"custom_tool_call_output"')
"""What a conversation holds once a tool has run."""


def provider(file: Path) -> Script:
    """A script for `stub.upstream` that gives these answers, for a task that writes this file."""

    def answer(dialect: Dialect, request: Request, delivery: EncodeContext) -> DialectResponse:
        part = Text(LAST_WORD) if _has_run(request) else _CALLS[dialect.name](file)
        return dialect.encode(request, [Turn((part,), usage=_COST)], delivery)

    return telling(answer)


def _has_run(request: Request) -> bool:
    return any(item in request.body for item in _GIVEN)


def _write(file: Path) -> ToolCall:
    """Claude Code's own tool."""
    arguments = {"file_path": str(file), "content": f"{LINE}\n"}
    return ToolCall("toolu_a", "Write", json.dumps(arguments))


def _patch(file: Path) -> ToolCall:
    """Codex's own tool, which takes plain text."""
    patch = f"*** Begin Patch\n*** Add File: {file.name}\n+{LINE}\n*** End Patch\n"
    return ToolCall("call_a", "apply_patch", patch, (("type", "custom_tool_call"),))


_CALLS: Final = {"anthropic": _write, "openai-responses": _patch}
"""By dialect: the call of the tool that writes this file."""
