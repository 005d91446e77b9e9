"""Preset for Codex: it sends the date, the machine, random chunk ids and durations of commands."""

from typing import Final

from llm_proxy.matching.presets.preset import (
    Preset,
    announced_value_rule,
    tool_result_value_rule,
)

_LINES_ABOVE: Final = r"(?:(?:Chunk ID|Exit code|Process exited with code):? [^\r\n]{1,60}\n){0,3}"
"""Lines that may precede the wall time above a command's output."""

CODEX: Final = Preset(
    "codex",
    2,
    "Codex CLI",
    client_rules=(
        announced_value_rule("machine", r"(<(?:shell|timezone)>)[^<>\r\n]{1,100}"),
        tool_result_value_rule("chunk", r"\A(Chunk ID: )[0-9a-f]{1,32}\b"),
        tool_result_value_rule("duration", rf"\A({_LINES_ABOVE}Wall time: )[0-9.]{{1,20}} seconds"),
    ),
)
