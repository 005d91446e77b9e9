"""Codex: it tells the model the day, the machine, and what it rolls for the output of a command."""

from typing import Final

from llm_proxy.matching.normalisers.call_ids import CALL_IDS
from llm_proxy.matching.normalisers.paths import PATHS
from llm_proxy.matching.normalisers.uuids import UUIDS
from llm_proxy.matching.presets.announcing import announced, today
from llm_proxy.matching.presets.preset import Preset

CODEX: Final = Preset(
    name="codex",
    version=1,
    client="Codex CLI",
    steps=(
        today(),
        announced("machine", r"(<(?:shell|timezone)>)[^<>\r\n]{1,100}"),
        announced("chunk", r"((?:^|\n)Chunk ID: )[0-9a-f]{1,32}\b"),
        announced("duration", r"((?:^|\n)Wall time: )[0-9.]{1,20} seconds"),
        PATHS.rule(),
        CALL_IDS.rule(),
        UUIDS.rule(),
    ),
)
