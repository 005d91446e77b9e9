"""Preset for Claude Code: it sends the date, the machine and local folders to the model."""

from typing import Final

from llm_proxy.matching.presets.preset import Preset, announced_value_rule

_LINE: Final = r"\n ?-? ?"
_PLATFORM: Final = r"(?:^|\n) ?-? ?Platform: [^\r\n]{1,60}"
"""The line above shell and OS version in its environment block."""
_SHELL: Final = rf"(?:{_LINE}Shell: [^\r\n]{{1,200}})?"

CLAUDE_CODE: Final = Preset(
    "claude-code",
    2,
    "Claude Code",
    client_rules=(
        announced_value_rule(
            "machine",
            rf"({_PLATFORM}{_LINE}Shell: )[^\r\n]{{1,200}}",
            rf"({_PLATFORM}{_SHELL}{_LINE}OS Version: )[^\r\n]{{1,200}}",
        ),
    ),
)
