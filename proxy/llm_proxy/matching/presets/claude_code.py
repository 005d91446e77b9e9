"""Claude Code: it tells the model the day, the machine, and folders of its own."""

from typing import Final

from llm_proxy.matching.normalisers.call_ids import CALL_IDS
from llm_proxy.matching.normalisers.paths import PATHS
from llm_proxy.matching.normalisers.uuids import UUIDS
from llm_proxy.matching.presets.announcing import announced, today
from llm_proxy.matching.presets.preset import Preset

CLAUDE_CODE: Final = Preset(
    name="claude-code",
    version=1,
    client="Claude Code",
    steps=(
        today(),
        announced("machine", r"((?:^|\n) ?-? ?(?:OS Version|Shell): )[^\r\n]{1,200}"),
        PATHS.rule(),
        CALL_IDS.rule(),
        UUIDS.rule(),
    ),
)
