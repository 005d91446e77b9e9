"""Preset for Claude Code: it sends the date, the machine and local folders to the model."""

from typing import Final

from llm_proxy.matching.normalisers.call_ids import CALL_IDS
from llm_proxy.matching.normalisers.paths import PATHS
from llm_proxy.matching.normalisers.uuids import UUIDS
from llm_proxy.matching.presets.announced_values import announced_value_rule, current_date_rule
from llm_proxy.matching.presets.preset import Preset

_LINE: Final = r"\n ?-? ?"
_PLATFORM: Final = r"(?:^|\n) ?-? ?Platform: [^\r\n]{1,60}"
"""The line above shell and OS version in its environment block."""
_SHELL: Final = rf"(?:{_LINE}Shell: [^\r\n]{{1,200}})?"

CLAUDE_CODE: Final = Preset(
    name="claude-code",
    version=2,
    client="Claude Code",
    rules=(
        current_date_rule(),
        announced_value_rule(
            "machine",
            rf"({_PLATFORM}{_LINE}Shell: )[^\r\n]{{1,200}}",
            rf"({_PLATFORM}{_SHELL}{_LINE}OS Version: )[^\r\n]{{1,200}}",
        ),
        PATHS.make_rule(),
        CALL_IDS.make_rule(),
        UUIDS.make_rule(),
    ),
)
