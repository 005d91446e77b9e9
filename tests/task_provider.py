"""A provider for a program with one small task: first a tool call, then a final text.

The tool writes the task's file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from llm_proxy.dialects import Dialect, DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.exchange import Request
from llm_proxy.turns import Text, ToolCall, Turn, Usage
from scripted_provider import provider_script as telling
from stub_upstream import Script

FILE_LINE: Final = "hello from the tool"
"""The content of the task's file after the tool has run."""
FINAL_TEXT: Final = "The file is there."

_USAGE: Final = Usage(input=64, output=32)
_TOOL_RESULT_MARKERS: Final = (b'"tool_result"', b'"custom_tool_call_output"')
"""Substrings of a request body that show that a tool has run."""


def task_provider(file: Path) -> Script:
    """A script for `stub_upstream.upstream` that serves a task that writes this file."""

    def respond(dialect: Dialect, request: Request, context: EncodeContext) -> DialectResponse:
        part = Text(FINAL_TEXT) if _tool_has_run(request) else _CALLS[dialect.name](file)
        return dialect.encode_response(request, [Turn((part,), usage=_USAGE)], context)

    return telling(respond)


def _tool_has_run(request: Request) -> bool:
    return any(item in request.body for item in _TOOL_RESULT_MARKERS)


def _write_call(file: Path) -> ToolCall:
    """A call of Claude Code's `Write` tool."""
    arguments = {"file_path": str(file), "content": f"{FILE_LINE}\n"}
    return ToolCall("toolu_a", "Write", json.dumps(arguments))


def _patch_call(file: Path) -> ToolCall:
    """A call of Codex's `apply_patch` tool, which takes plain text."""
    patch = f"*** Begin Patch\n*** Add File: {file.name}\n+{FILE_LINE}\n*** End Patch\n"
    return ToolCall("call_a", "apply_patch", patch, (("type", "custom_tool_call"),))


_CALLS: Final = {"anthropic": _write_call, "openai-responses": _patch_call}
"""By dialect: builds the call of the tool that writes a file."""
