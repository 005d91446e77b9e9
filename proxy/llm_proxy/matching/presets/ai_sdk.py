"""Preset for Vercel's AI SDK: it generates missing call ids, and apps send the date."""

from typing import Final

from llm_proxy.matching.normalisers.call_ids import CALL_IDS
from llm_proxy.matching.normalisers.paths import PATHS
from llm_proxy.matching.normalisers.uuids import UUIDS
from llm_proxy.matching.presets.announced_values import current_date_rule
from llm_proxy.matching.presets.preset import Preset

AI_SDK: Final = Preset(
    name="ai-sdk",
    version=2,
    client="Vercel's AI SDK",
    rules=(current_date_rule(), PATHS.make_rule(), CALL_IDS.make_rule(), UUIDS.make_rule()),
)
