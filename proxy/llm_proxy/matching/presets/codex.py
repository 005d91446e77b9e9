"""Codex: it tells the model the day, the machine, and what it rolls for the output of a command."""

from typing import Final

from llm_proxy.matching.normalisers.call_ids import CALL_IDS
from llm_proxy.matching.normalisers.paths import PATHS
from llm_proxy.matching.normalisers.uuids import UUIDS
from llm_proxy.matching.presets.announced_values import announced, announced_in_results, today
from llm_proxy.matching.presets.preset import Preset

_ABOVE: Final = r"(?:(?:Chunk ID|Exit code|Process exited with code):? [^\r\n]{1,60}\n){0,3}"
"""What may stand above the time in front of the output of a command."""

CODEX: Final = Preset(
    name="codex",
    version=2,
    client="Codex CLI",
    steps=(
        today(),
        announced("machine", r"(<(?:shell|timezone)>)[^<>\r\n]{1,100}"),
        announced_in_results("chunk", r"\A(Chunk ID: )[0-9a-f]{1,32}\b"),
        announced_in_results("duration", rf"\A({_ABOVE}Wall time: )[0-9.]{{1,20}} seconds"),
        PATHS.rule(),
        CALL_IDS.rule(),
        UUIDS.rule(),
    ),
)
